"""Grouping linalg ops into kernels: `groups.py` chooses, by the rules of `rules.py`, and `fuse.py` writes kernels."""

from blu.passes.loops.fuse.fuse import Fuse

__all__ = ["Fuse"]
