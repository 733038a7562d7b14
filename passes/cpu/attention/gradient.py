"""The gradient of attention on the CPU: no matrix of all scores, like the forward kernel, whose steps it repeats.

A block of the grid is one head of keys, with all the queries that look at it, so that sums over queries stay in one
block. Queries lie along the lanes, a group of them at a time. The group first sees all keys for the largest score and
the sum of weights of each query; then again, block by block of keys, where P are the weights:

    D[key, query] = P * (V g - inner) * scale        inner[query] = sum of g * result
    of_value[key] += P g        of_key[key] += D Q        of_query[query] += D K

The last three are register tiles along rows of g, queries and keys; rows of gradients are added to in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref, scf, vector
from blu.dialects.core.op import operands_of
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.attention.frame import Frame, Keys, QueryBlock, each_block
from blu.passes.cpu.attention.operands import HeadMatrix, Problem, Stack, problem_of, result_stack, scaled, stack
from blu.passes.cpu.attention.schedule import GradientLanesSchedule, gradient_schedule_of
from blu.passes.cpu.attention.step import KeyBlockStep
from blu.passes.cpu.attention.weights import HIDDEN, divisor, weights, without_hidden
from blu.passes.cpu.gemm.tile import multiply_add, scratch
from blu.passes.cpu.gemm.transpose import transpose
from blu.passes.cpu.kernel import for_range, open_kernel, scratch_scope
from blu.passes.kernels import lanes as vectors

TILE_ROWS = 4
"""Rows of a gradient that are added to together."""


@dataclass(frozen=True)
class Gradients:
    """What the kernel has beside the forward's problem: `of_key` and `of_value` are written, `g` and `result` read."""

    g: Stack
    result: Stack
    of_key: Stack
    of_value: Stack


@dataclass(frozen=True)
class Head:
    """The matrices of one head of queries and of the head of keys that it looks at."""

    block: QueryBlock
    g: HeadMatrix
    result: HeadMatrix
    of_key: HeadMatrix
    of_value: HeadMatrix


@dataclass(frozen=True)
class Rows:
    """Rows of a gradient to add to, `count` from the first of `matrix`, each of them a sum over `depth` terms.

    `left(row, k)` gives a scalar, and `right` has the k-th term's row.
    """

    matrix: HeadMatrix
    count: ir.Value
    depth: ir.Value
    left: Callable[[ir.Value, ir.Value], ir.Value]
    right: HeadMatrix
    width: int


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Replace `kernel`, whose body is one blu.attention_gradient, by machine-near loops, as its schedule says."""
    schedule, body = gradient_schedule_of(kernel), open_kernel(kernel)
    operation = next(op for op in body.operations if op.name == "blu.attention_gradient")
    g, query, key, value, result, mask, offset, _ = operands_of(operation)
    with operation.location:
        with scratch_scope(body.replacement):
            problem = problem_of(operation, body, (query, key, value, mask, offset))
            read = [stack(item, body, problem.accumulator) for item in (g, result)]
            written = [result_stack(item, body, problem.accumulator) for item in list(operation.results)[1:]]
        with ir.InsertionPoint(body.replacement.body.blocks[0]):
            backward = GradientKernel(problem, Gradients(*read, *written), schedule)
        *batch, _ = problem.heads
        heads = problem.key.shape[-3]
        with body.grid(prod((*batch, heads))) as block:
            block, head = vectors.split(block, heads)
            leading: list[ir.Value] = []
            for size in reversed(batch):
                block, index = vectors.split(block, size)
                leading.insert(0, index)
            backward.emit_block(leading, head)


class GradientKernel:
    """Emits the blocks of one kernel."""

    def __init__(self, problem: Problem, gradients: Gradients, schedule: GradientLanesSchedule):
        self.problem, self.gradients, self.schedule = problem, gradients, schedule
        self.frame = Frame(problem, schedule)
        columns = schedule.group_queries
        self.slopes = scratch([schedule.keys + 2 * schedule.key_rows, columns], problem.accumulator)
        self.inner = scratch([1, columns], problem.accumulator)
        self.zero = vectors.index(0)

    def emit_block(self, batch: list[ir.Value], key_head: ir.Value) -> None:
        """All queries that look at one head of keys."""
        problem = self.problem
        for item, width in ((self.gradients.of_key, problem.depth), (self.gradients.of_value, problem.width)):
            self._clear(item.matrix([*batch, key_head]), vectors.index(problem.keys), width)
        with for_range(0, problem.groups) as heads:
            head = arith.addi(scaled(key_head, problem.groups), heads.induction_variable)
            with for_range(0, problem.queries, self.schedule.group_queries) as groups:
                self._emit_group(self._locate(batch, head, key_head, groups.induction_variable))

    def _locate(self, batch: list[ir.Value], head: ir.Value, key_head: ir.Value, first: ir.Value) -> Head:
        problem, gradients = self.problem, self.gradients
        mine, shared = [*batch, head], [*batch, key_head]
        matrices = [item.matrix(mine) for item in (problem.query, problem.output, gradients.g, gradients.result)]
        query, of_query, g, result = matrices
        key, value, of_key, of_value = (
            item.matrix(shared) for item in (problem.key, problem.value, gradients.of_key, gradients.of_value)
        )
        mask = problem.mask and problem.mask.matrix(mine)
        return Head(QueryBlock(query, key, value, of_query, mask, first), g, result, of_key, of_value)

    def _clear(self, matrix: HeadMatrix, rows: ir.Value, width: int) -> None:
        lanes = self.schedule.lanes
        with for_range(0, rows) as loop:
            for column in range(0, width, lanes):
                zero = self.frame.constant(0)
                matrix.store(zero, loop.induction_variable, column, min(lanes, width - column))

    def _emit_group(self, head: Head) -> None:
        """One group of queries."""
        problem, block = self.problem, head.block
        count = arith.minsi(
            arith.subi(vectors.index(problem.queries), block.first), vectors.index(self.schedule.group_queries)
        )
        self._clear(block.output.row(block.first), count, problem.depth)
        self._begin(head)
        limit = problem.limit(self.frame.group_query(block, self.zero, self.schedule.group_queries - 1))
        step = KeyBlockStep(self.frame)
        with each_block(limit, self.schedule.keys) as keys:
            step.emit_scores(block, self.zero, keys)
            step.emit_weights(self.zero, keys, step.find_largest(block, self.zero, keys))
        largest, factors = self._finish_sums()
        with each_block(limit, self.schedule.keys) as keys:
            step.emit_scores(block, self.zero, keys)
            step.find_largest(block, self.zero, keys)
            self._emit_weights(keys, largest, factors)
            self._emit_slopes(head, keys)
            for rows in self._sums(head, keys, count):
                self._add_rows(rows)

    def _begin(self, head: Head) -> None:
        """Transpose queries (scaled) and g into scratch, and sum g * result for each query."""
        frame, problem = self.frame, self.problem
        factor = frame.constant(problem.scale * frame.unit)
        for j in range(self.schedule.vectors):
            vector.store(frame.constant(0), self.inner, [self.zero, vectors.index(j * self.schedule.lanes)])
            frame.store(frame.constant(HIDDEN), frame.buffers.largest, self.zero, j)
            frame.store(frame.constant(0), frame.buffers.total, self.zero, j)

        def query(rows: Sequence[Sequence[ir.Value]], j: ir.Value, first: ir.Value, count: int) -> None:
            for lane, value in enumerate(transpose([arith.mulf(row, factor) for (row,) in rows])[:count]):
                frame.store(value, frame.buffers.query, vectors.offset(first, lane), j)

        def upstream(rows: Sequence[Sequence[ir.Value]], j: ir.Value, first: ir.Value, count: int) -> None:
            for lane, value in enumerate(transpose([g for g, _ in rows])[:count]):
                frame.store(value, frame.buffers.result, vectors.offset(first, lane), j)
            total = frame.load(self.inner, self.zero, j)
            for value in transpose([arith.mulf(g, result) for g, result in rows])[:count]:
                total = arith.addf(total, value)
            frame.store(total, self.inner, self.zero, j)

        self._each_square(head.block, [head.block.query], problem.depth, query)
        self._each_square(head.block, [head.g, head.result], problem.width, upstream)

    def _each_square(
        self, block: QueryBlock, matrices: Sequence[HeadMatrix], width: int, emit_square: Callable
    ) -> None:
        """`emit_square(rows, vector, first, count)` for each run of `lanes` columns of each vector of queries.

        `rows` has, for each of these queries, `count` elements from column `first` on of each matrix.
        """
        lanes = self.schedule.lanes
        whole = width // lanes * lanes

        def square(places: list, register: ir.Value, first: ir.Value, count: int) -> None:
            rows = [[item.row(at).row(lane).load(0, first, lanes, count) for item in matrices] for at, lane in places]
            emit_square(rows, register, first, count)

        with for_range(0, self.schedule.vectors) as loop:
            places = self.frame.lane_queries(block, self.zero, loop.induction_variable)
            if whole:
                with for_range(0, whole, lanes) as inner:
                    square(places, loop.induction_variable, inner.induction_variable, lanes)
            if width > whole:
                square(places, loop.induction_variable, vectors.index(whole), width - whole)

    def _finish_sums(self) -> tuple[list[ir.Value], list[ir.Value]]:
        """What to subtract from scores, and what to multiply weights by."""
        frame, largest, factors = self.frame, [], []
        for j in range(self.schedule.vectors):
            largest.append(without_hidden(frame.load(frame.buffers.largest, self.zero, j)))
            total = divisor(frame.load(frame.buffers.total, self.zero, j))
            factors.append(arith.divf(frame.constant(1), total))
        return largest, factors

    def _emit_weights(self, keys: Keys, largest: list[ir.Value], factors: list[ir.Value]) -> None:
        """Turn scores into weights that sum to 1."""
        frame = self.frame
        with for_range(0, keys.count) as loop:
            row = self._row(loop.induction_variable)
            for j, factor in enumerate(factors):
                scores = arith.subf(frame.load(frame.buffers.scores, row, j), largest[j])
                frame.store(arith.mulf(weights(scores, frame.unit), factor), frame.buffers.scores, row, j)

    def _emit_slopes(self, head: Head, keys: Keys) -> None:
        """D for all keys of the block, by tiles like those of the scores (the last one may write rows nobody reads)."""
        frame, problem, schedule = self.frame, self.problem, self.schedule
        rows, lanes = min(schedule.key_rows, problem.keys), range(schedule.vectors)
        scale = frame.constant(problem.scale)
        inner = [frame.load(self.inner, self.zero, j) for j in lanes]
        with for_range(0, keys.count, rows) as loop:
            place = arith.addi(keys.first, loop.induction_variable)
            first = arith.minsi(place, vectors.index(problem.keys - rows))
            tile, local = head.block.value.row(first), self._row(arith.subi(first, keys.first))
            with for_range(0, problem.width, carried=[frame.constant(0)] * (rows * schedule.vectors)) as terms:
                w = terms.induction_variable
                columns = [frame.load(frame.buffers.result, w, j) for j in lanes]
                scalars = [tile.scalar(i, w) for i in range(rows)]
                scf.yield_(step_tile(terms.inner_iter_args, scalars, columns, schedule.lanes))
            for number, value in enumerate(terms.results):
                i, j = divmod(number, schedule.vectors)
                row = vectors.offset(local, i)
                weight = arith.mulf(frame.load(frame.buffers.scores, row, j), scale)
                frame.store(arith.mulf(weight, arith.subf(value, inner[j])), self.slopes, row, j)

    def _row(self, local: ir.Value) -> ir.Value:
        """The row of a key of the block in `scores` and `slopes`; the first rows are room for keys before the block."""
        return vectors.offset(local, self.schedule.key_rows)

    def _sums(self, head: Head, keys: Keys, count: ir.Value) -> list[Rows]:
        """What the block of keys adds to the three gradients."""
        problem, block = self.problem, head.block
        scores = self.frame.buffers.scores

        def by_key(buffer: ir.Value) -> Callable[[ir.Value, ir.Value], ir.Value]:
            return lambda row, k: memref.load(buffer, [self._row(row), k])

        def by_query(row: ir.Value, k: ir.Value) -> ir.Value:
            return memref.load(self.slopes, [self._row(k), row])

        g, query = (item.row(block.first) for item in (head.g, block.query))
        of_value, of_key = (item.row(keys.first) for item in (head.of_value, head.of_key))
        of_query, key = block.output.row(block.first), block.key.row(keys.first)
        return [
            Rows(of_value, keys.count, count, by_key(scores), g, problem.width),
            Rows(of_key, keys.count, count, by_key(self.slopes), query, problem.depth),
            Rows(of_query, count, keys.count, by_query, key, problem.depth),
        ]

    def _add_rows(self, rows: Rows) -> None:
        """Add to rows of a gradient, by tiles of some rows and up to `TILE_ROWS` vectors, then row by row."""
        whole = arith.muli(arith.divui(rows.count, vectors.index(TILE_ROWS)), vectors.index(TILE_ROWS))
        step = self.schedule.lanes * min(TILE_ROWS, -(-rows.width // self.schedule.lanes))
        for column in range(0, rows.width, step):
            width = min(step, rows.width - column)
            with for_range(0, whole, TILE_ROWS) as loop:
                self._add_tile(rows, loop.induction_variable, TILE_ROWS, column, width)
            with for_range(whole, rows.count) as loop:
                self._add_tile(rows, loop.induction_variable, 1, column, width)

    def _add_tile(self, rows: Rows, first: ir.Value, count: int, column: int, width: int) -> None:
        lanes = self.schedule.lanes
        chunks = [(column + start, min(lanes, width - start)) for start in range(0, width, lanes)]
        target = rows.matrix.row(first)
        sums = [target.load(i, start, lanes, size) for i in range(count) for start, size in chunks]
        with for_range(0, rows.depth, carried=sums) as loop:
            k = loop.induction_variable
            columns = [rows.right.load(k, start, lanes, size) for start, size in chunks]
            scalars = [rows.left(vectors.offset(first, i), k) for i in range(count)]
            scf.yield_(step_tile(loop.inner_iter_args, scalars, columns, lanes))
        for number, value in enumerate(loop.results):
            i, chunk = divmod(number, len(chunks))
            target.store(value, i, *chunks[chunk])


def step_tile(
    sums: Sequence[ir.Value], scalars: Sequence[ir.Value], columns: Sequence[ir.Value], lanes: int
) -> list[ir.Value]:
    """One rank-1 update of a register tile, row-major."""
    factors = [vectors.splat(scalar, lanes) for scalar in scalars]
    pairs = [(factor, column) for factor in factors for column in columns]
    return [multiply_add(factor, column, total) for (factor, column), total in zip(pairs, sums, strict=True)]
