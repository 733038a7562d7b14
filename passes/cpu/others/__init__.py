"""The other kernels on processors: sorting, scans, updates, and the loops that take any op."""
