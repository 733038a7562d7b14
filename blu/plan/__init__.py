"""The plan of an executable, below everything: passes write it, the runtime reads it. Needs NumPy only."""
