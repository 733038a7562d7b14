"""From LLVM IR to machine code: the cache of kernels, linking, versions of LLVM."""
