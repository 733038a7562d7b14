"""Slabs of the sums of a tile of warpgroups: how the threads that hold them put them into shared memory.

A slab is 32 columns of an instruction's sums, and all rows of the tile: columns of the result, or rows of it where the
transposed product is computed. The sums of a tile are those of its instructions one after the other, each as
isa/wgmma.py says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm import register_factor
from blu.passes.gpu.gemm.output import PADDING, Staged, stage_fragments
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.gpu.isa import shared_memory, wgmma
from blu.passes.gpu.isa.warp import WARP
from blu.passes.kernels.epilogue import Known

SLAB = 32
"""Columns of the sums that are written at a time."""
_TURNED_PADDING = 4
"""Four neighbours of a row are stored at a time, in two passes: with more floats it would be four."""


@dataclass(frozen=True)
class TilePosition:
    """A tile: its part of k and the first step of that, its product, its first row and column."""

    part: ir.Value
    step: ir.Value
    outer: ir.Value
    row: ir.Value
    column: ir.Value


@dataclass(frozen=True)
class SlabWriter:
    """`write(staged, place, known)` writes a slab of staged sums; `read(staged, place)` gives what is known before."""

    read: Callable[[Staged, TilePosition], list[Known] | None]
    write: Callable[[Staged, TilePosition, list[Known] | None], None]


Write = Callable[[list[ir.Value], TilePosition], None]
"""Writes the sums of a tile from the registers that hold them."""


@dataclass(frozen=True)
class Slabs:
    """The slabs of a tile."""

    schedule: WgmmaSchedule

    @property
    def bytes(self) -> int:
        """Shared memory of one."""
        rows, columns, padding = self._shape
        return rows * (columns + padding) * 4

    def staged(self, address: ir.Value) -> Staged:
        """A slab at a shared address."""
        return Staged(address, *self._shape)

    @property
    def _shape(self) -> tuple[int, int, int]:
        if self.schedule.is_turned:
            return SLAB, self.schedule.columns, _TURNED_PADDING
        return self.schedule.rows, SLAB, PADDING

    def stage(self, staged: Staged, thread: ir.Value, sums: Sequence[ir.Value], slab: int) -> None:
        """Store the sums of slab number `slab` that a thread of a warpgroup holds."""
        each, first = self.schedule.across // 2, slab * SLAB // 2
        parts = [sums[start + first : start + first + SLAB // 2] for start in range(0, len(sums), each)]
        if self.schedule.registers == "none":
            _stage_rows(staged, thread, parts)
        elif self.schedule.is_turned:
            _stage_columns(staged, thread, parts)
        else:
            _stage_permuted_rows(staged, thread, parts)


def _stage_rows(staged: Staged, thread: ir.Value, parts: Sequence[Sequence[ir.Value]]) -> None:
    """Rows of the sums are those of the result."""
    own_row, lane = numbers.multiply(numbers.divide(thread, WARP), 16), numbers.remainder(thread, WARP)
    for part, sums in enumerate(parts):
        fragments = [sums[place : place + 4] for place in range(0, len(sums), 4)]
        down = numbers.add(own_row, part * wgmma.ROWS)
        stage_fragments(staged, down, numbers.number(0), lane, fragments, SLAB // 8)


def _stage_permuted_rows(staged: Staged, thread: ir.Value, parts: Sequence[Sequence[ir.Value]]) -> None:
    """A thread has four neighbouring rows (register_factor.py)."""
    column = numbers.multiply(numbers.remainder(thread, 4), 2)
    start = staged.at(register_factor.first_row(thread), column)
    for part, sums in enumerate(parts):
        for pair in range(0, len(sums), 2):
            row, offset = 2 * part + pair // 2 % 2, pair // 4 * 8
            shared_memory.st(start, row * staged.pitch + offset * 4, sums[pair : pair + 2])


def _stage_columns(staged: Staged, thread: ir.Value, parts: Sequence[Sequence[ir.Value]]) -> None:
    """The same of the transposed product: four neighbouring columns of the result."""
    row = numbers.multiply(numbers.remainder(thread, 4), 2)
    start = staged.at(row, register_factor.first_row(thread))
    for place in range(0, len(parts[0]), 4):
        for side in range(2):
            neighbours = [sums[place + 2 * half + side] for sums in parts for half in range(2)]
            shared_memory.st(start, (place // 4 * 8 + side) * staged.pitch, neighbours)
