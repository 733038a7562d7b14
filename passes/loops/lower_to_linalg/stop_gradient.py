"""The op at which gradients end: they are there already."""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.passes.loops.lower_to_linalg.rules import Lowering, lowers


@lowers("stop_gradient")
def lower_stop_gradient(op: Lowering) -> ir.Value:
    """The operand."""
    return op.operands[0]
