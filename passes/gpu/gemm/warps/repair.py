"""Sums of f32 that tensor cores cannot form: those that came out as NaN are formed again by multiply-adds of f32.

An f32 is multiplied as the sum of two tf32. Of what is infinite, or rounds to infinity, the rest is infinite too, so
whatever it takes part in is NaN, where f32 has infinity, or a number. So tiles are looked through before they are
written, and what is NaN is a chain of multiply-adds in the order of k, as threads without tensor cores form it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, math, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.output import Staged
from blu.passes.gpu.gemm.pipeline import Range
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.isa import shared_memory
from blu.passes.gpu.kernel import repeat, when
from blu.passes.kernels.contraction import Dim, IndexedBuffer, Point

_LANES = 4
"""Neighbours that are looked at together."""


@dataclass(frozen=True)
class Repair:
    """Forms sums of a tile again, whose first row and column of the product at `outer` are `row` and `column` (i32).

    `steps` are those of the tile's part of k, each of `step_depth` k of one run.
    """

    product: Product
    outer: Point
    row: ir.Value
    column: ir.Value
    steps: Range
    step_depth: int

    def look_through(self, staged: Staged, thread: ir.Value, threads: int) -> None:
        """Form what is NaN among the staged sums again. All of them are there; no thread waits."""
        wide = staged.columns // _LANES

        def look(piece: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            own = numbers.divide(piece, wide), numbers.multiply(numbers.remainder(piece, wide), _LANES)
            found = staged.load(*own, _LANES)
            with when(_has_nan([vector.extract(found, [], [lane]) for lane in range(_LANES)])):
                sums = [arith.bitcast(numbers.i32(), value) for value in self._sums(*own)]
                shared_memory.st(staged.at(*own), 0, sums)
            return []

        repeat(thread, staged.rows * wide, threads, [], look)

    def _sums(self, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        """Of neighbours in a row of the tile. What lies beyond the result is taken for its end: nobody reads it."""
        row = numbers.smaller(numbers.add(self.row, row), self.product.rows - 1)
        column = numbers.add(self.column, column)
        columns = [numbers.smaller(numbers.add(column, lane), self.product.columns - 1) for lane in range(_LANES)]
        first, end = (numbers.multiply(step, self.step_depth) for step in self.steps)

        def add(number: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            k, run, exists = self._place(number)
            left = self._load(self.product.contraction.left, {self.product.contraction.rows: row}, k, run)
            found = []
            for total, place in zip(sums, columns, strict=True):
                right = self._load(self.product.contraction.right, {self.product.contraction.columns: place}, k, run)
                found.append(arith.select(exists, math.fma(left, right, total), total))
            return found

        return repeat(first, end, 1, [numbers.real(0.0)] * _LANES, add)

    def _place(self, number: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """k and run of a term, and whether it exists: the last step of a run may reach beyond its end."""
        each = ceil(self.product.depth / self.step_depth) * self.step_depth
        k, run = numbers.remainder(number, each), numbers.divide(number, each)
        exists = arith.andi(numbers.is_below(k, self.product.depth), numbers.is_below(run, self.product.runs))
        return numbers.smaller(k, self.product.depth - 1), numbers.smaller(run, self.product.runs - 1), exists

    def _load(self, buffer: IndexedBuffer, own: dict[int | None, ir.Value], k: ir.Value, run: ir.Value) -> ir.Value:
        contraction = self.product.contraction
        place: dict[Dim, ir.Value] = {**self.outer, **own, contraction.depth: k}
        for dim in reversed(contraction.outer_depth):
            size = contraction.size(dim)
            run, place[dim] = numbers.divide(run, size), numbers.remainder(run, size)
        index = ir.IndexType.get()
        return buffer.load({dim: arith.index_castui(index, value) for dim, value in place.items()}, None, 1, 1)


def _has_nan(values: Sequence[ir.Value]) -> ir.Value:
    found = [arith.cmpf(arith.CmpFPredicate.UNO, value, value) for value in values]
    return arith.ori(arith.ori(found[0], found[1]), arith.ori(found[2], found[3]))
