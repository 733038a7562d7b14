"""The passes that emit kernels for GPUs and take them to the LLVM and NVVM dialects."""
