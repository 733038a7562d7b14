"""Sorting: integer keys whose order is the wanted one, a kernel that finds the order of integers, and a gather.

    %1 = "blu.sort"(%0) {axis = 0, descending = true} : (tensor<9x4xf32>) -> tensor<9x4xf32>

becomes

    %keys = linalg.generic ins(%0) { bits of a float, made to compare like it; complement for descending order }
    %rows = linalg.transpose %keys permutation = [1, 0]
    %a = "blu.argsort"(%rows) {axis = 1, descending = false} : (tensor<4x9xi32>) -> tensor<4x9xi64>
    %order = linalg.transpose %a permutation = [1, 0]
    %1 = linalg.generic ins(%order) { tensor.extract %0 }

The keys say everything about dtype and direction, so that a target needs one sorting kernel: of signed integers,
ascending, along the last of two dimensions, stable; and one that finds the beginning of that order, for
`blu.arg_top_k` (top_k is that and a gather).
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.dtypes import DType, bf16, f16, f32, f64, product
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
    transpose,
)
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers

# Bits of the fraction of each float dtype.
_FRACTION_BITS = {f16: 10, bf16: 7, f32: 23, f64: 52}


@lowers("arg_top_k")
def lower_arg_top_k(op: Lowering) -> ir.Value:
    """The first of the order of the keys."""
    if op.result.size == 0:
        return fill(constant(ir.IntegerType.get_signless(64), 0), op.result.shape)
    source, shape = op.types[0].dtype, shape_of(op.operands[0])
    integer = ir.IntegerType.get_signless(source.bits)
    keys = pointwise(shape, op.operands, integer, lambda x: _key(x, source, op.attributes["largest"]))
    rows, count = product(shape[:-1]), op.attributes["k"]
    order = _arg_top_k(reshape(keys, (rows, shape[-1])), count)
    return reshape(order, op.result.shape)


@lowers("argsort")
def lower_argsort(op: Lowering) -> ir.Value:
    """The order of the keys."""
    if op.result.size == 0:
        return fill(constant(ir.IntegerType.get_signless(64), 0), op.result.shape)
    axis, shape, source = op.attributes["axis"], op.result.shape, op.types[0].dtype
    integer = ir.IntegerType.get_signless(source.bits)
    keys = pointwise(shape, op.operands, integer, lambda x: _key(x, source, op.attributes["descending"]))
    last = [dim for dim in range(len(shape)) if dim != axis] + [axis]
    moved = _transpose(keys, last)
    flat = reshape(moved, (product(shape_of(moved)[:-1]), shape[axis]))
    order = _argsort(flat)
    return _transpose(reshape(order, shape_of(moved)), [last.index(dim) for dim in range(len(shape))])


@lowers("sort")
def lower_sort(op: Lowering) -> ir.Value:
    """Each position reads the operand where the order says; positions need no check."""
    order, operand, axis = lower_argsort(op), op.operands[0], op.attributes["axis"]
    shape, rank = op.result.shape, len(op.result.shape)
    if op.result.size == 0:
        return operand

    def body(position: ir.Value, _: ir.Value) -> ir.Value:
        where = [linalg.IndexOp(dim).result for dim in range(rank)]
        where[axis] = arith.index_cast(ir.IndexType.get(), position)
        return tensor.extract(operand, where)

    maps = [projection(rank, range(rank))] * 2
    target = empty(shape, element_type(op.result.dtype))
    return generic([order], [target], maps, [PARALLEL] * rank, body)[0]


def _argsort(keys: ir.Value) -> ir.Value:
    """The op that a kernel of the target takes whole."""
    result = ir.RankedTensorType.get(shape_of(keys), ir.IntegerType.get_signless(64))
    axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1)
    attributes = {"axis": axis, "descending": ir.BoolAttr.get(False)}
    return ir.Operation.create("blu.argsort", results=[result], operands=[keys], attributes=attributes).result


def _arg_top_k(keys: ir.Value, count: int) -> ir.Value:
    """The same for the first few of each row; all of them are a sort."""
    i64 = ir.IntegerType.get_signless(64)
    rows, width = shape_of(keys)
    if count == width:
        return _argsort(keys)
    attributes = {"k": ir.IntegerAttr.get(i64, count), "largest": ir.BoolAttr.get(False)}
    result = ir.RankedTensorType.get([rows, count], i64)
    return ir.Operation.create("blu.arg_top_k", results=[result], operands=[keys], attributes=attributes).result


def _transpose(value: ir.Value, permutation: Sequence[int]) -> ir.Value:
    if list(permutation) == list(range(len(permutation))):
        return value
    return transpose(value, permutation)


def _key(value: ir.Value, dtype: DType, descending: bool) -> ir.Value:
    """An integer of the same width; as signed numbers, the keys compare as the elements shall be ordered."""
    if dtype.is_float:
        return _float_key(value, dtype, descending)
    if dtype.kind == "unsigned":
        value = arith.xori(value, constant(value.type, -(1 << (dtype.bits - 1))))
    return _complement(value) if descending else value


def _complement(value: ir.Value) -> ir.Value:
    return arith.xori(value, constant(value.type, -1))


def _float_key(value: ir.Value, dtype: DType, descending: bool) -> ir.Value:
    """The float's bits, where negative numbers have their magnitude complemented; zeros are equal, NaN is last."""
    integer = ir.IntegerType.get_signless(dtype.bits)
    largest = (1 << (dtype.bits - 1)) - 1
    infinity = largest & -(1 << _FRACTION_BITS[dtype])
    bits = arith.bitcast(integer, value)
    magnitude = arith.andi(bits, constant(integer, largest))
    is_negative = arith.cmpi(arith.CmpIPredicate.slt, bits, constant(integer, 0))
    key = arith.select(is_negative, arith.xori(bits, constant(integer, largest)), bits)
    is_zero = arith.cmpi(arith.CmpIPredicate.eq, magnitude, constant(integer, 0))
    key = arith.select(is_zero, constant(integer, 0), key)
    key = _complement(key) if descending else key
    is_nan = arith.cmpi(arith.CmpIPredicate.sgt, magnitude, constant(integer, infinity))
    return arith.select(is_nan, constant(integer, largest), key)
