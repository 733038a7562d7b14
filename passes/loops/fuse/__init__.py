"""Grouping linalg ops into kernels."""

from blu.passes.loops.fuse.fuse import Fuse

__all__ = ["Fuse"]
