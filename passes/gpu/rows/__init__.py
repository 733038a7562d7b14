"""Kernels over rows and columns on GPUs."""
