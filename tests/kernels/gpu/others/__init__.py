"""Kernels of GPUs, a file for each family: in the interpreter of PTX, and what ptxas makes of them."""
