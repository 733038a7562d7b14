"""Kernels for processors: emitters for each family, and the way to the LLVM dialect (`lower`)."""
