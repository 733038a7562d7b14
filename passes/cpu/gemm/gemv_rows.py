"""A few rows times a right operand that is contiguous along the columns (x W): bound by reading W once.

W is read in the order of memory, a few of its rows at a time over all columns of the block, while the sums wait in L1;
the rows that come next are fetched ahead. (A narrow panel over all of k, as the GEMM walks, would jump through memory.)
The sums stay chains of multiply-adds per element in the order of k, as long as the GEMM's: the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, scf
from blu.passes.cpu.gemm.schedule import CHAIN, ReadRowsSchedule, is_long
from blu.passes.cpu.gemm.tile import add, multiply_add, scratch, widen
from blu.passes.cpu.kernel import KernelBody, for_range, scratch_scope
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import Contraction, Dim, Point
from blu.passes.kernels.epilogue import Epilogue

MOST_ROWS = 16
ROWS_AT_ONCE = 4
"""Rows of W that are read side by side: as many streams as a core follows well."""
PREFETCH_TO_L1 = 3


def accepts(contraction: Contraction) -> bool:
    """Few rows, and a right operand that is contiguous along the columns."""
    few = contraction.size(contraction.rows) <= MOST_ROWS
    in_rows = contraction.right.stride(contraction.columns) == 1
    return few and in_rows and not contraction.outer_depth and contraction.size(contraction.depth) > ROWS_AT_ONCE


def emit(body: KernelBody, epilogue: Epilogue, schedule: ReadRowsSchedule, lanes: int) -> None:
    """Emit the kernel: a block of the grid is a share of the columns, for all rows."""
    contraction = epilogue.contraction
    gemv = _Gemv(contraction, epilogue, lanes, schedule.columns)
    with scratch_scope(body.replacement):
        sums = scratch([gemv.rows, gemv.width], contraction.accumulator)
        totals = scratch([gemv.rows, gemv.width], contraction.accumulator) if is_long(contraction) else sums
    with body.grid(gemv.blocks) as block:
        gemv.emit_block(block, sums, totals)


@dataclass(frozen=True)
class _Gemv:
    """One kernel while it is emitted."""

    contraction: Contraction
    epilogue: Epilogue
    lanes: int
    width: int
    """Columns of a share, in whole vectors."""

    @property
    def rows(self) -> int:
        return self.contraction.size(self.contraction.rows)

    @property
    def columns(self) -> int:
        return self.contraction.size(self.contraction.columns)

    @property
    def blocks(self) -> int:
        if not self.rows or not self.columns:
            return 0
        shares = -(-self.columns // self.width)
        return prod(self.contraction.size(dim) for dim in self.contraction.outer) * shares

    def emit_block(self, block: ir.Value, sums: ir.Value, totals: ir.Value) -> None:
        contraction = self.contraction
        block, share = vectors.split(block, -(-self.columns // self.width))
        point: dict[Dim, ir.Value] = {}
        for dim in reversed(contraction.outer):
            block, point[dim] = vectors.split(block, contraction.size(dim))
        first = arith.muli(share, vectors.index(self.width))
        walk = _Walk(self, {**point, contraction.columns: first}, sums, totals)
        depth = contraction.size(contraction.depth)
        walk.each_vector(walk.clear)
        if is_long(contraction):
            walk.each_vector(walk.keep)
            with for_range(0, depth, CHAIN) as loop:
                begin = loop.induction_variable
                walk.each_vector(walk.clear)
                walk.add_part(begin, arith.minui(vectors.offset(begin, CHAIN), vectors.index(depth)))
                walk.each_vector(walk.add_chain)
        else:
            walk.add_part(vectors.index(0), vectors.index(depth))
        walk.each_vector(walk.finish)


@dataclass(frozen=True)
class _Walk:
    """The columns of one block, vector by vector: `point` stands at the first one.

    `sums` are the block's chains, `totals` their sums (the same where there is one chain).
    """

    gemv: _Gemv
    point: Point
    sums: ir.Value
    totals: ir.Value

    def each_vector(self, act: Callable[[ir.Value, int], None]) -> None:
        """`act(distance, count)` for every vector: its distance from the first column, and how many lanes exist."""
        gemv = self.gemv
        left = arith.subi(vectors.index(gemv.columns), self.point[gemv.contraction.columns])
        here = arith.minui(left, vectors.index(gemv.width))
        rest = gemv.columns % gemv.lanes
        whole = arith.subi(here, arith.remui(here, vectors.index(gemv.lanes))) if rest else here
        with for_range(vectors.index(0), whole, gemv.lanes) as loop:
            act(loop.induction_variable, gemv.lanes)
        if rest:
            branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, whole, here))
            with ir.InsertionPoint(branch.then_block):
                act(whole, rest)
                scf.yield_([])

    def at(self, distance: ir.Value) -> dict[Dim, ir.Value]:
        columns = self.gemv.contraction.columns
        return {**self.point, columns: arith.addi(self.point[columns], distance)}

    def clear(self, distance: ir.Value, count: int) -> None:
        zero = vectors.constant(vectors.vector_type(self.gemv.lanes, self.gemv.contraction.accumulator), 0)
        for row in range(self.gemv.rows):
            vectors.store(zero, self.sums, [vectors.index(row), distance])

    def keep(self, distance: ir.Value, count: int) -> None:
        """The sums, which are zero, as totals."""
        for row in range(self.gemv.rows):
            where = [vectors.index(row), distance]
            vectors.store(vectors.load(self.sums, where, self.gemv.lanes), self.totals, where)

    def add_chain(self, distance: ir.Value, count: int) -> None:
        """Add the chains to the totals."""
        for row in range(self.gemv.rows):
            where = [vectors.index(row), distance]
            before, chain = (vectors.load(buffer, where, self.gemv.lanes) for buffer in (self.totals, self.sums))
            vectors.store(add(before, chain), self.totals, where)

    def add_part(self, begin: ir.Value, end: ir.Value) -> None:
        """The rows of the right operand from `begin` to `end`, a few at a time, and the rest one by one."""
        length = arith.subi(end, begin)
        middle = arith.subi(end, arith.remui(length, vectors.index(ROWS_AT_ONCE)))
        for first, last, step in ((begin, middle, ROWS_AT_ONCE), (middle, end, 1)):
            with for_range(first, last, step) as loop:
                self.add_rows(loop.induction_variable, step)

    def add_rows(self, k: ir.Value, count_k: int) -> None:
        """Add `count_k` rows of the right operand, times their factors, to the sums of all columns."""
        contraction, gemv = self.gemv.contraction, self.gemv
        depths = [vectors.offset(k, distance) for distance in range(count_k)]
        factors = [[self.factor(row, depth) for depth in depths] for row in range(gemv.rows)]

        def add(distance: ir.Value, count: int) -> None:
            place = self.at(distance)
            weights = [self.weights({**place, contraction.depth: depth}, count, count_k) for depth in depths]
            for row in range(gemv.rows):
                where = [vectors.index(row), distance]
                total = vectors.load(self.sums, where, gemv.lanes)
                for factor, weight in zip(factors[row], weights, strict=True):
                    total = multiply_add(factor, weight, total)
                vectors.store(total, self.sums, where)

        self.each_vector(add)

    def factor(self, row: int, depth: ir.Value) -> ir.Value:
        contraction = self.gemv.contraction
        place = {**self.point, contraction.rows: vectors.index(row), contraction.depth: depth}
        scalar = contraction.left.load(place, None, 1, 1)
        return vectors.splat(widen(scalar, contraction.accumulator), self.gemv.lanes)

    def weights(self, place: Point, count: int, ahead: int) -> ir.Value:
        """A vector of the right operand; the one `ahead` rows below is fetched."""
        contraction = self.gemv.contraction
        below = {**place, contraction.depth: vectors.offset(place[contraction.depth], ahead)}
        if count == self.gemv.lanes:
            memref.prefetch(contraction.right.buffer, contraction.right.indices(below), False, PREFETCH_TO_L1, True)
        value = contraction.right.load(place, contraction.columns, self.gemv.lanes, count)
        return widen(value, contraction.accumulator)

    def finish(self, distance: ir.Value, count: int) -> None:
        """The epilogue on finished sums."""
        contraction, gemv = self.gemv.contraction, self.gemv
        for row in range(gemv.rows):
            number = vectors.index(row)
            total = vectors.load(self.totals, [number, distance], gemv.lanes)
            gemv.epilogue.store(total, {**self.at(distance), contraction.rows: number}, gemv.lanes, count)
