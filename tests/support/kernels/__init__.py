"""Kernels as text, kernels that run here, and what their results are compared with."""
