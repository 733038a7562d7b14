"""The analysis of groups of ops over rows and columns, the same for all targets."""
