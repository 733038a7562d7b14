"""Sums along the rows of a tile, by the warp that holds them, before they leave in boxes.

A thread has pairs of columns of four rows of a tile (two, if the tile has 64), and adds up those of all boxes. In the
end the four threads of a row exchange what they have twice, and each writes the sums of one of their rows. Nobody
waits, and additions have the same order in every run.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir, memref, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.boxes.plan import PAIR, ROWS, BoxPlan
from blu.passes.gpu.gemm.slabs import TilePosition
from blu.passes.gpu.isa import shfl, wgmma
from blu.passes.gpu.kernel import when
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import IndexedBuffer

_SHARERS = 4
"""Lanes that have the same rows: neighbours."""


def over_lanes(values: Sequence[ir.Value]) -> list[ir.Value]:
    """What lanes of the same rows have, added up; all of them get it."""
    for distance in (1, 2):
        values = [arith.addf(value, shfl.bfly(value, distance)) for value in values]
    return list(values)


def own_of(values: Sequence[ir.Value], lane: ir.Value) -> ir.Value:
    """Of the numbers of up to four rows, which four lanes have, each lane's own."""
    number, found = numbers.remainder(lane, _SHARERS), values[0]
    for row in range(1, len(values)):
        found = arith.select(numbers.is_equal(number, row), values[row], found)
    return found


def own_row(tile: TilePosition, warp: ir.Value, lane: ir.Value) -> ir.Value:
    """The row of the result of which `own_of` gives a lane the number."""
    number = numbers.remainder(lane, _SHARERS)
    row = numbers.add(numbers.add(tile.row, numbers.multiply(warp, ROWS)), numbers.divide(lane, _SHARERS))
    row = numbers.add(row, numbers.multiply(numbers.divide(number, 2), wgmma.ROWS))
    return numbers.add(row, numbers.multiply(numbers.remainder(number, 2), ROWS // 2))


@dataclass
class RowTotals:
    """What a thread of number `lane` in its warp has added up of its rows of a tile, for one of `row_sums`."""

    plan: BoxPlan
    target: IndexedBuffer
    tile: TilePosition
    lane: ir.Value
    warp: ir.Value
    totals: list[ir.Value | None] = field(init=False)
    left: ir.Value | None = field(init=False)

    def __post_init__(self) -> None:
        self.totals, self.left = [None] * (2 * self.plan.down), None
        if self.plan.product.columns % self.plan.schedule.columns:
            first = numbers.add(self.tile.column, numbers.multiply(numbers.remainder(self.lane, _SHARERS), PAIR))
            self.left = numbers.subtract(self.plan.product.columns, first)

    def add(self, row: int, column: int, terms: ir.Value) -> None:
        """Add a pair of terms of a row, `column` further on than the thread's first of the tile, if they are there."""
        pair = vectors.splat(terms, PAIR)
        term = arith.addf(*(vector.extract(pair, [], [side]) for side in range(PAIR)))
        if self.left is not None:
            term = arith.select(numbers.is_below(column, self.left), term, numbers.real(0.0))
        before = self.totals[row]
        self.totals[row] = term if before is None else arith.addf(before, term)

    def write(self) -> None:
        """Write the sums of rows that exist."""
        totals = over_lanes([total for total in self.totals if total is not None])
        row, rows = own_row(self.tile, self.warp, self.lane), self.plan.product.rows
        exists = numbers.is_below(row, rows)
        if len(totals) < _SHARERS:
            exists = arith.andi(exists, numbers.is_below(numbers.remainder(self.lane, _SHARERS), len(totals)))
        part = numbers.divide(self.tile.column, self.plan.schedule.columns)
        with when(exists):
            place = [arith.index_castui(ir.IndexType.get(), item) for item in (row, part)]
            memref.store(own_of(totals, self.lane), self.target.buffer, place)
