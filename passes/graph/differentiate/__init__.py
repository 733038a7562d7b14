"""Reverse-mode differentiation as a pass."""

from blu.passes.graph.differentiate.differentiate import Differentiate

__all__ = ["Differentiate"]
