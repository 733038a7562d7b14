"""Attention for many queries: queries lie along the lanes, keys and values are broadcast element by element.

Scores are computed transposed, S[key, query] = sum over d of K[key, d] * Q[d, query], and so is the result,
O[width, query] += V[key, width] * P[key, query]. Then both products are register tiles whose broadcast operand is read
as it lies in memory, and the softmax needs nothing across lanes: each query is one lane from its first to its last
operation, so its bits depend neither on its neighbours nor on the vector width.

A block of the grid is `groups` x (vectors x lanes) queries of one head; keys come in blocks of `keys`, with the running
maximum, sum and result of every query rescaled after each (online softmax). Queries past the end repeat the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from blu.dialects.mlir import arith, ir, memref, scf, vector
from blu.passes.cpu import lanes as vectors
from blu.passes.cpu.attention_mask import QueryMask, apply_mask, hide_from, index_lanes
from blu.passes.cpu.attention_operands import Index, Matrix, Problem, clamped, scaled
from blu.passes.cpu.attention_weights import HIDDEN, divisor, larger, unit_of, weights, without_hidden
from blu.passes.cpu.gemm_tile import multiply_add, scratch
from blu.passes.cpu.kernel import for_range
from blu.passes.cpu.transpose import transpose


@dataclass(frozen=True)
class PrefillSchedule:
    """`vectors` x `lanes` queries at a time, `groups` of those in a block of the grid.

    `key_rows` x `vectors` scores, and `value_rows` x `vectors` results, are kept in registers; `keys` is the size of a
    block of keys, a multiple of `key_rows`. With `copies`, each block of keys and values is copied (and widened) once
    for all groups.
    """

    lanes: int
    vectors: int
    groups: int
    keys: int
    key_rows: int
    value_rows: int
    copies: bool

    @property
    def group_queries(self) -> int:
        return self.lanes * self.vectors

    @property
    def queries(self) -> int:
        return self.group_queries * self.groups


@dataclass(frozen=True)
class _Buffers:
    """Scratch of one block. Rows of `query` and `result` are depth and width, group after group; of `scores` and `mask`
    keys of a block (after some room, see their use); of `largest` and `total` groups."""

    query: ir.Value
    result: ir.Value
    scores: ir.Value
    largest: ir.Value
    total: ir.Value
    mask: ir.Value | None
    key: ir.Value | None
    value: ir.Value | None


@dataclass(frozen=True)
class _Block:
    """Where a block is: its head's matrices and its first query."""

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    mask: Matrix | None
    first: ir.Value


@dataclass(frozen=True)
class _Keys:
    """A block of keys: its first key, and how many there are (for the block's last query)."""

    first: ir.Value
    count: ir.Value


class Prefill:
    """Emits the blocks of one kernel."""

    def __init__(self, problem: Problem, schedule: PrefillSchedule):
        self.problem, self.schedule = problem, schedule
        self.type = vectors.vector_type(schedule.lanes, problem.accumulator)
        self.unit = unit_of(problem)
        self.blocks_per_head = -(-problem.queries // schedule.queries)
        self.buffers = self._allocate()
        self._clear_keys()

    def _allocate(self) -> _Buffers:
        problem, schedule = self.problem, self.schedule
        element, columns, lanes = problem.accumulator, schedule.group_queries, schedule.lanes

        def buffer(rows: int, width: int = columns) -> ir.Value:
            return scratch([max(rows, 1), max(width, 1)], element)

        mask = problem.mask and problem.mask.matrix([vectors.index(0)] * len(problem.leading))
        full_mask = mask is not None and mask.row_stride and mask.column_stride
        padded = [-(-size // lanes) * lanes for size in (problem.depth, problem.width)]
        return _Buffers(
            query=buffer(schedule.groups * problem.depth),
            result=buffer(schedule.groups * problem.width),
            scores=buffer(schedule.keys + 2 * schedule.key_rows),
            largest=buffer(schedule.groups),
            total=buffer(schedule.groups),
            mask=buffer(schedule.keys + 2 * lanes) if full_mask else None,
            key=buffer(schedule.keys + schedule.key_rows, padded[0]) if schedule.copies else None,
            value=buffer(schedule.keys, padded[1]) if schedule.copies else None,
        )

    def _clear_keys(self) -> None:
        """A tile may read rows of keys that are not copied yet: not used, but slow where they look like subnormals."""
        if not self.schedule.copies:
            return
        rows, columns = ir.MemRefType(self.buffers.key.type).shape
        with for_range(0, rows) as loop:
            for column in range(0, columns, self.schedule.lanes):
                place = [loop.induction_variable, vectors.index(column)]
                vector.store(vectors.constant(self.type, 0), self.buffers.key, place)

    # One block --------------------------------------------------------------------------------------------------------

    def emit_block(self, leading: list[ir.Value], number: ir.Value) -> None:
        """The `number`-th block of queries of a head; later ones, which see more keys, have lower numbers."""
        schedule, problem = self.schedule, self.problem
        place = arith.subi(vectors.index(self.blocks_per_head - 1), number)
        block = self._locate(leading, scaled(place, schedule.queries))
        left = arith.subi(vectors.index(problem.queries), block.first)
        groups = arith.minsi(
            arith.ceildivsi(left, vectors.index(schedule.group_queries)), vectors.index(schedule.groups)
        )
        with for_range(0, groups) as loop:
            self._begin_group(block, loop.induction_variable)
        limit = problem.limit(self._query(block, vectors.index(schedule.queries - 1)))
        with for_range(0, limit, schedule.keys) as loop:
            first = loop.induction_variable
            keys = _Keys(first, arith.minsi(arith.subi(limit, first), vectors.index(schedule.keys)))
            if schedule.copies:
                self._copy(block.key, self.buffers.key, problem.depth, keys)
                self._copy(block.value, self.buffers.value, problem.width, keys)
            with for_range(0, groups) as inner:
                self._visit(block, inner.induction_variable, keys)
        with for_range(0, groups) as loop:
            self._finish_group(block, loop.induction_variable)

    def _locate(self, leading: list[ir.Value], first: ir.Value) -> _Block:
        problem = self.problem
        *batch, head = leading
        key_head = head if problem.groups <= 1 else arith.divui(head, vectors.index(problem.groups))
        key, value = (stack.matrix([*batch, key_head]) for stack in (problem.key, problem.value))
        mask = problem.mask and problem.mask.matrix(leading)
        return _Block(problem.query.matrix(leading), key, value, problem.output.matrix(leading), mask, first)

    def _query(self, block: _Block, distance: ir.Value) -> ir.Value:
        """The query at a distance from the block's first, or the last one there is."""
        return arith.minsi(arith.addi(block.first, distance), vectors.index(self.problem.queries - 1))

    def _group_query(self, block: _Block, group: ir.Value, distance: int) -> ir.Value:
        return self._query(block, vectors.offset(scaled(group, self.schedule.group_queries), distance))

    def _lane_queries(self, block: _Block, group: ir.Value, vector_: Index) -> list[tuple[ir.Value, int]]:
        """The query in each lane of one vector of a group, as an index and a distance from it."""
        lanes = self.schedule.lanes
        place = scaled(group, self.schedule.group_queries)
        if isinstance(vector_, int):
            place = vectors.offset(place, vector_ * lanes)
        else:
            place = arith.addi(place, scaled(vector_, lanes))
        if self.problem.queries % self.schedule.group_queries == 0:
            first = arith.addi(block.first, place)
            return [(first, lane) for lane in range(lanes)]
        return [(self._query(block, vectors.offset(place, lane)), 0) for lane in range(lanes)]

    def _begin_group(self, block: _Block, group: ir.Value) -> None:
        """Transpose the queries, scaled, into scratch; nothing seen yet."""
        lanes, depth = self.schedule.lanes, self.problem.depth
        factor = vectors.constant(self.type, self.problem.scale * self.unit)

        def square(rows: list[Matrix], vector_: ir.Value, first: ir.Value, count: int) -> None:
            values = [arith.mulf(row.load(0, first, lanes, count), factor) for row in rows]
            for lane, value in enumerate(transpose(values)[:count]):
                row = arith.addi(scaled(group, depth), vectors.offset(first, lane))
                self._store(value, self.buffers.query, row, vector_)

        self._each_square(block, block.query, group, depth, square)
        for j in range(self.schedule.vectors):
            self._store(vectors.constant(self.type, HIDDEN), self.buffers.largest, group, j)
            self._store(vectors.constant(self.type, 0), self.buffers.total, group, j)
        start = scaled(group, self.problem.width)
        with for_range(0, self.problem.width) as loop:
            for j in range(self.schedule.vectors):
                row = arith.addi(start, loop.induction_variable)
                self._store(vectors.constant(self.type, 0), self.buffers.result, row, j)

    def _each_square(self, block: _Block, matrix: Matrix, group: ir.Value, size: int, emit: Callable) -> None:
        """`emit(rows, vector, first, count)` for each run of `lanes` of `size` columns (the last one shorter) of each
        vector of queries: `rows` are the matrix from each of its queries on."""
        lanes = self.schedule.lanes
        whole = size // lanes * lanes
        with for_range(0, self.schedule.vectors) as loop:
            vector_ = loop.induction_variable
            rows = [matrix.row(query).row(lane) for query, lane in self._lane_queries(block, group, vector_)]
            if whole:
                with for_range(0, whole, lanes) as inner:
                    emit(rows, vector_, inner.induction_variable, lanes)
            if size > whole:
                emit(rows, vector_, vectors.index(whole), size - whole)

    def _copy(self, source: Matrix, buffer: ir.Value, columns: int, keys: _Keys) -> None:
        """Copy a block of keys or values into scratch, whole vectors at a time."""
        lanes = self.schedule.lanes
        rows = source.row(keys.first)
        with for_range(0, keys.count) as loop:
            row = loop.induction_variable
            for column in range(0, columns, lanes):
                value = rows.load(row, column, lanes, min(lanes, columns - column))
                vector.store(value, buffer, [row, vectors.index(column)])

    def _store(self, value: ir.Value, buffer: ir.Value, row: ir.Value, j: Index) -> None:
        vector.store(value, buffer, [row, self._column(j)])

    def _load(self, buffer: ir.Value, row: ir.Value, j: Index) -> ir.Value:
        return vector.load(self.type, buffer, [row, self._column(j)])

    def _column(self, j: Index) -> ir.Value:
        """The first column of the j-th vector."""
        lanes = self.schedule.lanes
        return vectors.index(j * lanes) if isinstance(j, int) else scaled(j, lanes)

    # One group of queries and one block of keys -----------------------------------------------------------------------

    def _visit(self, block: _Block, group: ir.Value, keys: _Keys) -> None:
        """Let the queries of a group see a block of keys, as far as it is visible to them."""
        if not self.problem.causal:
            self._attend(block, group, keys)
            return
        last = self.problem.limit(self._group_query(block, group, self.schedule.group_queries - 1))
        count = clamped(arith.subi(last, keys.first), 0, keys.count)
        branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.sgt, count, vectors.index(0)))
        with ir.InsertionPoint(branch.then_block):
            self._attend(block, group, _Keys(keys.first, count))
            scf.yield_([])

    def _attend(self, block: _Block, group: ir.Value, keys: _Keys) -> None:
        self._emit_scores(block, group, keys)
        largest = self._find_largest(block, group, keys)
        decays = self._emit_weights(group, keys, largest)
        self._accumulate(block, group, keys, decays)

    def _emit_scores(self, block: _Block, group: ir.Value, keys: _Keys) -> None:
        """S = K Q for all keys of the block, by tiles of `key_rows` keys (the last one may write rows nobody reads)."""
        schedule, problem = self.schedule, self.problem
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
                tile = _scratch_matrix(self.buffers.key, problem.accumulator).row(local)
            self._fetch_ahead(
                block, group, vectors.offset(arith.addi(keys.first, loop.induction_variable), schedule.keys)
            )
            zeros = [vectors.constant(self.type, 0)] * (rows * schedule.vectors)
            with for_range(0, problem.depth, carried=zeros) as inner:
                d = inner.induction_variable
                query = [self._load(self.buffers.query, arith.addi(columns, d), j) for j in range(schedule.vectors)]
                scf.yield_(self._tile_step(inner.inner_iter_args, [tile.scalar(i, d) for i in range(rows)], query))
            for place, value in enumerate(inner.results):
                i, j = divmod(place, schedule.vectors)
                self._store(value, self.buffers.scores, self._score_row(local, i), j)

    def _fetch_ahead(self, block: _Block, group: ir.Value, key: ir.Value) -> None:
        """Fetch a share of the rows of the next block of keys into L2, where they are copied by the block.

        Rows may be a few lines each, a long way apart: hardware does not guess where the next one is.
        """
        if not self.schedule.copies:
            return
        share = -(-self.schedule.key_rows // self.schedule.groups)
        first = arith.addi(key, scaled(group, share))
        last = vectors.index(self.problem.keys - 1)
        for i in range(share):
            row = arith.minsi(vectors.offset(first, i), last)
            block.key.fetch(row, self.problem.depth)
            block.value.fetch(row, self.problem.width)

    def _score_row(self, local: ir.Value, distance: int = 0) -> ir.Value:
        """The row of the scores of a key of the block; the first rows are room for keys before the block."""
        return vectors.offset(local, self.schedule.key_rows + distance)

    def _tile_step(self, sums: list[ir.Value], scalars: list[ir.Value], columns: list[ir.Value]) -> list[ir.Value]:
        """One rank-1 update of a register tile."""
        result = []
        for i, scalar in enumerate(scalars):
            factor = vectors.splat(scalar, self.schedule.lanes)
            for j, column in enumerate(columns):
                result.append(multiply_add(factor, column, sums[i * len(columns) + j]))
        return result

    def _find_largest(self, block: _Block, group: ir.Value, keys: _Keys) -> list[ir.Value]:
        """Apply masks to the scores, and return the largest of each query."""
        lanes, problem = self.schedule.lanes, self.problem
        largest = [vectors.constant(self.type, HIDDEN)] * self.schedule.vectors
        mask = None
        if block.mask is not None:
            mask = QueryMask(problem, block.mask, self.buffers.mask, lanes)
            queries = partial(self._lane_queries, block, group)
            mask.prepare(queries, self.schedule.vectors, keys.first, keys.count)
        if not problem.causal:
            return self._scan(vectors.index(0), keys, keys.count, largest, mask, [])
        first = self._group_query(block, group, 0)
        free = clamped(arith.subi(problem.limit(first), keys.first), 0, keys.count)
        largest = self._scan(vectors.index(0), keys, free, largest, mask, [])
        limits = []
        for j in range(self.schedule.vectors):
            start = arith.addi(block.first, vectors.offset(scaled(group, self.schedule.group_queries), j * lanes))
            positions = index_lanes(start, lanes, 1)
            positions = arith.minsi(positions, vectors.constant(positions.type, problem.queries - 1))
            limits.append(arith.addi(positions, index_lanes(vectors.offset(problem.offset, 1), lanes)))
        return self._scan(free, keys, keys.count, largest, mask, limits)

    def _scan(
        self,
        begin: ir.Value,
        keys: _Keys,
        end: ir.Value,
        largest: list[ir.Value],
        mask: QueryMask | None,
        limits: list[ir.Value],
    ) -> list[ir.Value]:
        """The larger of `largest` and the scores from `begin` to `end`, which are masked in place."""
        with for_range(begin, end, carried=largest) as loop:
            local = loop.induction_variable
            key = arith.addi(keys.first, local)
            position = index_lanes(key, self.schedule.lanes) if limits else None
            result = []
            for j, value in enumerate(loop.inner_iter_args):
                scores = self._load(self.buffers.scores, self._score_row(local), j)
                if mask:
                    scores = apply_mask(self.problem, scores, mask.load(key, local, j))
                if limits:
                    scores = hide_from(scores, position, limits[j])
                if mask or limits:
                    self._store(scores, self.buffers.scores, self._score_row(local), j)
                result.append(larger(value, scores))
            scf.yield_(result)
        return list(loop.results)

    def _emit_weights(self, group: ir.Value, keys: _Keys, largest: list[ir.Value]) -> list[ir.Value]:
        """Turn scores into weights, update maxima and sums; returns the factors for what was summed before."""
        subtracted, decays = [], []
        for j, value in enumerate(largest):
            before = self._load(self.buffers.largest, group, j)
            now = larger(before, value)
            self._store(now, self.buffers.largest, group, j)
            subtracted.append(without_hidden(now))
            decays.append(weights(arith.subf(before, subtracted[j]), self.unit))
        zeros = [vectors.constant(self.type, 0)] * len(largest)
        with for_range(0, keys.count, carried=zeros) as loop:
            row, sums = self._score_row(loop.induction_variable), []
            for j, total in enumerate(loop.inner_iter_args):
                weight = weights(arith.subf(self._load(self.buffers.scores, row, j), subtracted[j]), self.unit)
                self._store(weight, self.buffers.scores, row, j)
                sums.append(arith.addf(total, weight))
            scf.yield_(sums)
        for j, decay in enumerate(decays):
            total = multiply_add(self._load(self.buffers.total, group, j), decay, loop.results[j])
            self._store(total, self.buffers.total, group, j)
        return decays

    def _accumulate(self, block: _Block, group: ir.Value, keys: _Keys, decays: list[ir.Value]) -> None:
        """O = O * decay + V P, by tiles of `value_rows` columns of V."""
        width, rows = self.problem.width, self.schedule.value_rows
        whole = width // rows * rows
        if whole:
            with for_range(0, whole, rows) as loop:
                self._accumulate_tile(block, group, keys, decays, loop.induction_variable, rows)
        if width > whole:
            self._accumulate_tile(block, group, keys, decays, vectors.index(whole), width - whole)

    def _accumulate_tile(
        self, block: _Block, group: ir.Value, keys: _Keys, decays: list[ir.Value], column: ir.Value, rows: int
    ) -> None:
        first = arith.addi(scaled(group, self.problem.width), column)
        value = block.value.row(keys.first)
        if self.schedule.copies:
            value = _scratch_matrix(self.buffers.value, self.problem.accumulator)
        value = value.column(column)
        sums = [
            arith.mulf(self._load(self.buffers.result, vectors.offset(first, i), j), decay)
            for i in range(rows)
            for j, decay in enumerate(decays)
        ]
        with for_range(0, keys.count, carried=sums) as loop:
            local = loop.induction_variable
            columns = [self._load(self.buffers.scores, self._score_row(local), j) for j in range(len(decays))]
            scalars = [value.scalar(local, i) for i in range(rows)]
            scf.yield_(self._tile_step(loop.inner_iter_args, scalars, columns))
        for place, total in enumerate(loop.results):
            i, j = divmod(place, len(decays))
            self._store(total, self.buffers.result, vectors.offset(first, i), j)

    def _finish_group(self, block: _Block, group: ir.Value) -> None:
        """Divide by the sums, transpose back and write."""
        lanes, width = self.schedule.lanes, self.problem.width
        one = vectors.constant(self.type, 1)
        for j in range(self.schedule.vectors):
            factor = arith.divf(one, divisor(self._load(self.buffers.total, group, j)))
            self._store(factor, self.buffers.total, group, j)

        def square(rows: list[Matrix], vector_: ir.Value, first: ir.Value, count: int) -> None:
            start = arith.addi(scaled(group, width), first)
            factor = self._load(self.buffers.total, group, vector_)
            values = [
                arith.mulf(self._load(self.buffers.result, vectors.offset(start, i), vector_), factor)
                for i in range(count)
            ]
            values += [vectors.constant(self.type, 0)] * (lanes - count)
            for row, value in zip(rows, transpose(values), strict=True):
                row.store(value, 0, first, count)

        self._each_square(block, block.output, group, width, square)


def _scratch_matrix(buffer: ir.Value, accumulator: ir.Type) -> Matrix:
    """A two-dimensional scratch buffer, to be read element by element."""
    rows, columns = ir.MemRefType(buffer.type).shape
    type_ = ir.MemRefType.get([rows * columns], accumulator)
    flat = memref.collapse_shape(type_, buffer, [[0, 1]])
    return Matrix(flat, vectors.index(0), columns, 1, accumulator)
