"""Tensors made of nothing: constants, and positions along an axis."""

from __future__ import annotations

from blu.dialects.core.constants import encode_signless
from blu.dialects.core.dtypes import i64
from blu.dialects.core.mlir import arith, ir, linalg
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, fill, generic, projection
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar


@lowers("iota")
def lower_iota(op: Lowering) -> ir.Value:
    """The position along one axis, converted to the dtype."""
    shape, dtype, axis = op.result.shape, op.result.dtype, op.attributes["axis"]

    def body(_: ir.Value) -> ir.Value:
        position = arith.index_cast(ir.IntegerType.get_signless(64), linalg.IndexOp(axis).result)
        return Scalar(position, i64).to(dtype).value

    target = empty(shape, element_type(dtype))
    (result,) = generic([], [target], [projection(len(shape), range(len(shape)))], [PARALLEL] * len(shape), body)
    return result


@lowers("constant")
def lower_constant(op: Lowering) -> ir.Value:
    """A dense arith.constant in the signless type."""
    attribute = encode_signless(op.attributes["value"])
    if op.result.ndim and attribute.is_splat and op.result.size:
        scalar = attribute.get_splat_value()
        return fill(arith.constant(scalar.type, scalar), op.result.shape)
    return arith.constant(attribute.type, attribute)
