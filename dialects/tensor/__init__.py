"""`Tensor`, and the functions of NumPy's that are made of ops."""
