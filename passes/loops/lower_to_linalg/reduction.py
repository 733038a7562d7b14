"""Reductions: a linalg.generic with reduction iterators, accumulating halves in f32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blu.dialects.core.dtypes import DType, bool_, computing_dtype
from blu.dialects.core.mlir import arith, ir, linalg
from blu.passes.loops.lower_to_linalg.generic import (
    PARALLEL,
    REDUCTION,
    constant,
    fill,
    generic,
    pointwise,
    projection,
    reduce,
    reshape,
    shape_of,
)
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar, load, store


def lowest(dtype: DType) -> float | int:
    """What no number of the dtype is below, as a constant of its type."""
    return -np.inf if dtype.is_float else 0 if dtype == bool_ else int(np.iinfo(dtype.numpy).min)


def highest(dtype: DType) -> float | int:
    """What no number of the dtype is above, as a constant of its type."""
    if dtype.is_float:
        return np.inf
    return 1 if dtype == bool_ else -1 if dtype.kind == "unsigned" else int(np.iinfo(dtype.numpy).max)


# name: (the value a reduction starts from, how an element joins the accumulator)
REDUCTIONS: dict[str, tuple[Callable[[DType], float | int], Callable[[Scalar, Scalar], Scalar]]] = {
    "sum": (lambda dtype: 0, lambda total, x: total + x),
    "prod": (lambda dtype: 1, lambda total, x: total * x),
    "max": (lowest, lambda total, x: total.maximum(x)),
    "min": (highest, lambda total, x: total.minimum(x)),
    "any": (lambda dtype: 0, lambda total, x: total | x),
    "all": (lambda dtype: 1, lambda total, x: total & x),
}


@lowers(*REDUCTIONS)
def lower_reduction(op: Lowering) -> ir.Value:
    """Fill with the start value, reduce, round, and put kept dimensions of size 1 back."""
    start, join = REDUCTIONS[op.operation.name.removeprefix("blu.")]
    source, axes = op.types[0].dtype, op.attributes["axes"]
    dtype = computing_dtype(source)

    def body(element: ir.Value, total: ir.Value) -> ir.Value:
        return join(Scalar(total, dtype), load(element, source)).value

    (result,) = reduce(op.operands[0], axes, [constant(element_type(dtype), start(dtype))], body)
    if dtype != source:
        result = pointwise(shape_of(result), [result], element_type(source), lambda x: store(Scalar(x, dtype), source))
    return reshape(result, op.result.shape)


@lowers("argmax")
def lower_argmax(op: Lowering) -> ir.Value:
    """A reduction that carries the largest value and its position."""
    return _arg_reduction(op, "gt", lowest)


@lowers("argmin")
def lower_argmin(op: Lowering) -> ir.Value:
    """A reduction that carries the smallest value and its position."""
    return _arg_reduction(op, "lt", highest)


def _arg_reduction(op: Lowering, relation: str, start: Callable[[DType], float | int]) -> ir.Value:
    """Carry the best value and its position; the first of equals wins, and the first NaN wins over all."""
    source, axis = op.types[0].dtype, op.attributes["axis"]
    dtype = computing_dtype(source)
    shape = shape_of(op.operands[0])
    kept = [size for dim, size in enumerate(shape) if dim != axis]
    i64 = ir.IntegerType.get_signless(64)
    outputs = [fill(constant(element_type(dtype), start(dtype)), kept), fill(constant(i64, -1), kept)]
    dims = [dim for dim in range(len(shape)) if dim != axis]
    maps = [projection(len(shape), range(len(shape))), projection(len(shape), dims), projection(len(shape), dims)]
    kinds = [REDUCTION if dim == axis else PARALLEL for dim in range(len(shape))]

    def body(element: ir.Value, best: ir.Value, position: ir.Value) -> Sequence[ir.Value]:
        x, champion = load(element, source), Scalar(best, dtype)
        here = arith.index_cast(i64, linalg.IndexOp(axis).result)
        better = x.compare(relation, champion) | _first(position)
        if dtype.is_float:
            better = better | (x.compare("ne", x) & champion.compare("eq", champion))
            better = better & (champion.compare("eq", champion) | _first(position))
        return better.where(x, champion).value, arith.select(better.value, here, position)

    results = generic([op.operands[0]], outputs, maps, kinds, body)
    return reshape(results[1], op.result.shape)


def _first(position: ir.Value) -> Scalar:
    """Whether nothing was taken yet (the first element always is, so that all -inf rows give position 0)."""
    nothing = constant(position.type, 0)
    return Scalar(arith.cmpi(arith.CmpIPredicate.slt, position, nothing), bool_)
