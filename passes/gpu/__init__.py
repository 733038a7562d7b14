"""Kernels for GPUs: emitters for each family, and the way to the LLVM dialect."""
