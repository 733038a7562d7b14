"""One index of several, all of which are checked at run time."""

from __future__ import annotations

from blu.dialects.core.dtypes import i64
from blu.dialects.core.locations import called_at
from blu.dialects.core.mlir import ir
from blu.passes.loops.lower_to_linalg.checks import check_position
from blu.passes.loops.lower_to_linalg.generic import constant, pointwise
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar


@lowers("checked_index")
def lower_checked_index(op: Lowering) -> ir.Value:
    """A check of each operand, and a loop that makes one index of all."""
    (indices,), (types,) = op.operands, op.types
    sizes, from_end = op.attributes["sizes"], op.attributes["from_end"]
    for value, type_, size in zip(indices, types, sizes, strict=True):
        check_position(value, type_.dtype, size, _reported_as(op), from_end=from_end)

    def body(*scalars: ir.Value) -> ir.Value:
        total = Scalar(constant(ir.IntegerType.get_signless(64), 0), i64)
        for scalar, type_, size in zip(scalars, types, sizes, strict=True):
            wide = Scalar(scalar, type_.dtype).to(i64)
            total = total * size + wide.compare("lt", 0).where(wide + size, wide)
        return total.value

    return pointwise(op.result.shape, indices, element_type(i64), body)


def _reported_as(op: Lowering) -> str:
    """What the op says, if that is a sentence, or else the function that was called."""
    said = op.attributes["reported_as"]
    return said if " " in said else called_at(op.operation.location) or said
