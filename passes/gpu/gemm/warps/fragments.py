"""Fragments for `mma.sync`, read from tiles in shared memory: see copy.py for how those lie there.

Source of the layouts: PTX ISA, "Matrix Fragments for mma.m16n8k16" and "mma.m16n8k8".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.copy import FactorTile
from blu.passes.gpu.gemm.problem import COPY_BYTES
from blu.passes.gpu.gemm.schedule import ROW_BYTES
from blu.passes.gpu.isa import mma, shared_memory

STEP_BYTES = 32
"""Of a row that one instruction multiplies: 16 elements of two bytes, 8 of four."""
STEPS = ROW_BYTES // STEP_BYTES
_TURNED_PANEL = 4  # sixteen-byte pairs, or pieces of eight floats, in a row

Fragment = list[ir.Value]


@dataclass(frozen=True)
class Reader:
    """Reads a warp's share of a tile: `extent` rows (or columns of the right factor) from `first` on.

    `is_left` says of which factor. `base` is the tile's offset in its stage.
    """

    tile: FactorTile
    is_left: bool
    first: ir.Value
    extent: int
    lane: ir.Value
    base: int

    @cached_property
    def address(self) -> ir.Value:
        """What the lane adds to a stage's address for its first fragments."""
        tile = self.tile
        if tile.is_deep:
            row, piece = self._deep_row()
            place = numbers.multiply(numbers.add(row, self.first), ROW_BYTES)
            return numbers.add(numbers.add(place, numbers.multiply(tile.swizzle(piece, row), COPY_BYTES)), self.base)
        row, piece, within = self._turned_row()
        panel = numbers.multiply(numbers.divide(self.first, tile.width), tile.panel_bytes)
        piece = numbers.add(piece, numbers.divide(numbers.remainder(self.first, tile.width), tile.lanes))
        place = numbers.add(numbers.multiply(row, ROW_BYTES), numbers.multiply(tile.swizzle(piece, row), COPY_BYTES))
        return numbers.add(numbers.add(numbers.add(place, panel), within), self.base)

    def load(self, stage: ir.Value, step: int) -> list[Fragment]:
        """The fragments of a step of a row: one for every 16 rows of the left factor, or every 8 columns."""
        start = numbers.add(stage, self.address)
        if self.tile.is_deep:
            return self._load_deep(start, step)
        return self._load_pairs(start, step) if self.tile.bytes == 2 else self._load_single(start, step)

    def _deep_row(self) -> tuple[ir.Value, ir.Value]:
        """The row and piece whose address the lane gives `ldmatrix`."""
        lane = self.lane
        if self.is_left:
            return numbers.remainder(lane, 16), numbers.divide(lane, 16)
        row = numbers.add(numbers.remainder(lane, 8), numbers.multiply(numbers.divide(lane, 16), 8))
        return row, numbers.remainder(numbers.divide(lane, 8), 2)

    def _turned_row(self) -> tuple[ir.Value, ir.Value, numbers.Number]:
        """The same where rows are k: for `ldmatrix.trans`, or the place of the lane's first float."""
        lane = self.lane
        if self.tile.bytes == 4:
            across = numbers.divide(lane, 4)
            return (
                numbers.remainder(lane, 4),
                numbers.divide(across, 4),
                numbers.multiply(numbers.remainder(across, 4), 4),
            )
        if self.is_left:
            row = numbers.add(numbers.remainder(lane, 8), numbers.multiply(numbers.divide(lane, 16), 8))
            return row, numbers.remainder(numbers.divide(lane, 8), 2), 0
        return numbers.remainder(lane, 16), numbers.divide(lane, 16), 0

    def _load_deep(self, start: ir.Value, step: int) -> list[Fragment]:
        address = _turned(start, step)
        parts = [mma.ldmatrix(address, block * ROW_BYTES) for block in range(0, self.extent, 16)]
        return self._split(parts)

    def _load_pairs(self, start: ir.Value, step: int) -> list[Fragment]:
        parts = []
        for block in range(self.extent // 16):
            panel, place = divmod(block, _TURNED_PANEL)
            offset = panel * self.tile.panel_bytes + step * 16 * ROW_BYTES
            parts.append(mma.ldmatrix(_turned(start, place), offset, transposed=True))
        return self._split(parts)

    def _load_single(self, start: ir.Value, step: int) -> list[Fragment]:
        columns = []
        for block in range(self.extent // 8):
            panel, place = divmod(block, _TURNED_PANEL)
            offset = panel * self.tile.panel_bytes + step * 8 * ROW_BYTES
            address = _turned(start, place)
            columns.append(
                [shared_memory.ld(address, offset + half, 1, numbers.i32())[0] for half in (0, 4 * ROW_BYTES)]
            )
        if not self.is_left:
            return columns
        pairs = zip(columns[::2], columns[1::2], strict=True)
        return [[low[0], high[0], low[1], high[1]] for low, high in pairs]

    def _split(self, parts: Sequence[Fragment]) -> list[Fragment]:
        """`ldmatrix` gives one fragment of a left factor, or two of a right one."""
        return list(parts) if self.is_left else [half for part in parts for half in (part[:2], part[2:])]


def _turned(address: ir.Value, place: int) -> ir.Value:
    """The address of the piece 2 * place further on, before it was moved: XOR commutes."""
    return arith.xori(address, numbers.number(place * STEP_BYTES)) if place else address


def multiply_add(sums: Fragment, left: Fragment, right: Fragment, instruction: str) -> Fragment:
    """sums [16, 8] + left @ right, by one instruction: k is 16 for bf16 and f16, 8 for tf32."""
    if instruction == "tf32":
        return mma.m16n8k8_tf32(sums, left, right)
    return mma.m16n8k16(sums, left, right, instruction)
