"""One step of attention for many queries: a group of them sees one block of keys."""

from __future__ import annotations

from functools import partial

from blu.dialects.core.mlir import arith, ir, memref, scf
from blu.passes.cpu.attention.frame import Frame, Keys, QueryBlock
from blu.passes.cpu.attention.mask import QueryMask, apply_mask, hide_from, index_lanes
from blu.passes.cpu.attention.operands import HeadMatrix, clamped, scaled
from blu.passes.cpu.attention.weights import HIDDEN, larger, weights, without_hidden
from blu.passes.cpu.gemm.tile import multiply_add
from blu.passes.cpu.kernel import for_range
from blu.passes.kernels import lanes as vectors


class KeyBlockStep:
    """Emits the step: scores, the largest of them, weights, and what they add to the result."""

    def __init__(self, frame: Frame):
        self.frame = frame

    def emit(self, block: QueryBlock, group: ir.Value, keys: Keys) -> None:
        """Let the queries of a group see all of `keys`, but for masks."""
        self.emit_scores(block, group, keys)
        largest = self.find_largest(block, group, keys)
        decays = self.emit_weights(group, keys, largest)
        self._accumulate(block, group, keys, decays)

    def emit_scores(self, block: QueryBlock, group: ir.Value, keys: Keys) -> None:
        """S = K Q for all keys of the block, by tiles of `key_rows` keys (the last one may write rows nobody reads)."""
        schedule, problem = self.frame.schedule, self.frame.problem
        rows = schedule.key_rows if schedule.copies else min(schedule.key_rows, problem.keys)
        columns = scaled(group, problem.depth)
        with for_range(0, keys.count, rows) as loop:
            local = loop.induction_variable
            if not schedule.copies:
                # The last tile begins earlier rather than reading past the last key.
                first = arith.minsi(arith.addi(keys.first, local), vectors.index(problem.keys - rows))
                local = arith.subi(first, keys.first)
                tile = block.key.row(first)
            else:
                tile = _scratch_matrix(self.frame.buffers.key, problem.accumulator).row(local)
            self._fetch_ahead(
                block, group, vectors.offset(arith.addi(keys.first, loop.induction_variable), schedule.keys)
            )
            zeros = [self.frame.constant(0)] * (rows * schedule.vectors)
            with for_range(0, problem.depth, carried=zeros) as inner:
                d = inner.induction_variable
                query = [
                    self.frame.load(self.frame.buffers.query, arith.addi(columns, d), j)
                    for j in range(schedule.vectors)
                ]
                scf.yield_(self._tile_step(inner.inner_iter_args, [tile.scalar(i, d) for i in range(rows)], query))
            for place, value in enumerate(inner.results):
                i, j = divmod(place, schedule.vectors)
                self.frame.store(value, self.frame.buffers.scores, self._score_row(local, i), j)

    def _fetch_ahead(self, block: QueryBlock, group: ir.Value, key: ir.Value) -> None:
        """Fetch a share of the rows of the next block of keys into L2, where they are copied by the block.

        Rows may be a few lines each, a long way apart: hardware does not guess where the next one is.
        """
        if not self.frame.schedule.copies:
            return
        share = -(-self.frame.schedule.key_rows // self.frame.schedule.groups)
        first = arith.addi(key, scaled(group, share))
        last = vectors.index(self.frame.problem.keys - 1)
        for i in range(share):
            row = arith.minsi(vectors.offset(first, i), last)
            block.key.fetch(row, self.frame.problem.depth)
            block.value.fetch(row, self.frame.problem.width)

    def _score_row(self, local: ir.Value, distance: int = 0) -> ir.Value:
        """The row of the scores of a key of the block; the first rows are room for keys before the block."""
        return vectors.offset(local, self.frame.schedule.key_rows + distance)

    def _tile_step(self, sums: list[ir.Value], scalars: list[ir.Value], columns: list[ir.Value]) -> list[ir.Value]:
        """One rank-1 update of a register tile."""
        result = []
        for i, scalar in enumerate(scalars):
            factor = vectors.splat(scalar, self.frame.schedule.lanes)
            for j, column in enumerate(columns):
                result.append(multiply_add(factor, column, sums[i * len(columns) + j]))
        return result

    def find_largest(self, block: QueryBlock, group: ir.Value, keys: Keys) -> list[ir.Value]:
        """Apply masks to the scores, and return the largest of each query."""
        lanes, problem = self.frame.schedule.lanes, self.frame.problem
        largest = [self.frame.constant(HIDDEN)] * self.frame.schedule.vectors
        mask = None
        if block.mask is not None:
            mask = QueryMask(problem, block.mask, self.frame.buffers.mask, lanes)
            queries = partial(self.frame.lane_queries, block, group)
            mask.prepare(queries, self.frame.schedule.vectors, keys.first, keys.count)
        if not problem.causal:
            return self._scan(vectors.index(0), keys, keys.count, largest, mask, [])
        first = self.frame.group_query(block, group, 0)
        free = clamped(arith.subi(problem.limit(first), keys.first), 0, keys.count)
        largest = self._scan(vectors.index(0), keys, free, largest, mask, [])
        limits = []
        for j in range(self.frame.schedule.vectors):
            start = arith.addi(block.first, vectors.offset(scaled(group, self.frame.schedule.group_queries), j * lanes))
            positions = index_lanes(start, lanes, 1)
            positions = arith.minsi(positions, vectors.constant(positions.type, problem.queries - 1))
            limits.append(arith.addi(positions, index_lanes(vectors.offset(problem.offset, 1), lanes)))
        return self._scan(free, keys, keys.count, largest, mask, limits)

    def _scan(
        self,
        begin: ir.Value,
        keys: Keys,
        end: ir.Value,
        largest: list[ir.Value],
        mask: QueryMask | None,
        limits: list[ir.Value],
    ) -> list[ir.Value]:
        """The larger of `largest` and the scores from `begin` to `end`, which are masked in place."""
        with for_range(begin, end, carried=largest) as loop:
            local = loop.induction_variable
            key = arith.addi(keys.first, local)
            position = index_lanes(key, self.frame.schedule.lanes) if limits else None
            result = []
            for j, value in enumerate(loop.inner_iter_args):
                scores = self.frame.load(self.frame.buffers.scores, self._score_row(local), j)
                if mask:
                    scores = apply_mask(self.frame.problem, scores, mask.load(key, local, j))
                if limits:
                    scores = hide_from(scores, position, limits[j])
                if mask or limits:
                    self.frame.store(scores, self.frame.buffers.scores, self._score_row(local), j)
                result.append(larger(value, scores))
            scf.yield_(result)
        return list(loop.results)

    def emit_weights(self, group: ir.Value, keys: Keys, largest: list[ir.Value]) -> list[ir.Value]:
        """Turn scores into weights, update maxima and sums; returns the factors for what was summed before."""
        subtracted, decays = [], []
        for j, value in enumerate(largest):
            before = self.frame.load(self.frame.buffers.largest, group, j)
            now = larger(before, value)
            self.frame.store(now, self.frame.buffers.largest, group, j)
            subtracted.append(without_hidden(now))
            decays.append(weights(arith.subf(before, subtracted[j]), self.frame.unit))
        zeros = [self.frame.constant(0)] * len(largest)
        with for_range(0, keys.count, carried=zeros) as loop:
            row, sums = self._score_row(loop.induction_variable), []
            for j, total in enumerate(loop.inner_iter_args):
                weight = weights(
                    arith.subf(self.frame.load(self.frame.buffers.scores, row, j), subtracted[j]), self.frame.unit
                )
                self.frame.store(weight, self.frame.buffers.scores, row, j)
                sums.append(arith.addf(total, weight))
            scf.yield_(sums)
        for j, decay in enumerate(decays):
            total = multiply_add(self.frame.load(self.frame.buffers.total, group, j), decay, loop.results[j])
            self.frame.store(total, self.frame.buffers.total, group, j)
        return decays

    def _accumulate(self, block: QueryBlock, group: ir.Value, keys: Keys, decays: list[ir.Value]) -> None:
        """O = O * decay + V P, by tiles of `value_rows` columns of V."""
        width, rows = self.frame.problem.width, self.frame.schedule.value_rows
        whole = width // rows * rows
        if whole:
            with for_range(0, whole, rows) as loop:
                self._accumulate_tile(block, group, keys, decays, loop.induction_variable, rows)
        if width > whole:
            self._accumulate_tile(block, group, keys, decays, vectors.index(whole), width - whole)

    def _accumulate_tile(
        self, block: QueryBlock, group: ir.Value, keys: Keys, decays: list[ir.Value], column: ir.Value, rows: int
    ) -> None:
        first = arith.addi(scaled(group, self.frame.problem.width), column)
        value = block.value.row(keys.first)
        if self.frame.schedule.copies:
            value = _scratch_matrix(self.frame.buffers.value, self.frame.problem.accumulator)
        value = value.column(column)
        sums = [
            arith.mulf(self.frame.load(self.frame.buffers.result, vectors.offset(first, i), j), decay)
            for i in range(rows)
            for j, decay in enumerate(decays)
        ]
        with for_range(0, keys.count, carried=sums) as loop:
            local = loop.induction_variable
            columns = [
                self.frame.load(self.frame.buffers.scores, self._score_row(local), j) for j in range(len(decays))
            ]
            scalars = [value.scalar(local, i) for i in range(rows)]
            scf.yield_(self._tile_step(loop.inner_iter_args, scalars, columns))
        for place, total in enumerate(loop.results):
            i, j = divmod(place, len(decays))
            self.frame.store(total, self.frame.buffers.result, vectors.offset(first, i), j)


def _scratch_matrix(buffer: ir.Value, accumulator: ir.Type) -> HeadMatrix:
    """A two-dimensional scratch buffer, to be read element by element."""
    rows, columns = ir.MemRefType(buffer.type).shape
    type_ = ir.MemRefType.get([rows * columns], accumulator)
    flat = memref.collapse_shape(type_, buffer, [[0, 1]])
    return HeadMatrix(flat, vectors.index(0), columns, 1, accumulator)
