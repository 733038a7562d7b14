"""Tiles as Hopper's copy engine brings them and its warpgroups multiply them, and their maps.

A tile has panels of columns, whose rows are 128 bytes and swizzled; columns and rows beyond the end are zeros. Its rows
may be the columns of a product, or what it sums over: of 16 bits, both are read where they lie (others: turned.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.scores import LeftLoads, Sums
from blu.passes.gpu.isa import cvt, tma, wgmma
from blu.passes.gpu.isa.tma import TileMap
from blu.passes.gpu.isa.wgmma import PIECE_BYTES, ROW_BYTES, SharedTile
from blu.passes.gpu.numbers import Number

if TYPE_CHECKING:
    from blu.passes.gpu.attention.warpgroups.turned import HeldRows, TurnedTile

PANEL = 64
"""Columns of a panel of 16 bits."""
PIECE = 8
"""Rows have multiples of so many elements."""
STEP = 16
"""Rows of 16 bits that an instruction sums over."""
STEP_BYTES = 32
"""Of a row, what an instruction sums over."""
MOST_DIMENSIONS = 5
"""Of a tensor map."""


def panel_tile_bytes(rows: int, columns: int, size: int = 2) -> int:
    """Bytes of shared memory that a tile of elements of `size` bytes takes."""
    return ceil(columns * size / ROW_BYTES) * rows * ROW_BYTES


@dataclass(frozen=True)
class PanelTile:
    """`rows` rows (a multiple of 8) of `columns` elements of `size` bytes at a shared address, a multiple of 1024.

    Where it is one of several stages, `first` is the address of the first one, and it is `pieces` of 16 bytes further:
    what descriptors are made of is found of the first one alone, once.
    """

    address: ir.Value
    rows: int
    columns: int
    size: int = 2
    first: ir.Value | None = None
    pieces: Number = 0

    @property
    def panel_bytes(self) -> int:
        """Bytes from a panel to the next."""
        return self.rows * ROW_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of all panels."""
        return panel_tile_bytes(self.rows, self.columns, self.size)

    @property
    def column_steps(self) -> int:
        """Instructions that it takes to sum over columns."""
        return ceil(self.columns * self.size / STEP_BYTES)

    def summed_over_columns(self) -> list[ir.Value]:
        """Descriptors of the factor whose rows are those of the tile, or whose columns are, for each step."""
        low = self._low_word(True)
        each = ROW_BYTES // STEP_BYTES
        return [
            wgmma.described(low, step // each * self.panel_bytes + step % each * STEP_BYTES)
            for step in range(self.column_steps)
        ]

    def summed_over_rows(self) -> list[tuple[int, list[ir.Value]]]:
        """Columns of a product, and descriptors of its right factor of 16 bits for each step: full panels at once."""
        low, full = self._low_word(False, self.panel_bytes), self.columns // PANEL
        parts = [(0, full * PANEL), (full, self.columns - full * PANEL)]
        steps = range(0, self.rows * ROW_BYTES, STEP * ROW_BYTES)
        return [
            (columns, [wgmma.described(low, panel * self.panel_bytes + step) for step in steps])
            for panel, columns in parts
            if columns
        ]

    def _low_word(self, is_deep: bool, panel_bytes: int = 0) -> ir.Value:
        """The half of descriptors that depends on where the tile is."""
        first = self.address if self.first is None else self.first
        low = SharedTile(first, is_deep, panel_bytes).low_word()
        return low if first is self.address else numbers.number(numbers.add(low, self.pieces))

    def load(self, map_: ir.Value, row: Number, leading: Sequence[ir.Value], barrier: ir.Value) -> None:
        """Begin to copy the tile from a row on, by one thread; the barrier counts `bytes`."""
        panel_columns = ROW_BYTES // self.size
        for panel in range(ceil(self.columns / panel_columns)):
            target = numbers.add(self.address, panel * self.panel_bytes)
            tma.cp_async_bulk_tensor(map_, [panel * panel_columns, row, *leading], target, barrier)


def anew(tile: PanelTile) -> PanelTile:
    """The same tile, whose descriptors are made where they are needed, and kept in no registers for later."""
    return PanelTile(wgmma.tie([tile.address])[0], tile.rows, tile.columns, tile.size)


def scores_of(
    left: PanelTile | HeldRows, right: PanelTile, element: str, begun: Sequence[ir.Value] = ()
) -> list[ir.Value]:
    """left [64, columns] @ right [rows, columns]^T, and what is `begun`: begins what `wgmma.wait_group` waits for."""
    sums = list(begun)
    for one, other in zip(left.summed_over_columns(), right.summed_over_columns(), strict=True):
        if not sums:
            sums = wgmma.mma_async_anew(right.rows, one, other, element, (True, True))
        elif isinstance(one, ir.Value):
            sums = wgmma.mma_async(sums, one, other, element, (True, True))
        else:
            sums = wgmma.mma_async_of_registers(sums, one, other, element, True)
    return sums


def add_weighted(
    sums: Sequence[ir.Value], weights: Sequence[ir.Value], right: PanelTile | TurnedTile, element: str
) -> list[ir.Value]:
    """sums + weights [64, rows] @ right [rows, columns]: begins it."""
    results: list[ir.Value] = []
    for columns, factors in right.summed_over_rows():
        own = list(sums[len(results) : len(results) + columns // 2])
        for step, other in enumerate(factors):
            factor = weights[4 * step : 4 * step + 4]
            own = wgmma.mma_async_of_registers(own, factor, other, element, element == "tf32")
        results += own
    return results


def as_sums(values: Sequence[ir.Value]) -> Sums:
    """The sums of a warp's 16 rows, as the steps of a warp have them."""
    return [[list(values[place : place + 4]) for place in range(0, len(values), 4)]]


def packed(left: LeftLoads, rows: int) -> list[ir.Value]:
    """The left factor of a product that sums over so many rows, in registers; f32 are rounded to tf32."""
    values = [value for load in left for step in range(rows // STEP) for value in load(step)]
    return [cvt.rn_tf32(value) if isinstance(value.type, ir.F32Type) else value for value in values]


# Tensor maps


def misfit(type_: ir.MemRefType) -> str:
    """Why the copy engine does not bring tiles of [.., rows, columns] of a buffer; "" if it does."""
    strides, offset = type_.get_strides_and_offset()
    shape = list(type_.shape)
    apart = [stride for length, stride in zip(shape[:-1], strides[:-1], strict=True) if length > 1]
    piece = PIECE_BYTES * 8 // type_.element_type.width
    if (shape[-1] > 1 and strides[-1] != 1) or any(step % piece for step in (offset, shape[-1], *apart)):
        return "the copy engine reads rows of multiples of 16 bytes, that begin at such, with neighbours side by side"
    if not all(step > 0 for step in apart):
        return "the copy engine reads no row twice"
    if sum(length > 1 for length in shape[:-2]) + 2 > MOST_DIMENSIONS:
        return f"tensor maps have at most {MOST_DIMENSIONS} dimensions"
    return ""


def map_of(type_: ir.MemRefType, argument: int, rows: int) -> TileMap:
    """The map for panels of so many rows of a buffer; leading dimensions of size 1 are left out. f32 becomes tf32."""
    strides, offset = type_.get_strides_and_offset()
    *leading, length, columns = type_.shape
    outer = [(size, stride) for size, stride in zip(leading, strides, strict=False) if size > 1][::-1]
    along = strides[-2] if length > 1 else columns
    return TileMap(
        argument,
        (columns, length, *(size for size, _ in outer)),
        (1, along, *(stride for _, stride in outer)),
        (ROW_BYTES * 8 // type_.element_type.width, rows, *(1 for _ in outer)),
        offset,
        str(type_.element_type),
        rounds_tf32=isinstance(type_.element_type, ir.F32Type),
    )


def place_of(shape: Sequence[int], head: Sequence[ir.Value]) -> list[ir.Value]:
    """The coordinates of a head of [.., rows, columns] in a map, innermost first."""
    leading = shape[:-2]
    return [place for size, place in zip(reversed(leading), reversed(head), strict=False) if size > 1]
