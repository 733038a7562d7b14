"""Numbers of f32 as sums of two or three bf16, whose products Hopper's warpgroups add up.

A bf16 has 8 bits of an f32's 24: three parts are all of it, two are more than tf32 has. Of the products of parts, those
are left out that are below the last part; the small ones come first. Tensor cores cut where they add, always towards
zero, which long sums would feel: sums of one tile alone are made there, and added to what was before as f32.

Unlike tf32, bf16 are multiplied whichever way they lie in shared memory, and three parts take the time of three tf32.
A launch before the others writes the parts of all operands, `planes` [parts, .., rows, columns].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.scores import Sums
from blu.passes.gpu.attention.warpgroups.panels import PanelTile
from blu.passes.gpu.isa import cvt, wgmma
from blu.passes.gpu.numbers import Number

ELEMENT = "bf16"
SIZE = 2
"""Bytes of an element of a part."""


def products(parts: int) -> list[tuple[int, int]]:
    """Which parts are multiplied with each other, the smallest products first."""
    pairs = [(one, other) for one in range(parts) for other in range(parts - one)]
    return sorted(pairs, key=lambda pair: (-sum(pair), pair))


@dataclass(frozen=True)
class PartTile:
    """The tiles of all parts, one after the other."""

    parts: tuple[PanelTile, ...]

    @classmethod
    def beginning(cls, first: PanelTile, parts: int) -> PartTile:
        """The tiles of all parts, of which the first is given.

        Of an address that is the same in all turns of a loop, a descriptor for each instruction would be computed
        before the loop, and kept in registers that there are not: nobody knows that it is the same.
        """
        (address,) = wgmma.tie([first.address])
        places = [numbers.number(numbers.add(address, number * first.bytes)) for number in range(parts)]
        return cls(tuple(replace(first, address=place, first=None) for place in places))

    @property
    def address(self) -> ir.Value:
        return self.parts[0].address

    @property
    def bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.bytes for part in self.parts)

    def load(self, map_: ir.Value, row: Number, leading: Sequence[ir.Value], barrier: ir.Value) -> None:
        """Begin to copy all parts from a row on, by one thread; the barrier counts `bytes`."""
        for number, part in enumerate(self.parts):
            part.load(map_, row, [*leading, numbers.number(number)], barrier)


def scores_of_parts(left: PartTile, right: PartTile) -> list[ir.Value]:
    """left [64, columns] @ right [rows, columns]^T: begins it."""
    sums: list[ir.Value] = []
    ones, others = ([part.summed_over_columns() for part in tile.parts] for tile in (left, right))
    for place, other_place in products(len(left.parts)):
        for one, other in zip(ones[place], others[other_place], strict=True):
            if sums:
                sums = wgmma.mma_async(sums, one, other, ELEMENT, (True, True))
            else:
                sums = wgmma.mma_async_anew(right.parts[0].rows, one, other, ELEMENT, (True, True))
    return sums


def weighted(weights: Sequence[ir.Value], right: PartTile) -> list[ir.Value]:
    """weights [64, rows] @ right [rows, columns]: begins it. Weights are `split_left`'s."""
    results: list[ir.Value] = []
    count = len(right.parts)
    each = len(weights) // count
    left = [weights[place * each : (place + 1) * each] for place in range(count)]
    by_columns = zip(*(part.summed_over_rows() for part in right.parts), strict=True)
    for of_parts in by_columns:
        columns, own = of_parts[0][0], list[ir.Value]()
        for place, other_place in products(count):
            for step, factor in enumerate(of_parts[other_place][1]):
                four = left[place][4 * step : 4 * step + 4]
                if own:
                    own = wgmma.mma_async_of_registers(own, four, factor, ELEMENT, False)
                else:
                    own = wgmma.mma_async_anew(columns, four, factor, ELEMENT, (True, False))
        results += own
    return results


def added(sums: Sequence[ir.Value], more: Sequence[ir.Value]) -> list[ir.Value]:
    """Sums of all tiles with those of one."""
    return [arith.addf(*pair) for pair in zip(sums, more, strict=True)]


def split_left(sums: Sums, parts: int) -> list[ir.Value]:
    """A warp's 16 rows as the left factor of a product over their columns: all of a part, then the next one's."""
    (blocks,) = sums
    halves = [block[half : half + 2] for block in blocks for half in (0, 2)]
    split = [split_pair(low, high, parts) for low, high in halves]
    return [pair[number] for number in range(parts) for pair in split]


def split_pair(low: ir.Value, high: ir.Value, parts: int) -> list[ir.Value]:
    """Two f32 as the sums of so many pairs of bf16. Of what bf16 has as infinity, and NaN, the rests are NaN."""
    found = []
    for number in range(parts):
        found.append(cvt.rn_x2(low, high, ELEMENT))
        if number + 1 < parts:
            ends = cvt.unpack(found[-1], ELEMENT)
            low, high = (arith.subf(*pair) for pair in zip((low, high), ends, strict=True))
    return found
