"""Fragments of products read from tiles in shared memory."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import COPY_BYTES
from blu.passes.gpu.attention.tiles import MatrixTile
from blu.passes.gpu.isa import mma, shared_memory
from blu.passes.gpu.numbers import Number


@dataclass(frozen=True)
class Fragments:
    """The ways to read fragments of a tile."""

    tile: MatrixTile
    lane: ir.Value

    def left(self, first_row: Number) -> LeftFragments | WideLeftFragments:
        """Fragments of left factors whose rows are 16 rows of the tile."""
        if self.tile.size == 4:
            place = numbers.add(numbers.multiply(numbers.add(self._eighth, first_row), self.tile.pitch), self._column)
            return WideLeftFragments(numbers.add(self.tile.address, place), self.tile.pitch)
        row = numbers.add(numbers.remainder(self.lane, 16), first_row)
        place = numbers.add(
            numbers.multiply(row, self.tile.pitch), numbers.multiply(numbers.divide(self.lane, 16), COPY_BYTES)
        )
        return LeftFragments(numbers.add(self.tile.address, place))

    def right(self) -> RightFragments:
        """Fragments of right factors, whose columns or rows are rows of the tile."""
        if self.tile.size == 4:
            return self._wide_right()
        lane, pitch = self.lane, self.tile.pitch
        row = numbers.add(numbers.remainder(lane, 8), numbers.multiply(numbers.divide(lane, 16), 8))
        half = numbers.remainder(numbers.divide(lane, 8), 2)
        by_rows = numbers.add(numbers.multiply(row, pitch), numbers.multiply(half, COPY_BYTES))
        place = numbers.multiply(numbers.divide(lane, 16), COPY_BYTES)
        turned = numbers.add(numbers.multiply(numbers.remainder(lane, 16), pitch), place)
        return RightFragments(numbers.add(self.tile.address, by_rows), numbers.add(self.tile.address, turned), pitch)

    @property
    def _eighth(self) -> ir.Value:
        return numbers.divide(self.lane, 4)

    @property
    def _column(self) -> Number:
        """Bytes to the lane's column among four f32."""
        return numbers.multiply(numbers.remainder(self.lane, 4), 4)

    def _wide_right(self) -> RightFragments:
        pitch = self.tile.pitch
        by_rows = numbers.add(numbers.multiply(self._eighth, pitch), self._column)
        row = numbers.multiply(numbers.remainder(self.lane, 4), 2)
        turned = numbers.add(numbers.multiply(row, pitch), numbers.multiply(self._eighth, 4))
        return WideRightFragments(
            numbers.add(self.tile.address, by_rows), numbers.add(self.tile.address, turned), pitch
        )


@dataclass(frozen=True)
class LeftFragments:
    """16 rows of a tile as left factors."""

    address: Number

    def load(self, step: int) -> list[ir.Value]:
        """Columns from 16 * step on."""
        return mma.ldmatrix(numbers.number(self.address), step * 32)


@dataclass(frozen=True)
class RightFragments:
    """A tile as right factors: each load gives two fragments, of 8 columns of the product each."""

    by_rows: Number
    turned: Number
    pitch: int

    def at(self, offset: ir.Value) -> RightFragments:
        """The same tile, further on by some bytes."""
        return type(self)(numbers.add(self.by_rows, offset), numbers.add(self.turned, offset), self.pitch)

    def as_columns(self, pair: int, step: int) -> tuple[list[ir.Value], list[ir.Value]]:
        """Tile rows 16 * pair.. are columns of the product; tile columns 16 * step.. are summed over."""
        parts = mma.ldmatrix(numbers.number(self.by_rows), pair * 16 * self.pitch + step * 32)
        return parts[:2], parts[2:]

    def as_rows(self, pair: int, step: int) -> tuple[list[ir.Value], list[ir.Value]]:
        """Tile columns 16 * pair.. are columns of the product; tile rows 16 * step.. are summed over."""
        parts = mma.ldmatrix(numbers.number(self.turned), step * 16 * self.pitch + pair * 32, transposed=True)
        return parts[:2], parts[2:]


@dataclass(frozen=True)
class WideLeftFragments:
    """16 rows of a tile of f32 as left factors: for 8 columns what tf32 products want, then for the other 8."""

    address: Number
    pitch: int

    def load(self, step: int) -> list[ir.Value]:
        """Columns from 16 * step on."""
        places = [64 * step + 32 * half + 16 * far + 8 * low * self.pitch
                  for half in (0, 1) for far in (0, 1) for low in (0, 1)]  # fmt: skip
        return [_load(self.address, place) for place in places]


@dataclass(frozen=True)
class WideRightFragments(RightFragments):
    """A tile of f32 as right factors."""

    def as_columns(self, pair: int, step: int) -> tuple[list[ir.Value], list[ir.Value]]:
        """Tile rows are columns of the product."""
        first, second = (
            [_load(self.by_rows, (16 * pair + 8 * side) * self.pitch + 64 * step + 16 * part) for part in range(4)]
            for side in (0, 1)
        )
        return first, second

    def as_rows(self, pair: int, step: int) -> tuple[list[ir.Value], list[ir.Value]]:
        """Tile columns are columns of the product. Terms are in the order that sums have as left factors."""
        rows = [(16 * step + row) * self.pitch for row in (0, 1, 8, 9)]
        first, second = ([_load(self.turned, row + 64 * pair + 32 * side) for row in rows] for side in (0, 1))
        return first, second


def _load(address: Number, offset: int) -> ir.Value:
    return shared_memory.ld(numbers.number(address), offset, 1, numbers.f32())[0]
