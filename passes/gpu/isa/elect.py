"""`elect.sync`: one thread of a warp."""

from __future__ import annotations

from blu.dialects.core.mlir import ir, nvvm


def elect_sync() -> ir.Value:
    """Whether this is the one thread of its warp that was chosen."""
    return nvvm.elect_sync()
