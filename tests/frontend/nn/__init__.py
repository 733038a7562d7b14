"""Layers and models as modules."""
