"""The CUDA driver, by cuda-bindings or by PyCUDA."""
