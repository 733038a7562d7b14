"""Shape ops: views where memory can stay where it is, copies into place where it cannot."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import arith, ir, linalg, tensor
from blu.passes.loops.lower_to_linalg.generic import (
    PARALLEL,
    constant,
    empty,
    fill,
    generic,
    pointwise,
    projection,
    reshape,
    shape_of,
    splat_of,
    transpose,
)
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import every, read, within


@lowers("reshape")
def lower_reshape(op: Lowering) -> ir.Value:
    """tensor.collapse_shape and expand_shape, which bufferization turns into views."""
    return reshape(op.operands[0], op.result.shape)


@lowers("transpose")
def lower_transpose(op: Lowering) -> ir.Value:
    """linalg.transpose, which bufferization turns into a view."""
    permutation = op.attributes["permutation"]
    if tuple(permutation) == tuple(range(len(permutation))):
        return op.operands[0]
    return transpose(op.operands[0], permutation)


@lowers("broadcast_to")
def lower_broadcast_to(op: Lowering) -> ir.Value:
    """A loop that copies."""
    if op.types[0].shape == op.result.shape:
        return op.operands[0]
    return pointwise(op.result.shape, op.operands, element_type(op.result.dtype), lambda x: x)


@lowers("slice")
def lower_slice(op: Lowering) -> ir.Value:
    """tensor.extract_slice, which bufferization turns into a view."""
    if op.types[0].shape == op.result.shape:
        return op.operands[0]
    if op.result.size == 0:
        return nothing(op)
    return extract_slice(op.operands[0], op.attributes["starts"], op.result.shape, op.attributes["strides"])


def nothing(op: Lowering) -> ir.Value:
    """A result without elements: a value, which tensor.empty is not."""
    return fill(constant(element_type(op.result.dtype), 0), op.result.shape)


def extract_slice(source: ir.Value, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> ir.Value:
    """tensor.extract_slice at fixed positions."""
    element = ir.RankedTensorType(source.type).element_type
    type_ = ir.RankedTensorType.get(list(sizes), element)
    return tensor.ExtractSliceOp(type_, source, [], [], [], list(offsets), list(sizes), list(strides)).result


def insert_slice(source: ir.Value, target: ir.Value, offsets: Sequence[int], strides: Sequence[int]) -> ir.Value:
    """tensor.insert_slice at fixed positions."""
    sizes = list(shape_of(source))
    return tensor.InsertSliceOp(source, target, [], [], [], list(offsets), sizes, list(strides)).result


@lowers("pad")
def lower_pad(op: Lowering) -> ir.Value:
    """Fill with the padding value, then put the operand in its place."""
    operand, value = op.operands
    if op.types[0].shape == op.result.shape:
        return operand
    if op.moves_in_loops and op.types[0].size and _is_around_rows(op):
        return _padded_by_index(op)
    padded = pointwise(op.result.shape, [value], element_type(op.result.dtype), lambda x: x)
    if op.types[0].size == 0:
        return padded
    return insert_slice(operand, padded, op.attributes["low"], [1] * len(op.result.shape))


def _is_around_rows(op: Lowering) -> bool:
    """Whether padding is whole rows, some of which are beside others of the same image."""
    added = _padded_dims(op)
    return bool(added) and min(added) < len(op.result.shape) - 2 and max(added) < len(op.result.shape) - 1


def _padded_dims(op: Lowering) -> list[int]:
    return [dim for dim, size in enumerate(op.types[0].shape) if size != op.result.shape[dim]]


def _padded_by_index(op: Lowering) -> ir.Value:
    """Each element is read, or is padding."""
    (operand, value), shape, sizes, added = op.operands, op.result.shape, op.types[0].shape, _padded_dims(op)
    around = tensor.extract(value, []) if (splat := splat_of(value)) is None else arith.constant(splat.type, splat)

    def body(_: ir.Value) -> ir.Value:
        where = [linalg.IndexOp(dim).result for dim in range(len(shape))]
        for dim in added:
            where[dim] = arith.subi(where[dim], constant(ir.IndexType.get(), op.attributes["low"][dim]))
        inside = every([within(where[dim], sizes[dim]) for dim in added])
        element = read(operand, where, inside, [dim for dim in range(len(shape)) if dim not in added])
        return arith.select(inside.value, element, around)

    target, all_dims = empty(shape, element_type(op.result.dtype)), projection(len(shape), range(len(shape)))
    (result,) = generic([], [target], [all_dims], [PARALLEL] * len(shape), body)
    return result


@lowers("concatenate")
def lower_concatenate(op: Lowering) -> ir.Value:
    """Put each operand into its place of an empty tensor."""
    if op.result.size == 0:
        return nothing(op)
    axis, result = op.attributes["axis"], empty(op.result.shape, element_type(op.result.dtype))
    position = 0
    for value in op.operands[0]:
        size = shape_of(value)[axis]
        if 0 not in shape_of(value):
            offsets = [position if dim == axis else 0 for dim in range(len(op.result.shape))]
            result = insert_slice(value, result, offsets, [1] * len(offsets))
        position += size
    return result


@lowers("reverse")
def lower_reverse(op: Lowering) -> ir.Value:
    """Each position reads its mirror image."""
    source, axes, shape = op.operands[0], op.attributes["axes"], op.result.shape
    if not shape or not axes:
        return source

    def body(_: ir.Value) -> ir.Value:
        index = [linalg.IndexOp(dim).result for dim in range(len(shape))]
        for axis in axes:
            last = constant(ir.IndexType.get(), shape[axis] - 1)
            index[axis] = arith.subi(last, index[axis])
        return tensor.extract(source, index)

    target = empty(shape, element_type(op.result.dtype))
    (result,) = generic([], [target], [projection(len(shape), range(len(shape)))], [PARALLEL] * len(shape), body)
    return result
