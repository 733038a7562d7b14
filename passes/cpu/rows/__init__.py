"""Kernels over rows and columns on processors."""
