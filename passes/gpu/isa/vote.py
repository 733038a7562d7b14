"""`vote.sync`: for which lanes of the warp something holds."""

from __future__ import annotations

from blu.dialects.core.mlir import ir, nvvm
from blu.passes.gpu.isa.warp import ALL_LANES
from blu.passes.gpu.numbers import i32, number


def ballot(condition: ir.Value) -> ir.Value:
    """An i32 that has bit i where the condition holds in lane i."""
    kind = ir.Attribute.parse("#nvvm<vote_sync_kind ballot>")
    return nvvm.vote_sync(number(ALL_LANES), condition, kind, results=[i32()])
