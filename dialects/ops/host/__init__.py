"""Ops that the host computes between a program's kernels, by routines of NumPy's: what no kernel would be faster at."""
