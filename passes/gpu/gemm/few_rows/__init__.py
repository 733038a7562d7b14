"""A few rows times a matrix: bound by reading it, not by multiplying."""
