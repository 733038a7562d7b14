"""A few rows times a right operand that is contiguous along k (x W^T, as in a tied head): bound by reading W once.

A square of `lanes` columns x `lanes` values of k is loaded along k and transposed in registers, so that the sums stay
one chain of multiply-adds per element in the order of k: the same bits as the GEMM gives, for any number of rows,
threads and any vector width. (Summing along k in lanes would be another order, and is no faster where memory is the
limit.)
"""

from __future__ import annotations

from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, scf
from blu.passes.cpu.gemm.schedule import CHAIN, ReadColumnsSchedule, is_long
from blu.passes.cpu.gemm.tile import add, multiply_add, widen
from blu.passes.cpu.gemm.transpose import transpose
from blu.passes.cpu.kernel import KernelBody, for_range
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import Contraction, Dim, Point
from blu.passes.kernels.epilogue import Epilogue

MOST_ROWS = 4
VECTORS_AHEAD = 2
"""How many vectors of columns ahead to fetch: hardware does not follow as many rows as there are lanes."""
TO_L2 = 2


def accepts(contraction: Contraction) -> bool:
    """Few rows, and a right operand that is contiguous along k."""
    few = contraction.size(contraction.rows) <= MOST_ROWS
    along_depth = (
        contraction.right.stride(contraction.depth) == 1 and contraction.right.stride(contraction.columns) != 1
    )
    return few and along_depth and contraction.columns is not None and not contraction.outer_depth


def emit(body: KernelBody, epilogue: Epilogue, schedule: ReadColumnsSchedule, lanes: int) -> None:
    """Emit the kernel: a block of the grid is a number of columns, for all rows."""
    gemv = _Gemv(epilogue.contraction, epilogue, lanes, schedule.columns // lanes)
    with body.grid(gemv.blocks) as block:
        gemv.emit_block(block)


@dataclass(frozen=True)
class _Gemv:
    """One kernel while it is emitted: one vector of `lanes` columns at a time, for all rows."""

    contraction: Contraction
    epilogue: Epilogue
    lanes: int
    group: int
    """Vectors of columns per block of the grid."""

    @property
    def columns(self) -> int:
        return self.contraction.size(self.contraction.columns)

    @property
    def vectors(self) -> int:
        return -(-self.columns // self.lanes)

    @property
    def groups(self) -> int:
        return -(-self.vectors // self.group)

    @property
    def blocks(self) -> int:
        return prod(self.contraction.size(dim) for dim in self.contraction.outer) * self.groups

    def emit_block(self, block: ir.Value) -> None:
        contraction = self.contraction
        point: dict[Dim, ir.Value] = {contraction.rows: vectors.index(0)}
        block, group = vectors.split(block, self.groups)
        for dim in reversed(contraction.outer):
            block, point[dim] = vectors.split(block, contraction.size(dim))
        begin = arith.muli(group, vectors.index(self.group))
        end = arith.minsi(vectors.offset(begin, self.group), vectors.index(self.vectors))
        with for_range(begin, end) as loop:
            self.emit_vector(point, loop.induction_variable)

    def emit_vector(self, point: Point, number: ir.Value) -> None:
        """A vector of columns, with code of its own for the last one where that is narrower."""
        place = {**point, self.contraction.columns: arith.muli(number, vectors.index(self.lanes))}
        rest = self.columns % self.lanes
        if not rest:
            self.emit_columns(place, self.lanes)
            return
        last = arith.cmpi(arith.CmpIPredicate.eq, number, vectors.index(self.vectors - 1))
        branch = scf.IfOp(last, has_else=True)
        for region, count in ((branch.then_block, rest), (branch.else_block, self.lanes)):
            with ir.InsertionPoint(region):
                self.emit_columns(place, count)
                scf.yield_([])

    def emit_columns(self, point: Point, count: int) -> None:
        """All of k for `count` columns and all rows, and the epilogue."""
        contraction = self.contraction
        depth = contraction.size(contraction.depth)
        sums = [vectors.constant(vectors.vector_type(self.lanes, contraction.accumulator), 0)] * contraction.size(
            contraction.rows
        )
        sums = (
            self.chains(point, count, sums, depth)
            if is_long(contraction)
            else self.chain(point, count, sums, (0, depth))
        )
        for row, total in enumerate(sums):
            self.epilogue.store(total, {**point, contraction.rows: vectors.index(row)}, self.lanes, count)

    def chains(self, point: Point, count: int, zeros: list[ir.Value], depth: int) -> list[ir.Value]:
        """The sums of chains of `CHAIN` k, the last one of what is left."""
        whole = depth // CHAIN * CHAIN
        with for_range(0, whole, CHAIN, carried=zeros) as loop:
            begin = loop.induction_variable
            part = self.run(point, count, zeros, (begin, vectors.offset(begin, CHAIN)), self.lanes)
            scf.yield_([add(*pair) for pair in zip(loop.inner_iter_args, part, strict=True)])
        if whole == depth:
            return list(loop.results)
        rest = self.chain(point, count, zeros, (whole, depth))
        return [add(*pair) for pair in zip(loop.results, rest, strict=True)]

    def chain(self, point: Point, count: int, sums: list[ir.Value], depth: tuple[int, int]) -> list[ir.Value]:
        """One chain over the k of `depth`: squares, and what is left one by one."""
        begin, end = depth
        middle = end - (end - begin) % self.lanes
        sums = self.run(point, count, sums, (begin, middle), self.lanes)
        return self.run(point, count, sums, (middle, end), 1)

    def run(
        self, point: Point, count: int, sums: list[ir.Value], depth: tuple[ir.Value | int, ir.Value | int], step: int
    ) -> list[ir.Value]:
        """Add the k of `depth` to the sums, `step` of them (a square, or one) at a time."""
        if depth[0] == depth[1]:
            return sums
        with for_range(*depth, step, carried=sums) as loop:
            k, sums = loop.induction_variable, list(loop.inner_iter_args)
            columns = self.square(point, k, count) if step > 1 else [self.column(point, k, count)]
            for distance, column in enumerate(columns):
                sums = self.add(sums, point, vectors.offset(k, distance), column)
            scf.yield_(sums)
        return list(loop.results)

    def add(self, sums: list[ir.Value], point: Point, k: ir.Value, column: ir.Value) -> list[ir.Value]:
        """sums[i] + left[i, k] * column, for all rows i."""
        contraction, results = self.contraction, []
        for row, total in enumerate(sums):
            place = {**point, contraction.rows: vectors.index(row), contraction.depth: k}
            factor = widen(contraction.left.load(place, None, 1, 1), contraction.accumulator)
            results.append(multiply_add(vectors.splat(factor, self.lanes), column, total))
        return results

    def square(self, point: Point, k: ir.Value, count: int) -> list[ir.Value]:
        """`lanes` vectors of columns, for as many k, of the right operand."""
        contraction, rows = self.contraction, []
        column = point[contraction.columns]
        for lane in range(count):
            place = {**point, contraction.depth: k, contraction.columns: vectors.offset(column, lane)}
            value = contraction.right.load(place, contraction.depth, self.lanes, self.lanes)
            place[contraction.columns] = vectors.offset(column, lane + VECTORS_AHEAD * self.lanes)
            memref.prefetch(contraction.right.buffer, contraction.right.indices(place), False, TO_L2, True)
            rows.append(widen(value, contraction.accumulator))
        return transpose(rows + [vectors.constant(rows[0].type, 0)] * (self.lanes - count))

    def column(self, point: Point, k: ir.Value, count: int) -> ir.Value:
        """One vector of columns for one k."""
        place = {**point, self.contraction.depth: k}
        value = self.contraction.right.load(place, self.contraction.columns, self.lanes, count)
        return widen(value, self.contraction.accumulator)
