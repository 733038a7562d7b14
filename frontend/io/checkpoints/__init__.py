"""Checkpoints: written so that a crash loses nothing, and read with every difference named."""
