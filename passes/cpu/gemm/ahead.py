"""What the tiles of a GEMM do for the next panel while they run, so that nobody waits for memory.

The work is spread evenly over the tiles of a panel: tile number t is responsible for the t-th share of the next panel's
rows and fetches one of them every few steps of k. Hardware would not guess this pattern: a panel row is a few lines
only, and the next one lies a whole row of the matrix further.
"""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.cpu.gemm.pack import PREFETCH_TO_L2, Depth, RightPanels
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import Point


@dataclass(frozen=True)
class Turn:
    """Which tile runs, over which block of k, for which panel (a point)."""

    point: Point
    tile: ir.Value
    depth: Depth


@dataclass(frozen=True)
class Ahead:
    """The next panel in `tiles` shares, a row every `steps` steps of k."""

    right: RightPanels
    tiles: int
    steps: int

    @property
    def first_packs(self) -> bool:
        """Whether the first tile packs its panel on the way: it meets whole vectors of columns."""
        return self.right.contraction.right.stride(self.right.contraction.columns) == 1

    def emit(self, turn: Turn, k: ir.Value) -> None:
        """What happens before step k (a multiple of `steps`). There need not be a next panel: fetching does no harm."""
        begin, end = turn.depth
        share = arith.ceildivui(arith.subi(end, begin), vectors.index(self.tiles))
        position = arith.divui(arith.subi(k, begin), vectors.index(self.steps))
        row = arith.addi(begin, arith.addi(arith.muli(turn.tile, share), position))
        first = vectors.offset(turn.point[self.right.contraction.columns], self.right.schedule.columns)
        if not self.first_packs:
            # Contiguous along k: a line holds as many k of one column as there are lanes.
            lane = arith.remui(row, vectors.index(self.right.schedule.lanes))
            row, first = arith.subi(row, lane), arith.addi(first, lane)
        for j in range(self.right.schedule.vectors):
            self.right.prefetch({**turn.point, self.right.contraction.columns: first}, row, j, PREFETCH_TO_L2)


def choose_ahead(right: RightPanels, rows: int) -> Ahead | None:
    """For panels that are used one at a time, by at least two full tiles in every chunk of the `rows`."""
    contraction, schedule = right.contraction, right.schedule
    last_chunk = (rows - 1) % schedule.chunk_rows + 1
    tiles = min(last_chunk, schedule.chunk_rows) // schedule.rows
    if (
        schedule.packed_panels != 1
        or tiles < 2
        or contraction.columns is None
        or not contraction.size(contraction.depth)
    ):
        return None
    return Ahead(right, tiles, max(1, right.rows // -(-right.rows // tiles)))
