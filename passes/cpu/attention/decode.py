"""Attention for few queries (one, in generation): keys and values stream through once, nothing is copied.

A block of the grid is one query of one head. Scores are dot products along the lanes, LANES keys at a time, whose
partial sums are added by a fixed tree that leaves one key per lane; the result is a sum of rows of V, key by key. Lanes
are always LANES[element] wide, whatever the machine's registers are, so that the bits are the same everywhere.
Keys come in chunks, with the maximum, the sum and the result rescaled after each (online softmax).
"""

from __future__ import annotations

from collections.abc import Callable

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, scf, vector
from blu.passes.cpu.attention.mask import apply_mask, hide_from, index_lanes
from blu.passes.cpu.attention.operands import HeadMatrix, Problem
from blu.passes.cpu.attention.weights import HIDDEN, divisor, larger, unit_of, weights, without_hidden
from blu.passes.cpu.gemm.tile import multiply_add, scratch
from blu.passes.cpu.kernel import for_range
from blu.passes.kernels import lanes as vectors

CHUNK = 1024
"""Keys whose scores are kept at a time."""

UNROLLED = 8
"""Vectors of a row that are handled without a loop."""

STEP = 4
"""Rows of V that are added per iteration."""


@dataclass(frozen=True)
class _Row:
    """Where a block is: its head's matrices from its query on, its mask, and how many keys it sees."""

    query: HeadMatrix
    key: HeadMatrix
    value: HeadMatrix
    output: HeadMatrix
    mask: HeadMatrix | None
    limit: ir.Value


class Decode:
    """Emits the blocks of one kernel."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.lanes = 8 if problem.is_wide else 16
        self.type = vectors.vector_type(self.lanes, problem.accumulator)
        self.unit = unit_of(problem)
        self.query, self.scores, self.result = (
            scratch([self._padded(size)], problem.accumulator)
            for size in (problem.depth, min(CHUNK, problem.keys) + 2 * self.lanes, problem.width)
        )

    def _padded(self, size: int) -> int:
        return max(1, -(-size // self.lanes)) * self.lanes

    def emit_block(self, leading: list[ir.Value], query: ir.Value) -> None:
        row = self._locate(leading, query)
        self._each_vector(self.problem.depth, lambda at, count: self._begin(row, at, count))
        zero = vectors.constant(self.type, 0)
        self._each_vector(self.problem.width, lambda at, _: vector.store(zero, self.result, [at]))
        state = [vectors.constant(self.type, HIDDEN), zero]
        with for_range(0, row.limit, CHUNK, carried=state) as loop:
            first = loop.induction_variable
            end = arith.minsi(vectors.offset(first, CHUNK), row.limit)
            scf.yield_(self._visit(row, first, end, *loop.inner_iter_args))
        factor = arith.divf(vectors.constant(self.type, 1), divisor(self._across(loop.results[1], arith.addf)))

        def finish(at: ir.Value, count: int) -> None:
            row.output.store(arith.mulf(vector.load(self.type, self.result, [at]), factor), 0, at, count)

        self._each_vector(self.problem.width, finish)

    def _locate(self, leading: list[ir.Value], query: ir.Value) -> _Row:
        problem = self.problem
        *batch, head = leading
        key_head = head if problem.groups <= 1 else arith.divui(head, vectors.index(problem.groups))
        key, value = (stack.matrix([*batch, key_head]) for stack in (problem.key, problem.value))
        mask = problem.mask and problem.mask.matrix(leading).row(query)
        rows = (problem.query.matrix(leading).row(query), key, value, problem.output.matrix(leading).row(query))
        return _Row(*rows, mask, problem.limit(query))

    def _each_vector(self, size: int, emit: Callable[[ir.Value, int], None]) -> None:
        """`emit(first, count)` for each run of lanes of `size` columns, the last one shorter."""
        lanes = self.lanes
        whole = size // lanes * lanes
        if whole <= UNROLLED * lanes:
            for first in range(0, size, lanes):
                emit(vectors.index(first), min(lanes, size - first))
            return
        with for_range(0, whole, lanes) as loop:
            emit(loop.induction_variable, lanes)
        if size > whole:
            emit(vectors.index(whole), size - whole)

    def _begin(self, row: _Row, at: ir.Value, count: int) -> None:
        factor = vectors.constant(self.type, self.problem.scale * self.unit)
        vector.store(arith.mulf(row.query.load(0, at, self.lanes, count), factor), self.query, [at])

    def _across(self, value: ir.Value, combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """All lanes combined, in all lanes."""
        distance = self.lanes // 2
        while distance:
            value = combine(value, vector.shuffle(value, value, [lane ^ distance for lane in range(self.lanes)]))
            distance //= 2
        return value

    # One chunk of keys ------------------------------------------------------------------------------------------------

    def _visit(
        self, row: _Row, first: ir.Value, end: ir.Value, largest: ir.Value, total: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        """Let the query see the keys from `first` to `end`; returns the new maximum (all lanes) and sums by lane."""
        now = self._across(self._emit_scores(row, first, end, largest), larger)
        subtracted = without_hidden(now)
        decay = weights(arith.subf(largest, subtracted), self.unit)
        total = self._emit_weights(arith.subi(end, first), subtracted, arith.mulf(total, decay))
        self._accumulate(row, first, arith.subi(end, first), decay)
        return now, total

    def _place(self, local: ir.Value) -> ir.Value:
        """Where the score of a key of the chunk lies: behind room for keys before the chunk."""
        return vectors.offset(local, self.lanes)

    def _emit_scores(self, row: _Row, first: ir.Value, end: ir.Value, largest: ir.Value) -> ir.Value:
        """Scores of all keys of the chunk, masked; returns the larger of them and `largest`, by lane."""
        lanes = self.lanes
        with for_range(first, end, lanes, carried=[largest]) as loop:
            # The last keys overlap those before, rather than reading past what the query sees.
            key = arith.minsi(loop.induction_variable, vectors.offset(row.limit, -lanes))
            key = arith.maxsi(key, vectors.index(0))
            scores = self._dot(row, key)
            if row.mask is not None:
                scores = apply_mask(self.problem, scores, self._load_mask(row.mask, key))
            scores = hide_from(scores, index_lanes(key, lanes, 1), index_lanes(row.limit, lanes))
            vector.store(scores, self.scores, [self._place(arith.subi(key, first))])
            scf.yield_([larger(loop.inner_iter_args[0], scores)])
        # The weights are computed by whole vectors.
        hidden = vectors.constant(self.type, HIDDEN)
        vector.store(hidden, self.scores, [self._place(arith.subi(end, first))])
        return loop.results[0]

    def _load_mask(self, mask: HeadMatrix, key: ir.Value) -> ir.Value:
        if not mask.column_stride:
            return vectors.splat(mask.scalar(0, 0), self.lanes)
        return mask.load(0, key, self.lanes, min(self.lanes, self.problem.keys))

    def _dot(self, row: _Row, key: ir.Value) -> ir.Value:
        """The dot products of the query with as many keys as there are lanes, from `key` on."""
        lanes, depth = self.lanes, self.problem.depth
        present = min(lanes, self.problem.keys)
        keys = row.key.row(key)

        def step(sums: list[ir.Value], at: ir.Value, count: int) -> list[ir.Value]:
            query = vector.load(self.type, self.query, [at])
            return [multiply_add(keys.load(lane, at, lanes, count), query, total) for lane, total in enumerate(sums)]

        sums = [vectors.constant(self.type, 0)] * present
        whole = depth // lanes * lanes
        if whole > UNROLLED * lanes:
            with for_range(0, whole, lanes, carried=sums) as loop:
                scf.yield_(step(list(loop.inner_iter_args), loop.induction_variable, lanes))
            sums, start = list(loop.results), whole
        else:
            start = 0
        for at in range(start, depth, lanes):
            sums = step(sums, vectors.index(at), min(lanes, depth - at))
        return self._add_up(sums + [vectors.constant(self.type, 0)] * (lanes - present))

    def _add_up(self, rows: list[ir.Value]) -> ir.Value:
        """The sum of each of as many vectors as there are lanes, one per lane: halves are added until one is left."""
        distance = self.lanes // 2
        while distance:
            low = [lane if not lane & distance else self.lanes + lane - distance for lane in range(self.lanes)]
            high = [lane + distance if not lane & distance else self.lanes + lane for lane in range(self.lanes)]
            pairs = [(rows[i], rows[i + distance]) for i in range(distance)]
            rows = [arith.addf(vector.shuffle(a, b, low), vector.shuffle(a, b, high)) for a, b in pairs]
            distance //= 2
        return rows[0]

    def _emit_weights(self, count: ir.Value, subtracted: ir.Value, total: ir.Value) -> ir.Value:
        """Turn the scores of the chunk into weights; returns `total` plus their sums, by lane."""
        with for_range(0, count, self.lanes, carried=[total]) as loop:
            place = self._place(loop.induction_variable)
            scores = vector.load(self.type, self.scores, [place])
            weight = weights(arith.subf(scores, subtracted), self.unit)
            vector.store(weight, self.scores, [place])
            scf.yield_([arith.addf(loop.inner_iter_args[0], weight)])
        return loop.results[0]

    def _accumulate(self, row: _Row, first: ir.Value, count: ir.Value, decay: ir.Value) -> None:
        """result = result * decay + weights @ V, by groups of up to UNROLLED vectors of columns."""
        values = row.value.row(first)
        size = UNROLLED * self.lanes
        whole = self.problem.width // size * size
        if whole:
            with for_range(0, whole, size) as loop:
                self._accumulate_columns(values, loop.induction_variable, size, count, decay)
        if self.problem.width > whole:
            self._accumulate_columns(values, vectors.index(whole), self.problem.width - whole, count, decay)

    def _accumulate_columns(
        self, values: HeadMatrix, column: ir.Value, width: int, count: ir.Value, decay: ir.Value
    ) -> None:
        lanes = self.lanes
        values = values.column(column)
        places = [vectors.offset(column, at) for at in range(0, width, lanes)]
        sums = [arith.mulf(vector.load(self.type, self.result, [place]), decay) for place in places]

        def add(sums: list[ir.Value], local: ir.Value, distance: int) -> list[ir.Value]:
            weight = vectors.splat(memref.load(self.scores, [vectors.offset(self._place(local), distance)]), lanes)
            rows = values.row(local)
            return [
                multiply_add(weight, rows.load(distance, j * lanes, lanes, min(lanes, width - j * lanes)), total)
                for j, total in enumerate(sums)
            ]

        steps = arith.muli(arith.divui(count, vectors.index(STEP)), vectors.index(STEP))
        with for_range(0, steps, STEP, carried=sums) as loop:
            sums = list(loop.inner_iter_args)
            for distance in range(STEP):
                sums = add(sums, loop.induction_variable, distance)
            scf.yield_(sums)
        with for_range(steps, count, carried=list(loop.results)) as rest:
            scf.yield_(add(list(rest.inner_iter_args), rest.induction_variable, 0))
        for place, total in zip(places, rest.results, strict=True):
            vector.store(total, self.result, [place])
