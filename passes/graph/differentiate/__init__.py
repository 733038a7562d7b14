"""Reverse-mode differentiation as a pass: `differentiate.py` finds declared gradients, `backward.py` writes them."""

from blu.passes.graph.differentiate.differentiate import Differentiate

__all__ = ["Differentiate"]
