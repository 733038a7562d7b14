"""A few rows times a right operand that is contiguous along k (x W^T, as in a tied head): bound by reading W once.

A square of `lanes` columns x `lanes` values of k is loaded along k and transposed in registers, so that the sums stay
one chain of multiply-adds per element in the order of k: the same bits as the GEMM gives, for any number of rows,
threads and any vector width. (Summing along k in lanes would be another order, and is no faster where memory is the
limit.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from blu.dialects.mlir import arith, ir, scf
from blu.dialects.target import CpuTarget
from blu.passes.cpu import lanes as vectors
from blu.passes.cpu.contraction import Contraction, Point
from blu.passes.cpu.epilogue import Epilogue
from blu.passes.cpu.gemm_tile import multiply_add, widen
from blu.passes.cpu.kernel import KernelBody, for_range
from blu.passes.cpu.transpose import transpose

MOST_ROWS = 4
MOST_VECTORS = 4
COLUMNS_PER_BLOCK = 512


def accepts(contraction: Contraction) -> bool:
    """Few rows, and a right operand that is contiguous along k."""
    few = contraction.size(contraction.rows) <= MOST_ROWS
    along_depth = (
        contraction.right.stride(contraction.depth) == 1 and contraction.right.stride(contraction.columns) != 1
    )
    return few and along_depth and contraction.columns is not None and not contraction.outer_depth


def emit(body: KernelBody, epilogue: Epilogue, target: CpuTarget) -> None:
    """Emit the kernel: a block of the grid is a number of columns, for all rows."""
    contraction = epilogue.contraction
    lanes = target.lanes(contraction.accumulator.width // 8)
    width = max(1, min(MOST_VECTORS, -(-contraction.size(contraction.columns) // lanes)))
    gemv = _Gemv(contraction, epilogue, lanes, width)
    with body.grid(gemv.blocks) as block:
        gemv.emit_block(block)


@dataclass(frozen=True)
class _Gemv:
    """One kernel while it is emitted: panels of `width` vectors of `lanes` columns."""

    contraction: Contraction
    epilogue: Epilogue
    lanes: int
    width: int

    @property
    def columns(self) -> int:
        return self.contraction.size(self.contraction.columns)

    @property
    def panels(self) -> int:
        return -(-self.columns // (self.width * self.lanes))

    @property
    def group(self) -> int:
        """Panels per block of the grid."""
        return max(1, min(COLUMNS_PER_BLOCK // (self.width * self.lanes), self.panels // 8))

    @property
    def groups(self) -> int:
        return -(-self.panels // self.group)

    @property
    def blocks(self) -> int:
        return prod(self.contraction.size(dim) for dim in self.contraction.outer) * self.groups

    def emit_block(self, block: ir.Value) -> None:
        contraction = self.contraction
        point: dict[int | None, ir.Value] = {contraction.rows: vectors.index(0)}
        block, group = vectors.split(block, self.groups)
        for dim in reversed(contraction.outer):
            block, point[dim] = vectors.split(block, contraction.size(dim))
        begin = arith.muli(group, vectors.index(self.group))
        end = arith.minsi(vectors.offset(begin, self.group), vectors.index(self.panels))
        with for_range(begin, end) as loop:
            self.emit_panel(point, loop.induction_variable)

    def emit_panel(self, point: Point, panel: ir.Value) -> None:
        """A panel, with code of its own for the last one where that is narrower."""
        size = self.width * self.lanes
        place = {**point, self.contraction.columns: arith.muli(panel, vectors.index(size))}
        rest = self.columns % size
        if not rest:
            self.emit_columns(place, (self.lanes,) * self.width)
            return
        tail = (self.lanes,) * (rest // self.lanes) + ((rest % self.lanes,) if rest % self.lanes else ())
        last = arith.cmpi(arith.CmpIPredicate.eq, panel, vectors.index(self.panels - 1))
        branch = scf.IfOp(last, has_else=True)
        for region, counts in ((branch.then_block, tail), (branch.else_block, (self.lanes,) * self.width)):
            with ir.InsertionPoint(region):
                self.emit_columns(place, counts)
                scf.yield_([])

    def emit_columns(self, point: Point, counts: tuple[int, ...]) -> None:
        """All of k for some columns and all rows, and the epilogue. `counts` are the lanes of each vector."""
        contraction = self.contraction
        depth, rows = contraction.size(contraction.depth), contraction.size(contraction.rows)
        squares = depth // self.lanes * self.lanes
        zero = vectors.constant(vectors.vector_type(self.lanes, contraction.accumulator), 0)
        sums = [zero] * (rows * len(counts))
        sums = self.run(point, counts, sums, (0, squares), self.lanes)
        sums = self.run(point, counts, sums, (squares, depth), 1)
        for place, total in enumerate(sums):
            i, j = divmod(place, len(counts))
            at = self.at(point, j, 0) | {contraction.rows: vectors.index(i)}
            self.epilogue.store(total, at, self.lanes, counts[j])

    def run(
        self, point: Point, counts: tuple[int, ...], sums: list[ir.Value], depth: tuple, step: int
    ) -> list[ir.Value]:
        """Add the k of `depth` to the sums, `step` of them (a square, or one) at a time."""
        if depth[0] == depth[1]:
            return sums
        with for_range(*depth, step, carried=sums) as loop:
            k, sums = loop.induction_variable, list(loop.inner_iter_args)
            for j, count in enumerate(counts):
                square = self.square(point, k, j, count) if step > 1 else [self.column(point, k, j, count)]
                for distance, column in enumerate(square):
                    self.add(sums, point, vectors.offset(k, distance), j, len(counts), column)
            scf.yield_(sums)
        return list(loop.results)

    def add(self, sums: list[ir.Value], point: Point, k: ir.Value, j: int, width: int, column: ir.Value) -> None:
        """sums[i, j] += left[i, k] * column, for all rows i."""
        contraction = self.contraction
        for i in range(len(sums) // width):
            place = {**point, contraction.rows: vectors.index(i), contraction.depth: k}
            factor = widen(contraction.left.load(place, None, 1, 1), contraction.accumulator)
            sums[i * width + j] = multiply_add(vectors.splat(factor, self.lanes), column, sums[i * width + j])

    def square(self, point: Point, k: ir.Value, j: int, count: int) -> list[ir.Value]:
        """`lanes` vectors of columns, for as many k, of the right operand."""
        contraction, rows = self.contraction, []
        for lane in range(count):
            place = self.at(point, j, lane) | {contraction.depth: k}
            value = contraction.right.load(place, contraction.depth, self.lanes, self.lanes)
            rows.append(widen(value, contraction.accumulator))
        return transpose(rows + [vectors.constant(rows[0].type, 0)] * (self.lanes - count))

    def column(self, point: Point, k: ir.Value, j: int, count: int) -> ir.Value:
        """One vector of columns for one k."""
        place = self.at(point, j, 0) | {self.contraction.depth: k}
        value = self.contraction.right.load(place, self.contraction.columns, self.lanes, count)
        return widen(value, self.contraction.accumulator)

    def at(self, point: Point, j: int, lane: int) -> dict[int | None, ir.Value]:
        """The point, moved to a lane of the j-th vector of columns."""
        return {
            **point,
            self.contraction.columns: vectors.offset(point[self.contraction.columns], j * self.lanes + lane),
        }
