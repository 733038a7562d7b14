"""Sums of the rows of attention's gradients: which there are, and who adds them up."""
