"""Choices: both bodies are computed, and one is taken. Neither waits for the host, nor does a GPU's graph end there."""

from __future__ import annotations

from blu.dialects.core.mlir import arith, ir
from blu.passes.loops.lower_to_linalg.checks import only_where
from blu.passes.loops.lower_to_linalg.generic import pointwise, shape_of
from blu.passes.loops.lower_to_linalg.rules import Lowering, lowers


@lowers("cond")
def lower_cond(op: Lowering) -> list[ir.Value]:
    """The results of the body that is chosen, element by element; of the other one nothing is looked at."""
    predicate, captured = op.operands
    with only_where(predicate, is_true=True):
        on_true = op.bodies["on_true"](*captured)
    with only_where(predicate, is_true=False):
        on_false = op.bodies["on_false"](*captured)
    return [_chosen(predicate, *pair) for pair in zip(on_true, on_false, strict=True)]


def _chosen(predicate: ir.Value, one: ir.Value, other: ir.Value) -> ir.Value:
    element = ir.RankedTensorType(one.type).element_type
    return pointwise(shape_of(one), [predicate, one, other], element, lambda p, a, b, *_: arith.select(p, a, b))
