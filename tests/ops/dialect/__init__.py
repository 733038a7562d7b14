"""How ops are declared: dtypes, inference, verification, effects, printed tables."""
