"""Sums down the columns of a result, by the warp that holds its rows, before they leave in boxes.

A thread holds pairs of columns of two rows of a box: it adds up those of all boxes down the tile, and then has two
numbers of each eight columns. The eight threads that have the same columns share them out: in each of three exchanges a
thread gives half of its pairs away, and adds to the other half what it is given. In the end it has one pair, and a warp
writes the sums of a box as one row of f32. Nobody waits, and additions have the same order in every run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import shfl
from blu.passes.kernels import lanes as vectors

_FIRST_DISTANCE = 16
"""Lanes that hold the same columns are those whose numbers differ in the bits 16, 8 and 4."""


@dataclass
class ColumnTotals:
    """What a thread of number `lane` in its warp has added up of some columns: a pair for each eight of them."""

    lane: ir.Value
    count: int
    pairs: list[ir.Value | None] = field(init=False)

    def __post_init__(self) -> None:
        self.pairs = [None] * self.count

    def add(self, number: int, values: ir.Value) -> None:
        """Add a pair of halves, or of f32, to pair `number`."""
        wide = vectors.vector_type(ir.VectorType(values.type).shape[0], numbers.f32())
        term = values if values.type == wide else arith.extf(wide, values)
        before = self.pairs[number]
        self.pairs[number] = term if before is None else arith.addf(before, term)

    def own_pair(self) -> ir.Value:
        """The warp's sums of two columns: those from 2 * lane on."""
        pairs = [[vector.extract(pair, [], [side]) for side in range(2)] for pair in self.pairs if pair is not None]
        distance = _FIRST_DISTANCE
        while len(pairs) > 1:
            half = len(pairs) // 2
            bit = arith.andi(self.lane, numbers.number(distance))
            is_upper = arith.cmpi(arith.CmpIPredicate.ne, bit, numbers.number(0))
            pairs = [
                [_exchanged(is_upper, *sides, distance) for sides in zip(low, high, strict=True)]
                for low, high in zip(pairs[:half], pairs[half:], strict=True)
            ]
            distance //= 2
        return vector.from_elements(vectors.vector_type(2, numbers.f32()), pairs[0])


def _exchanged(is_upper: ir.Value, low: ir.Value, high: ir.Value, distance: int) -> ir.Value:
    """Of two numbers the one that a lane keeps, and what the other lane has of it."""
    given = shfl.bfly(arith.select(is_upper, low, high), distance)
    return arith.addf(arith.select(is_upper, high, low), given)
