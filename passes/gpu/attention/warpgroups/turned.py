"""Tiles of f32 for Hopper's warpgroups, which read tf32 from shared memory only with neighbours along the sum.

Scores sum over columns, as tiles lie. What is summed over rows (values with weights, keys with slopes) is turned around
by the threads of the group, in the gradients while tensor cores make the scores. Left factors stay in registers: their
tiles' shared memory is free then, and holds what is turned.

A thread turns blocks of four rows and four columns: it reads four pieces of 16 bytes and writes four. Weights come out
of the scores with columns 2 t and 2 t + 1 in one thread, t = lane % 4, where an instruction wants columns t and t + 4:
so a piece has every other one of eight rows. Of the eight threads that read or write at a time, l, pieces are chosen so
that all lie in different banks, both where the tile is swizzled by its rows and where it is by its columns:

    piece of eight rows        l: rows 8 (l / 2) + l % 2, and 2, 4, 6 more
    piece of eight columns     l / 2 % 2 + 2 (l % 2) + 4 (l / 4), XOR a number that eight such threads share
"""

from __future__ import annotations

from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.warpgroups.panels import PanelTile, panel_tile_bytes
from blu.passes.gpu.isa import shared_memory
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.isa.wgmma import PIECE_BYTES, ROW_BYTES

SIZE = 4
"""Bytes of an element."""
PANEL = ROW_BYTES // SIZE
TURNED_ROWS = 2 * PANEL
"""Those that the threads of a group turn at a time."""


@dataclass(frozen=True)
class HeldRows:
    """A tile [64, columns] as the left factor, in registers: four for each instruction."""

    registers: list[list[ir.Value]]

    @classmethod
    def read(cls, tile: PanelTile, thread: ir.Value) -> HeldRows:
        """The rows of a thread of the group."""
        lane = numbers.remainder(thread, WARP)
        eighth, column = numbers.divide(lane, 4), numbers.remainder(lane, 4)
        row = numbers.add(numbers.multiply(numbers.divide(thread, WARP), 16), eighth)
        place = numbers.add(numbers.multiply(row, ROW_BYTES), numbers.multiply(eighth, PIECE_BYTES))
        first = numbers.number(numbers.add(tile.address, numbers.add(place, numbers.multiply(column, SIZE))))
        return cls([_registers(tile, first, step) for step in range(tile.column_steps)])

    def summed_over_columns(self) -> list[list[ir.Value]]:
        """The factor for each step."""
        return self.registers


def _registers(tile: PanelTile, first: ir.Value, step: int) -> list[ir.Value]:
    """Of rows r and r + 8, columns t; then those four columns further."""
    panel, inner = divmod(step, 4)
    found = []
    for half in (0, 1):
        address = arith.xori(first, numbers.number((2 * inner + half) * PIECE_BYTES))
        for rows in (0, 8):
            offset = panel * tile.panel_bytes + rows * ROW_BYTES
            found += shared_memory.ld(address, offset, 1, numbers.i32())
    return found


def turned_bytes(rows: int, columns: int) -> int:
    """Bytes of shared memory that a tile takes once it is turned around."""
    return panel_tile_bytes(_whole(columns), rows, SIZE)


@dataclass(frozen=True)
class TurnedTile:
    """A tile of `rows` rows, multiples of 64, and `columns` columns, turned around: its rows are neighbours."""

    address: ir.Value
    rows: int
    columns: int

    @property
    def panels(self) -> PanelTile:
        """The tile as it lies: rows are columns."""
        return PanelTile(self.address, _whole(self.columns), self.rows, SIZE)

    def summed_over_rows(self) -> list[tuple[int, list[ir.Value]]]:
        """Columns of a product, and the descriptors of its right factor for each step."""
        return [(self.columns, self.panels.summed_over_columns())]

    def fill(self, source: PanelTile, thread: ir.Value) -> None:
        """Turn a tile around, by all threads of a group, who then show their writes, and wait for each other."""
        place, target = self._places(source, thread)
        for part in range(self.rows // TURNED_ROWS):
            for panel in range(self.panels.rows // PANEL):
                read = part * TURNED_ROWS * ROW_BYTES + panel * source.panel_bytes
                written = 2 * part * self.panels.panel_bytes + panel * PANEL * ROW_BYTES
                _turn_block(place, read, target, written)

    def _places(self, source: PanelTile, thread: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where a thread's first block begins, and where it goes."""
        bits = [numbers.remainder(numbers.divide(thread, 1 << bit), 2) for bit in range(3)]
        half, eighth = numbers.divide(thread, 64), numbers.remainder(thread, 8)
        mixed = numbers.add(numbers.add(bits[1], numbers.multiply(bits[0], 2)), numbers.multiply(bits[2], 4))
        column = arith.xori(numbers.number(mixed), numbers.remainder(numbers.divide(thread, 8), 8))
        row = numbers.add(numbers.add(numbers.multiply(half, PANEL), bits[0]),
                          numbers.multiply(numbers.divide(eighth, 2), 8))  # fmt: skip
        place = _further(source.address, row, arith.xori(column, bits[0]))
        swizzle = numbers.multiply(numbers.remainder(column, 2), 4)
        target = numbers.add(self.address, numbers.multiply(half, self.panels.panel_bytes))
        return place, _further(target, numbers.multiply(column, 4), arith.xori(eighth, numbers.number(swizzle)))


def _whole(columns: int) -> int:
    """As many columns as panels have."""
    return ceil(columns / PANEL) * PANEL


def _further(address: numbers.Number, row: numbers.Number, piece: numbers.Number) -> ir.Value:
    place = numbers.add(numbers.multiply(row, ROW_BYTES), numbers.multiply(piece, PIECE_BYTES))
    return numbers.number(numbers.add(address, place))


def _turn_block(place: ir.Value, read: int, target: ir.Value, written: int) -> None:
    """Four rows, each the second after the one before, of four columns: swizzles flip bits of addresses."""
    rows = []
    for number in range(4):
        address = arith.xori(place, numbers.number(2 * number * PIECE_BYTES))
        rows.append(shared_memory.ld(address, read + 2 * number * ROW_BYTES, 4, numbers.i32()))
    for number, column in enumerate(zip(*rows, strict=True)):
        address = arith.xori(target, numbers.number(number * PIECE_BYTES))
        shared_memory.st(address, written + number * ROW_BYTES, column)
