"""Reverse-mode differentiation as a pass."""

from blu.passes.differentiate.differentiate import Differentiate

__all__ = ["Differentiate"]
