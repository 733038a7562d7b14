"""Which keys a query sees, and what is added to its scores: causal limits and masks, on vectors of scores."""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.cpu.attention.operands import HeadMatrix, Index, Problem, scaled
from blu.passes.cpu.attention.weights import HIDDEN
from blu.passes.cpu.gemm.transpose import transpose
from blu.passes.cpu.kernel import for_range
from blu.passes.kernels import lanes as vectors


def apply_mask(problem: Problem, scores: ir.Value, mask: ir.Value) -> ir.Value:
    """Scores with a mask of as many lanes: added, or (0 or 1) hiding where it is 0."""
    if not problem.mask.is_bool:
        return arith.addf(scores, mask)
    visible = arith.cmpf(arith.CmpFPredicate.UNE, mask, vectors.constant(mask.type, 0))
    return arith.select(visible, scores, vectors.constant(scores.type, HIDDEN))


def hide_from(scores: ir.Value, position: ir.Value, limit: ir.Value) -> ir.Value:
    """Scores where position < limit (vectors of i32), else -inf."""
    visible = arith.cmpi(arith.CmpIPredicate.slt, position, limit)
    return arith.select(visible, scores, vectors.constant(scores.type, HIDDEN))


def index_lanes(value: ir.Value, lanes: int, step: int = 0) -> ir.Value:
    """An index as i32 in all lanes, plus `step` times the lane."""
    i32 = ir.IntegerType.get_signless(32)
    result = vectors.splat(arith.index_cast(i32, value), lanes)
    if not step:
        return result
    type_ = vectors.vector_type(lanes, i32)
    steps = [ir.IntegerAttr.get(i32, lane * step) for lane in range(lanes)]
    return arith.addi(result, arith.constant(type_, ir.DenseElementsAttr.get(steps, type_)))


Queries = Callable[[Index], list[tuple[ir.Value, int]]]
"""The query in each lane of the j-th vector, as an index and a distance from it."""


class QueryMask:
    """The mask for a group of queries that lie along the lanes of `vectors` vectors.

    A mask that differs both by query and by key is copied key by key into `plane`, whose first `lanes` rows are room
    for keys before the first of a block.
    """

    def __init__(self, problem: Problem, matrix: HeadMatrix, plane: ir.Value | None, lanes: int):
        self.problem, self.matrix, self.plane, self.lanes = problem, matrix, plane, lanes
        self.by_query: list[ir.Value] = []

    def prepare(self, queries: Queries, registers: int, key: ir.Value, count: ir.Value) -> None:
        """Make `count` keys from `key` on ready, for all `registers` vectors of `queries`."""
        if self.matrix.row_stride and not self.matrix.column_stride:
            self.by_query = [self.matrix.load_rows(queries(j)) for j in range(registers)]
        elif self.plane is not None:
            with for_range(0, registers) as loop:
                self._copy(queries(loop.induction_variable), scaled(loop.induction_variable, self.lanes), key, count)

    def _copy(self, queries: list[tuple[ir.Value, int]], column: ir.Value, key: ir.Value, count: ir.Value) -> None:
        """Transpose the mask of one vector of queries into the plane, from `column` on."""
        lanes, keys = self.lanes, self.problem.keys
        present = min(lanes, keys)
        rows = [self.matrix.row(query).row(lane) for query, lane in queries]
        with for_range(0, count, lanes) as loop:
            # The last square begins earlier rather than reading past the end of a row of the mask.
            first = arith.minsi(arith.addi(key, loop.induction_variable), vectors.index(max(keys - lanes, 0)))
            local = vectors.offset(arith.subi(first, key), lanes)
            square = [row.load(0, first, lanes, present) for row in rows]
            for lane, value in enumerate(transpose(square)[:present]):
                vector.store(value, self.plane, [vectors.offset(local, lane), column])

    def load(self, key: ir.Value, local: ir.Value, j: int) -> ir.Value:
        """The mask of the j-th vector of queries for a key, which is the `local`-th of those prepared."""
        if self.by_query:
            return self.by_query[j]
        if self.plane is None:
            return vectors.splat(self.matrix.scalar(0, key), self.lanes)
        type_ = vectors.vector_type(self.lanes, self.problem.accumulator)
        return vector.load(type_, self.plane, [vectors.offset(local, self.lanes), vectors.index(j * self.lanes)])
