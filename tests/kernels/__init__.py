"""What kernels compute, by target."""
