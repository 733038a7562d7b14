"""Matrix products: linalg.contract over batch, m, n and k, with leading dimensions collapsed where that is free."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.dtypes import computing_dtype, product
from blu.dialects.core.mlir import ir, linalg
from blu.dialects.ops.contraction import parse_equation
from blu.passes.loops.lower_to_linalg.generic import (
    PARALLEL,
    constant,
    empty,
    fill,
    generic,
    maps_attribute,
    pointwise,
    projection,
    reshape,
    shape_of,
)
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar, store


@lowers("matmul")
def lower_matmul(op: Lowering) -> ir.Value:
    """1-D operands get a unit dimension; a 2-D right side takes all leading dimensions of the left as rows."""
    lhs, rhs = op.operands
    left, right = shape_of(lhs), shape_of(rhs)
    if len(left) == 1:
        lhs = reshape(lhs, (1, *left))
    if len(right) == 1:
        rhs = reshape(rhs, (*right, 1))
    rows, columns = shape_of(lhs)[:-1], shape_of(rhs)[-1]
    if len(shape_of(rhs)) == 2:
        flat = reshape(lhs, (product(rows), shape_of(lhs)[-1]))
        result = _contract(flat, rhs, op)
    else:
        result = _batched(lhs, rhs, op)
    assert product(shape_of(result)) == op.result.size, (rows, columns)
    return reshape(_rounded(result, op), op.result.shape)


@lowers("contract")
def lower_contract(op: Lowering) -> ir.Value:
    """One linalg.contract, whose loops are those of the result, in order, and then those that are summed over."""
    labels = parse_equation(op.attributes["equation"])
    loops = labels.result + labels.contracted
    dims = [[loops.index(letter) for letter in part] for part in (labels.lhs, labels.rhs, labels.result)]
    maps = [projection(len(loops), own) for own in dims]
    return _rounded(_sum_of_products(op.operands, maps, op), op)


def _batched(lhs: ir.Value, rhs: ir.Value, op: Lowering) -> ir.Value:
    """Broadcast the batch dimensions, collapse them into one."""
    batch = op.result.shape[: max(len(shape_of(lhs)), len(shape_of(rhs))) - 2]
    flat = [
        reshape(_broadcast(value, (*batch, *shape_of(value)[-2:])), (product(batch), *shape_of(value)[-2:]))
        for value in (lhs, rhs)
    ]
    return _contract(flat[0], flat[1], op)


def _broadcast(value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    if shape_of(value) == shape:
        return value
    return pointwise(shape, [value], ir.RankedTensorType(value.type).element_type, lambda x: x)


def _contract(lhs: ir.Value, rhs: ir.Value, op: Lowering) -> ir.Value:
    """linalg.contract of [b?, m, k] and [b?, k, n], accumulating halves in f32."""
    *batch, m, _ = shape_of(lhs)
    n = shape_of(rhs)[-1]
    rank = len(batch) + 3
    lead = list(range(len(batch)))
    row, column, depth = rank - 3, rank - 2, rank - 1
    maps = [projection(rank, dims) for dims in ([*lead, row, depth], [*lead, depth, column], [*lead, row, column])]
    return _sum_of_products([lhs, rhs], maps, op, (*batch, m, n))


def _sum_of_products(
    operands: Sequence[ir.Value], maps: Sequence[ir.AffineMap], op: Lowering, shape: tuple[int, ...] | None = None
) -> ir.Value:
    """linalg.contract with the precision of an op, of its result's shape if none is given."""
    accumulator = element_type(computing_dtype(op.result.dtype))
    start = fill(constant(accumulator, 0), op.result.shape if shape is None else shape)
    contract = linalg.ContractOp([start.type], list(operands), [start], maps_attribute(maps))
    linalg.fill_builtin_region(contract.operation)
    contract.operation.attributes["blu.precision"] = ir.StringAttr.get(op.attributes["precision"])
    return contract.results[0]


def _rounded(value: ir.Value, op: Lowering) -> ir.Value:
    """Round the accumulator to the result's dtype, in the loops of the sums: the kernel of the product does it."""
    dtype, shape = op.result.dtype, shape_of(value)
    if computing_dtype(dtype) == dtype:
        return value
    same = projection(len(shape), range(len(shape)))
    target, kinds = empty(shape, element_type(dtype)), [PARALLEL] * len(shape)
    (result,) = generic(
        [value], [target], [same, same], kinds, lambda x, _: store(Scalar(x, computing_dtype(dtype)), dtype)
    )
    return result
