"""Sums down the columns of a result, by the warp that holds its rows, before they leave in boxes.

A thread holds pairs of columns of two rows of a box: it adds up those of all boxes down the tile, and then has two
numbers of each eight columns. The eight threads that have the same columns share them out: in each of three exchanges a
thread gives half of its pairs away, and adds to the other half what it is given. In the end it has one pair, and a warp
writes the sums of a box as one row of f32. Nobody waits, and additions have the same order in every run.
"""

from __future__ import annotations

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.numbers import Number
from blu.passes.kernels import lanes as vectors

_FIRST_DISTANCE = 16
"""Lanes that hold the same columns are those whose numbers differ in the bits 16, 8 and 4."""
_PAIRS = 8
"""As many as such lanes."""


@dataclass
class ColumnTotals:
    """What a thread of number `lane` in its warp has added up of some columns: a pair for each eight of them.

    There are 4 or 8 pairs; of 4, two threads end with the same one.
    """

    lane: ir.Value
    count: int
    pairs: list[ir.Value | None] = field(init=False)

    def __post_init__(self) -> None:
        self.pairs = [None] * self.count

    def add(self, number: int, word: ir.Value, element: ir.Type) -> None:
        """Add the two halves of this type in a word (i32) to pair `number`."""
        self.add_pair(number, _widened(word, element))

    def add_pair(self, number: int, term: ir.Value) -> None:
        """Add two f32 to pair `number`."""
        before = self.pairs[number]
        self.pairs[number] = term if before is None else arith.addf(before, term)

    @property
    def own_column(self) -> Number:
        """The first of the two columns of `own_pair`."""
        if self.count == _PAIRS:
            return numbers.multiply(self.lane, 2)
        eighth = numbers.divide(self.lane, WARP // self.count)
        return numbers.add(numbers.multiply(eighth, 8), numbers.multiply(numbers.remainder(self.lane, 4), 2))

    @property
    def is_own(self) -> ir.Value | None:
        """Whether it is this thread that writes its pair, where there are others."""
        if self.count == _PAIRS:
            return None
        return numbers.is_below(numbers.remainder(self.lane, WARP // self.count), 4)

    def own_pair(self) -> ir.Value:
        """The warp's sums of two columns."""
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
        for _ in range(self.count, _PAIRS, _PAIRS // 2):
            pairs = [[arith.addf(side, shfl.bfly(side, distance)) for side in pairs[0]]]
        return vector.from_elements(vectors.vector_type(2, numbers.f32()), pairs[0])


def _widened(word: ir.Value, element: ir.Type) -> ir.Value:
    """The two halves of a word as f32.

    Those of bf16 are its bits: were they taken out as numbers, LLVM would round each by itself, by an instruction of a
    quarter of the rate of the one that rounds two.
    """
    if not isinstance(element, ir.BF16Type):
        halves = vector.bitcast(vectors.vector_type(2, element), _one(word))
        return arith.extf(vectors.vector_type(2, numbers.f32()), halves)
    upper = arith.andi(word, numbers.number(-(1 << 16)))
    sides = [arith.bitcast(numbers.f32(), bits) for bits in (arith.shli(word, numbers.number(16)), upper)]
    return vector.from_elements(vectors.vector_type(2, numbers.f32()), sides)


def _one(word: ir.Value) -> ir.Value:
    return vector.broadcast(ir.VectorType.get([1], numbers.i32()), word)


def _exchanged(is_upper: ir.Value, low: ir.Value, high: ir.Value, distance: int) -> ir.Value:
    """Of two numbers the one that a lane keeps, and what the other lane has of it."""
    given = shfl.bfly(arith.select(is_upper, low, high), distance)
    return arith.addf(arith.select(is_upper, high, low), given)
