"""Grouping linalg ops into kernels."""

from blu.passes.fuse.fuse import Fuse

__all__ = ["Fuse"]
