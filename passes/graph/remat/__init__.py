"""Rematerialization: forward results that a gradient computes again rather than finding them in memory."""

from blu.passes.graph.remat.keep_rounded import KeepRounded
from blu.passes.graph.remat.remat import Remat

__all__ = ["KeepRounded", "Remat"]
