"""Tiles of 16-bit elements as Hopper's copy engine brings them and its warpgroups multiply them, and their maps.

A tile has panels of 64 columns, whose rows are 128 bytes and swizzled; columns and rows beyond the end are zeros. Its
rows may be the columns of a product, or what it sums over: both are read where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.scores import LeftLoads, Sums
from blu.passes.gpu.isa import tma, wgmma
from blu.passes.gpu.isa.tma import TileMap
from blu.passes.gpu.isa.wgmma import ROW_BYTES, SharedTile
from blu.passes.gpu.numbers import Number

PANEL = 64
"""Columns of a panel."""
PIECE = 8
"""Elements of 16 bytes, of which rows are made."""
STEP = 16
"""What an instruction sums over."""
MOST_DIMENSIONS = 5
"""Of a tensor map."""


def panel_tile_bytes(rows: int, columns: int) -> int:
    """Bytes of shared memory that a tile takes."""
    return ceil(columns / PANEL) * rows * ROW_BYTES


@dataclass(frozen=True)
class PanelTile:
    """`rows` rows (a multiple of 8) of `columns` elements at a shared address, a multiple of 1024."""

    address: ir.Value
    rows: int
    columns: int

    @property
    def panel_bytes(self) -> int:
        """Bytes from a panel to the next."""
        return self.rows * ROW_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of all panels."""
        return panel_tile_bytes(self.rows, self.columns)

    @property
    def column_steps(self) -> int:
        """Instructions that it takes to sum over columns."""
        return ceil(self.columns / STEP)

    def summed_over_columns(self) -> list[ir.Value]:
        """Descriptors of the factor whose rows are those of the tile, or whose columns are, for each step."""
        low = SharedTile(self.address, True).low_word()
        each = PANEL // STEP
        return [
            wgmma.described(low, step // each * self.panel_bytes + step % each * STEP * 2)
            for step in range(self.column_steps)
        ]

    def summed_over_rows(self, panel: int) -> list[ir.Value]:
        """Descriptors of the right factor whose columns are those of the tile from a panel on, for each step."""
        low = SharedTile(self.address, False, self.panel_bytes).low_word()
        first = panel * self.panel_bytes
        return [wgmma.described(low, first + step * STEP * ROW_BYTES) for step in range(self.rows // STEP)]

    def load(self, map_: ir.Value, row: Number, leading: Sequence[ir.Value], barrier: ir.Value) -> None:
        """Begin to copy the tile from a row on, by one thread; the barrier counts `bytes`."""
        for panel in range(ceil(self.columns / PANEL)):
            target = numbers.add(self.address, panel * self.panel_bytes)
            tma.cp_async_bulk_tensor(map_, [panel * PANEL, row, *leading], target, barrier)


def scores_of(left: PanelTile, right: PanelTile, element: str) -> list[ir.Value]:
    """left [64, columns] @ right [rows, columns]^T: begins what `wgmma.wait_group` waits for."""
    sums: list[ir.Value] = []
    for one, other in zip(left.summed_over_columns(), right.summed_over_columns(), strict=True):
        if sums:
            sums = wgmma.mma_async(sums, one, other, element, (True, True))
        else:
            sums = wgmma.mma_async_anew(right.rows, one, other, element, (True, True))
    return sums


def add_weighted(
    sums: Sequence[ir.Value], weights: Sequence[ir.Value], right: PanelTile, element: str
) -> list[ir.Value]:
    """sums + weights [64, rows] @ right [rows, columns]: begins it. Full panels are multiplied at once."""
    full = right.columns // PANEL
    parts = [(0, full * PANEL)] * (full > 0) + [(full, right.columns - full * PANEL)] * (right.columns % PANEL > 0)
    results: list[ir.Value] = []
    for panel, columns in parts:
        own = list(sums[len(results) : len(results) + columns // 2])
        for step, other in enumerate(right.summed_over_rows(panel)):
            own = wgmma.mma_async_of_registers(own, weights[4 * step : 4 * step + 4], other, element, False)
        results += own
    return results


def as_sums(values: Sequence[ir.Value]) -> Sums:
    """The sums of a warp's 16 rows, as the steps of a warp have them."""
    return [[list(values[place : place + 4]) for place in range(0, len(values), 4)]]


def packed(left: LeftLoads, rows: int) -> list[ir.Value]:
    """The left factor of a product that sums over so many rows, in registers."""
    return [value for load in left for step in range(rows // STEP) for value in load(step)]


# Tensor maps


def misfit(type_: ir.MemRefType) -> str:
    """Why the copy engine does not bring tiles of [.., rows, columns] of a buffer; "" if it does."""
    strides, offset = type_.get_strides_and_offset()
    shape = list(type_.shape)
    apart = [stride for length, stride in zip(shape[:-1], strides[:-1], strict=True) if length > 1]
    if (shape[-1] > 1 and strides[-1] != 1) or any(step % PIECE for step in (offset, shape[-1], *apart)):
        return "the copy engine reads rows of multiples of 16 bytes, that begin at such, with neighbours side by side"
    if not all(step > 0 for step in apart):
        return "the copy engine reads no row twice"
    if sum(length > 1 for length in shape[:-2]) + 2 > MOST_DIMENSIONS:
        return f"tensor maps have at most {MOST_DIMENSIONS} dimensions"
    return ""


def map_of(type_: ir.MemRefType, argument: int, rows: int) -> TileMap:
    """The map for panels of so many rows of a buffer; leading dimensions of size 1 are left out."""
    strides, offset = type_.get_strides_and_offset()
    *leading, length, columns = type_.shape
    outer = [(size, stride) for size, stride in zip(leading, strides, strict=False) if size > 1][::-1]
    along = strides[-2] if length > 1 else columns
    return TileMap(
        argument,
        (columns, length, *(size for size, _ in outer)),
        (1, along, *(stride for _, stride in outer)),
        (PANEL, rows, *(1 for _ in outer)),
        offset,
        str(type_.element_type),
    )


def place_of(shape: Sequence[int], head: Sequence[ir.Value]) -> list[ir.Value]:
    """The coordinates of a head of [.., rows, columns] in a map, innermost first."""
    leading = shape[:-2]
    return [place for size, place in zip(reversed(leading), reversed(head), strict=False) if size > 1]
