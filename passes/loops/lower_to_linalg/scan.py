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

from collections.abc import Callable, Sequence

import numpy as np

from blu.dataclass import dataclass
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
from blu.passes.loops.lower_to_linalg.reduction import highest, lowest
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar, load, store


@dataclass(frozen=True)
class Join:
    """How a scan goes on: what it carries at first, which changes nothing, and the associative function of what is
    carried and what an element brings. The last of what is carried is written."""

    starts: Callable[[DType], tuple[float | int, ...]]
    combine: Callable[[Sequence[Scalar], Sequence[Scalar]], list[Scalar]]


def _single(start: Callable[[DType], float | int], combine: Callable[[Scalar, Scalar], Scalar]) -> Join:
    return Join(lambda dtype: (start(dtype),), lambda carried, brought: [combine(carried[0], brought[0])])


def _log_add_exp(x: Scalar, y: Scalar) -> Scalar:
    high, low = x.maximum(y), x.minimum(y)
    apart = high.compare("eq", low).where(high.like(0.0), low - high)  # of equal infinities as well
    return high + apart.math("exp").math("log1p")


def _continued(carried: Sequence[Scalar], brought: Sequence[Scalar]) -> list[Scalar]:
    """The product of all decays so far, and the recurrence."""
    (product_, total), (decay, term) = carried, brought
    return [product_ * decay, total * decay + term]


# A sum of nothing is -0.0 where there is one, since 0.0 + -0.0 is 0.0.
SCANS = {
    "cumsum": _single(lambda dtype: -0.0 if dtype.is_float else 0, lambda total, x: total + x),
    "cumprod": _single(lambda dtype: 1, lambda total, x: total * x),
    "cummax": _single(lowest, lambda largest, x: largest.maximum(x)),
    "cummin": _single(highest, lambda smallest, x: smallest.minimum(x)),
    "logcumsumexp": _single(lambda dtype: -np.inf, _log_add_exp),
    "recurrence": Join(lambda dtype: (1, 0), _continued),
}


@lowers(*SCANS)
def lower_scan(op: Lowering) -> ir.Value:
    """Carry in the dtype that the operands' is computed in, and round what is written."""
    if op.result.size == 0:
        return op.operands[-1]
    join = SCANS[op.operation.name.removeprefix("blu.")]
    source, axis, shape = op.types[0].dtype, op.attributes["axis"], op.result.shape
    dtype = computing_dtype(source)
    outer, inner = product(shape[:axis]), product(shape[axis + 1 :])
    sizes = [outer, shape[axis]] if inner == 1 else [outer, shape[axis], inner]
    # Loops are (outer, axis) or (outer, inner, axis), whose last is carried along.
    rank, element = len(sizes), element_type(dtype)
    whole = projection(rank, [0, 1] if inner == 1 else [0, 2, 1])
    rows = [outer] if inner == 1 else [outer, inner]
    starts = [fill(constant(element, start), rows) for start in join.starts(dtype)]
    count = len(op.operands)

    def body(*values: ir.Value) -> list[ir.Value]:
        brought = [load(value, source) for value in values[:count]]
        after = join.combine([Scalar(value, dtype) for value in values[count:-1]], brought)
        return [*(item.value for item in after), store(after[-1], source)]

    target = empty(sizes, element_type(source))
    maps = [*[whole] * count, *[projection(rank, range(rank - 1))] * len(starts), whole]
    kinds = [PARALLEL] * (rank - 1) + [REDUCTION]
    results = generic([reshape(operand, sizes) for operand in op.operands], [*starts, target], maps, kinds, body)
    return reshape(results[-1], shape)
