"""What windows see of rows: a view, or rows put together for others than products."""

from __future__ import annotations

from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import arith, ir, linalg, tensor
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, constant, empty, generic, projection
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.shape import nothing

_SEEN_THROUGH = ("blu.reshape", "blu.transpose", "blu.convert", "blu.barrier")
_PRODUCTS = ("blu.matmul", "blu.contract")


@lowers("row_windows")
def lower_row_windows(op: Lowering) -> ir.Value:
    """The op stays, and bufferization reads its operand's memory with other strides; or it is a loop that copies."""
    (operand,) = op.operands
    if op.result.size == 0:
        return nothing(op)
    if op.moves_in_loops and _has_gaps(op) and not _is_multiplied(op.operation.results[0]):
        return _put_together(op)
    type_ = ir.RankedTensorType.get(list(op.result.shape), ir.RankedTensorType(operand.type).element_type)
    attributes = {name: op.operation.attributes[name] for name in ("sizes", "steps", "start")}
    return ir.Operation.create("blu.row_windows", results=[type_], operands=[operand], attributes=attributes).results[0]


def _has_gaps(op: Lowering) -> bool:
    """Whether each row is seen once, and there are others between them."""
    sizes, steps = op.attributes["sizes"], op.attributes["steps"]
    is_once = all(step >= product(sizes[dim + 1 :]) for dim, step in enumerate(steps))
    return (
        len(op.types[0].shape) == 2
        and is_once
        and any(step > product(sizes[dim + 1 :]) for dim, step in enumerate(steps) if sizes[dim] > 1)
    )


def _is_multiplied(value: ir.Value) -> bool:
    """Whether a product reads a value, seen as it may be: its kernel takes any strides."""
    users = [use.owner.operation for use in value.uses]
    return any(
        user.name in _PRODUCTS or (user.name in _SEEN_THROUGH and _is_multiplied(user.results[0])) for user in users
    )


def _put_together(op: Lowering) -> ir.Value:
    (operand,), shape, index = op.operands, op.result.shape, ir.IndexType.get()

    def body(_: ir.Value) -> ir.Value:
        *places, last = (linalg.IndexOp(dim).result for dim in range(len(shape)))
        row = constant(index, op.attributes["start"])
        for place, step in zip(places, op.attributes["steps"], strict=True):
            row = arith.addi(row, arith.muli(place, constant(index, step)))
        return tensor.extract(operand, [row, last])

    target, all_dims = empty(shape, element_type(op.result.dtype)), projection(len(shape), range(len(shape)))
    (result,) = generic([], [target], [all_dims], [PARALLEL] * len(shape), body)
    return result
