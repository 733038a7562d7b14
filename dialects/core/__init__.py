"""How ops are declared, typed, written in IR, verified and evaluated by NumPy."""
