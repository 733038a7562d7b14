"""A factor of tf32 whose neighbours lie across k: from shared memory to the registers that `wgmma` takes it from.

Products of tf32 read from shared memory only what has neighbours along k side by side. The left factor may also come
from registers, and threads can read any order into these: a factor that lies the other way is made the left one, by
computing the transposed product where it is the right one. That costs no more shared memory and no more accesses to it
than the instruction's own reading does.

A tile is 128 rows x 32 k, in four panels of 32 rows: in a panel, each k has 128 bytes. Warp w reads panel w. Which rows
of the panel an instruction takes for its own is free, as long as the sums are written accordingly: a thread reads four
neighbours at a time, which are the two rows that it holds of each of two instructions. The pieces are chosen so that
the eight threads which read at a time (two pieces, four k) find theirs in different banks:

    piece of lane l    l / 8 + 4 (l / 4 % 2), swizzled with k: the two differ in their highest bit, the four k in others
    row of the sums    32 w + 4 piece + 2 (number of the instruction) + (upper or lower half)
"""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import shared_memory
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.isa.wgmma import ROW_BYTES

ROWS = 128
PANEL_ROWS, PANEL_BYTES = 32, 32 * ROW_BYTES
STEP, STEPS = 8, 2
"""k of an instruction, and for how many of them registers are filled at a time: those before are multiplied then."""
_PIECE_BYTES = 16


@dataclass(frozen=True)
class RegisterFactor:
    """What one thread of a warpgroup reads: `near` and `far` are the offsets of its first pieces in a tile (i32)."""

    near: ir.Value
    far: ir.Value

    @classmethod
    def of(cls, thread: ir.Value) -> RegisterFactor:
        """For a thread of a warpgroup."""
        depth = numbers.remainder(thread, 4)
        panel = numbers.multiply(numbers.divide(thread, WARP), PANEL_BYTES)
        start = numbers.add(panel, numbers.multiply(depth, ROW_BYTES))
        place = numbers.multiply(arith.xori(_piece(thread), depth), _PIECE_BYTES)
        near = numbers.add(start, place)
        # Four k further the swizzle flips the highest bit of the piece.
        return cls(near, arith.xori(numbers.add(near, numbers.number(4 * ROW_BYTES)), numbers.number(4 * _PIECE_BYTES)))

    def load(self, tile: ir.Value, step: int) -> list[list[ir.Value]]:
        """The registers of both instructions for k from `STEP` * step on, of the tile at a shared address."""
        near, far = (
            shared_memory.ld(numbers.add(tile, own), step * STEP * ROW_BYTES, 4, numbers.i32())
            for own in (self.near, self.far)
        )
        return [[near[part], near[part + 1], far[part], far[part + 1]] for part in (0, 2)]


def first_row(thread: ir.Value) -> ir.Value:
    """The first of the four neighbouring rows of the sums that a thread of a warpgroup holds."""
    panel = numbers.multiply(numbers.divide(thread, WARP), PANEL_ROWS)
    return numbers.add(panel, numbers.multiply(_piece(thread), 4))


def _piece(thread: ir.Value) -> ir.Value:
    """Which four rows of its panel a thread has."""
    lane = numbers.remainder(thread, WARP)
    high = numbers.multiply(numbers.remainder(numbers.divide(lane, 4), 2), 4)
    return numbers.add(numbers.divide(lane, 8), high)
