"""Scans: loops that carry a value along an axis and write at every position what it has come to.

    %1 = "blu.cumsum"(%0) {axis = 1 : i64} : (tensor<3x4xf16>) -> tensor<3x4xf16>

becomes

    %total, %1 = linalg.generic {(i, j) -> (i, j), (i, j) -> (i), (i, j) -> (i, j)} ["parallel", "reduction"]
        ins(%0 : tensor<3x4xf16>) outs(%start, %empty : tensor<3xf32>, tensor<3x4xf16>) {
      ^bb0(%element, %before, %_): %after = before + element; linalg.yield %after, arith.truncf %after }

The body says all of a scan: what an element brings, how that joins what is carried (which must be associative), and
what is written. A target needs one kernel for all of them. Along an axis that is not the last, the loops are
(outer, inner, axis), so that neighbours in memory are neighbouring rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blu.dialects.core.dtypes import DType, computing_dtype, product
from blu.dialects.core.mlir import ir
from blu.passes.loops.lower_to_linalg.generic import (
    PARALLEL,
    REDUCTION,
    constant,
    empty,
    fill,
    generic,
    projection,
    reshape,
)
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar, load, store


@dataclass(frozen=True)
class Join:
    """How a scan goes on: the value that changes nothing, and the associative function of what is carried and an
    element."""

    start: Callable[[DType], float | int]
    combine: Callable[[Scalar, Scalar], Scalar]


# A sum of nothing is -0.0 where there is one, since 0.0 + -0.0 is 0.0.
SCANS = {"cumsum": Join(lambda dtype: -0.0 if dtype.is_float else 0, lambda total, x: total + x)}


@lowers(*SCANS)
def lower_scan(op: Lowering) -> ir.Value:
    """Carry in the dtype that the operand's is computed in, and round what is written."""
    if op.result.size == 0:
        return op.operands[0]
    join = SCANS[op.operation.name.removeprefix("blu.")]
    source, axis, shape = op.types[0].dtype, op.attributes["axis"], op.result.shape
    dtype = computing_dtype(source)
    outer, inner = product(shape[:axis]), product(shape[axis + 1 :])
    sizes = [outer, shape[axis]] if inner == 1 else [outer, shape[axis], inner]
    # Loops are (outer, axis) or (outer, inner, axis), whose last is carried along.
    rank, element = len(sizes), element_type(dtype)
    whole = projection(rank, [0, 1] if inner == 1 else [0, 2, 1])
    rows = [outer] if inner == 1 else [outer, inner]

    def body(value: ir.Value, carried: ir.Value, _: ir.Value) -> list[ir.Value]:
        after = join.combine(Scalar(carried, dtype), load(value, source))
        return [after.value, store(after, source)]

    start = fill(constant(element, join.start(dtype)), rows)
    target = empty(sizes, element_type(source))
    maps = [whole, projection(rank, range(rank - 1)), whole]
    kinds = [PARALLEL] * (rank - 1) + [REDUCTION]
    results = generic([reshape(op.operands[0], sizes)], [start, target], maps, kinds, body)
    return reshape(results[1], shape)
