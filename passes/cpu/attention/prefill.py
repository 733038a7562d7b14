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

from blu.dialects.core.mlir import arith, ir, scf, vector
from blu.passes.cpu.attention.frame import Frame, Keys, QueryBlock, each_block
from blu.passes.cpu.attention.operands import HeadMatrix, Problem, clamped, scaled
from blu.passes.cpu.attention.schedule import PrefillSchedule
from blu.passes.cpu.attention.step import KeyBlockStep
from blu.passes.cpu.attention.weights import HIDDEN, divisor
from blu.passes.cpu.gemm.transpose import transpose
from blu.passes.cpu.kernel import for_range
from blu.passes.kernels import lanes as vectors


class Prefill:
    """Emits the blocks of one kernel."""

    def __init__(self, problem: Problem, schedule: PrefillSchedule):
        self.frame = Frame(problem, schedule)
        self.blocks_per_head = -(-problem.queries // schedule.queries)
        self._clear_keys()

    def _clear_keys(self) -> None:
        """A tile may read rows of keys that are not copied yet: not used, but slow where they look like subnormals."""
        if not self.frame.schedule.copies:
            return
        rows, columns = ir.MemRefType(self.frame.buffers.key.type).shape
        with for_range(0, rows) as loop:
            for column in range(0, columns, self.frame.schedule.lanes):
                place = [loop.induction_variable, vectors.index(column)]
                vector.store(self.frame.constant(0), self.frame.buffers.key, place)

    def emit_block(self, leading: list[ir.Value], number: ir.Value) -> None:
        """The `number`-th block of queries of a head; later ones, which see more keys, have lower numbers."""
        schedule, problem = self.frame.schedule, self.frame.problem
        place = arith.subi(vectors.index(self.blocks_per_head - 1), number)
        block = self._locate(leading, scaled(place, schedule.queries))
        left = arith.subi(vectors.index(problem.queries), block.first)
        groups = arith.minsi(
            arith.ceildivsi(left, vectors.index(schedule.group_queries)), vectors.index(schedule.groups)
        )
        with for_range(0, groups) as loop:
            self._begin_group(block, loop.induction_variable)
        limit = problem.limit(self.frame.query(block, vectors.index(schedule.queries - 1)))
        with each_block(limit, schedule.keys) as keys:
            if schedule.copies:
                self._copy(block.key, self.frame.buffers.key, problem.depth, keys)
                self._copy(block.value, self.frame.buffers.value, problem.width, keys)
            with for_range(0, groups) as inner:
                self._visit(block, inner.induction_variable, keys)
        with for_range(0, groups) as loop:
            self._finish_group(block, loop.induction_variable)

    def _locate(self, leading: list[ir.Value], first: ir.Value) -> QueryBlock:
        problem = self.frame.problem
        *batch, head = leading
        key_head = head if problem.groups <= 1 else arith.divui(head, vectors.index(problem.groups))
        key, value = (stack.matrix([*batch, key_head]) for stack in (problem.key, problem.value))
        mask = problem.mask and problem.mask.matrix(leading)
        return QueryBlock(problem.query.matrix(leading), key, value, problem.output.matrix(leading), mask, first)

    def _begin_group(self, block: QueryBlock, group: ir.Value) -> None:
        """Transpose the queries, scaled, into scratch; nothing seen yet."""
        lanes, depth = self.frame.schedule.lanes, self.frame.problem.depth
        factor = self.frame.constant(self.frame.problem.scale * self.frame.unit)

        def square(rows: list[HeadMatrix], register: ir.Value, first: ir.Value, count: int) -> None:
            values = [arith.mulf(row.load(0, first, lanes, count), factor) for row in rows]
            for lane, value in enumerate(transpose(values)[:count]):
                row = arith.addi(scaled(group, depth), vectors.offset(first, lane))
                self.frame.store(value, self.frame.buffers.query, row, register)

        self._each_square(block, block.query, group, depth, square)
        for j in range(self.frame.schedule.vectors):
            self.frame.store(self.frame.constant(HIDDEN), self.frame.buffers.largest, group, j)
            self.frame.store(self.frame.constant(0), self.frame.buffers.total, group, j)
        start = scaled(group, self.frame.problem.width)
        with for_range(0, self.frame.problem.width) as loop:
            for j in range(self.frame.schedule.vectors):
                row = arith.addi(start, loop.induction_variable)
                self.frame.store(self.frame.constant(0), self.frame.buffers.result, row, j)

    def _each_square(self, block: QueryBlock, matrix: HeadMatrix, group: ir.Value, size: int, emit: Callable) -> None:
        """`emit(rows, vector, first, count)` for each run of `lanes` of `size` columns (the last one shorter) of each
        vector of queries: `rows` are the matrix from each of its queries on."""
        lanes = self.frame.schedule.lanes
        whole = size // lanes * lanes
        with for_range(0, self.frame.schedule.vectors) as loop:
            register = loop.induction_variable
            rows = [matrix.row(query).row(lane) for query, lane in self.frame.lane_queries(block, group, register)]
            if whole:
                with for_range(0, whole, lanes) as inner:
                    emit(rows, register, inner.induction_variable, lanes)
            if size > whole:
                emit(rows, register, vectors.index(whole), size - whole)

    def _copy(self, source: HeadMatrix, buffer: ir.Value, columns: int, keys: Keys) -> None:
        """Copy a block of keys or values into scratch, whole vectors at a time."""
        lanes = self.frame.schedule.lanes
        rows = source.row(keys.first)
        with for_range(0, keys.count) as loop:
            row = loop.induction_variable
            for column in range(0, columns, lanes):
                value = rows.load(row, column, lanes, min(lanes, columns - column))
                vector.store(value, buffer, [row, vectors.index(column)])

    def _visit(self, block: QueryBlock, group: ir.Value, keys: Keys) -> None:
        """Let the queries of a group see a block of keys, as far as it is visible to them."""
        if not self.frame.problem.causal:
            KeyBlockStep(self.frame).emit(block, group, keys)
            return
        last = self.frame.problem.limit(self.frame.group_query(block, group, self.frame.schedule.group_queries - 1))
        count = clamped(arith.subi(last, keys.first), 0, keys.count)
        branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.sgt, count, vectors.index(0)))
        with ir.InsertionPoint(branch.then_block):
            KeyBlockStep(self.frame).emit(block, group, Keys(keys.first, count))
            scf.yield_([])

    def _finish_group(self, block: QueryBlock, group: ir.Value) -> None:
        """Divide by the sums, transpose back and write."""
        lanes, width = self.frame.schedule.lanes, self.frame.problem.width
        one = self.frame.constant(1)
        for j in range(self.frame.schedule.vectors):
            factor = arith.divf(one, divisor(self.frame.load(self.frame.buffers.total, group, j)))
            self.frame.store(factor, self.frame.buffers.total, group, j)

        def square(rows: list[HeadMatrix], register: ir.Value, first: ir.Value, count: int) -> None:
            start = arith.addi(scaled(group, width), first)
            factor = self.frame.load(self.frame.buffers.total, group, register)
            values = [
                arith.mulf(self.frame.load(self.frame.buffers.result, vectors.offset(start, i), register), factor)
                for i in range(count)
            ]
            values += [self.frame.constant(0)] * (lanes - count)
            for row, value in zip(rows, transpose(values), strict=True):
                row.store(value, 0, first, count)

        self._each_square(block, block.output, group, width, square)
