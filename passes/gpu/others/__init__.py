"""The other kernels on GPUs: sorting, scans, updates, and the loops that take any op."""
