"""Ops that hold values back: until others are there, or from gradients."""

from __future__ import annotations

from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import ir
from blu.errors import UnsupportedError
from blu.passes.loops.lower_to_linalg.rules import Lowering, lowers


@lowers("barrier")
def lower_barrier(op: Lowering) -> ir.Value:
    """The barrier stays; bufferization gives it its operand's memory."""
    (operand,) = op.operands
    return ir.Operation.create("blu.barrier", results=[operand.type], operands=[operand]).results[0]


@lowers("refused_gradient")
def lower_refused_gradient(op: Lowering) -> ir.Value:
    """The operand. UnsupportedError where there is a reason why it is none."""
    if op.attributes["reason"]:
        advice = "Or stop gradients before it with blu.stop_gradient."
        raise UnsupportedError(op.attributes["reason"], location=describe(op.operation.location), advice=advice)
    return op.operands[0]


@lowers("stop_gradient")
def lower_stop_gradient(op: Lowering) -> ir.Value:
    """The operand."""
    return op.operands[0]
