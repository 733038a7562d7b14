"""Kernels of processors, a file for each family."""
