"""The functions on tensors, named as in NumPy."""
