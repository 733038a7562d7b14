"""`shfl.sync`: what other lanes of the warp have."""

from __future__ import annotations

from blu.dialects.core.mlir import ir, nvvm
from blu.passes.gpu.isa.warp import ALL_LANES, WARP
from blu.passes.gpu.numbers import number


def bfly(value: ir.Value, distance: int) -> ir.Value:
    """The f32 of the lane whose number differs in the bit `distance`."""
    kind = ir.Attribute.parse("#nvvm<shfl_kind bfly>")
    return nvvm.shfl_sync(number(ALL_LANES), value, number(distance), number(WARP - 1), kind)


def idx(value: ir.Value, lane: ir.Value | int, among: int = WARP) -> ir.Value:
    """The 32 bits of another lane, or of the same one for all; of each `among` neighbours by themselves."""
    kind = ir.Attribute.parse("#nvvm<shfl_kind idx>")
    clamp = (WARP - among) << 8 | WARP - 1
    return nvvm.shfl_sync(number(ALL_LANES), value, number(lane), number(clamp), kind)
