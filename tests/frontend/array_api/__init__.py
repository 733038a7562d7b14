"""`blu.array_api`, beside NumPy's main namespace."""
