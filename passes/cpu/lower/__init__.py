"""The passes that emit kernels for processors and take them to the LLVM dialect."""
