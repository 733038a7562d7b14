"""What the tiles of a GEMM do for the next panel while they run, so that nobody waits for memory.

The work is spread evenly over the tiles of a panel: tile number t is responsible for the t-th share of the next panel's
rows and takes one of them every few steps of k. Hardware would not guess this pattern: a panel row is a few lines only,
and the next one lies a whole row of the matrix further.
"""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.mlir import arith, ir, memref, scf, vector
from blu.passes.cpu import lanes as vectors
from blu.passes.cpu.contraction import Point
from blu.passes.cpu.gemm_pack import PREFETCH_TO_L2, Depth, RightPanels
from blu.passes.cpu.gemm_tile import widen

ROWS_FETCHED_AHEAD = 4


@dataclass(frozen=True)
class Turn:
    """Which tile runs, over which block of k, for which panel (a point), and in which slot the next panel goes.

    `exists` (i1) tells whether there is a next panel in the group, `narrow` (i1 or None) whether it is the last one of
    the matrix and has `counts` lanes in its vectors instead of full ones.
    """

    point: Point
    tile: ir.Value
    depth: Depth
    slot: ir.Value
    exists: ir.Value
    narrow: ir.Value | None
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Ahead:
    """The next panel in `tiles` shares, a row every `steps` steps of k."""

    right: RightPanels
    tiles: int
    steps: int

    @property
    def packs(self) -> bool:
        """Whether the next panel is packed on the way, or only fetched into L2, to be packed when its time comes."""
        return self.right.contraction.right.stride(self.right.contraction.columns) == 1

    def emit(self, turn: Turn, k: ir.Value) -> None:
        """What happens before step k (a multiple of `steps`)."""
        begin, end = turn.depth
        length = arith.subi(end, begin)
        share = arith.ceildivui(length, vectors.index(self.tiles))
        position = arith.divui(arith.subi(k, begin), vectors.index(self.steps))
        local = arith.addi(arith.muli(turn.tile, share), position)
        local = arith.minsi(local, arith.subi(length, vectors.index(1)))
        branch = scf.IfOp(turn.exists)
        with ir.InsertionPoint(branch.then_block):
            if self.packs:
                self.pack_row(turn, local)
            else:
                self.fetch_columns(turn, arith.addi(begin, local))
            scf.yield_([])

    def following(self, turn: Turn) -> ir.Value:
        """The first column of the next panel."""
        return vectors.offset(turn.point[self.right.contraction.columns], self.right.schedule.columns)

    def pack_row(self, turn: Turn, local: ir.Value) -> None:
        """Copy one row of the next panel, and fetch one that comes a little later."""
        schedule = self.right.schedule
        full = (schedule.lanes,) * schedule.vectors
        if turn.narrow is None:
            self.copy(turn, local, full)
            return
        branch = scf.IfOp(turn.narrow, has_else=True)
        for region, counts in ((branch.then_block, turn.counts), (branch.else_block, full)):
            with ir.InsertionPoint(region):
                self.copy(turn, local, counts)
                scf.yield_([])

    def copy(self, turn: Turn, local: ir.Value, counts: tuple[int, ...]) -> None:
        contraction, right = self.right.contraction, self.right
        row = arith.addi(turn.depth[0], local)
        place = {**turn.point, contraction.columns: self.following(turn), contraction.depth: row}
        values = []
        for j, count in enumerate(counts):
            values.append(widen(right.load_in_place(place, row, j, count), contraction.accumulator))
            self.fetch(place, vectors.offset(row, ROWS_FETCHED_AHEAD), j)
        for j, value in enumerate(values):
            vector.store(value, right.buffer, right.place(turn.slot, local, j))

    def fetch(self, point: Point, row: ir.Value, j: int) -> None:
        """Bring one line into L2; an address outside of the matrix does no harm."""
        contraction, schedule = self.right.contraction, self.right.schedule
        column = vectors.offset(point[contraction.columns], j * schedule.lanes)
        indices = contraction.right.indices({**point, contraction.depth: row, contraction.columns: column})
        memref.prefetch(contraction.right.buffer, indices, False, PREFETCH_TO_L2, True)

    def fetch_columns(self, turn: Turn, row: ir.Value) -> None:
        """The same for an operand contiguous along k: a line holds as many k of one column as there are lanes."""
        lanes = vectors.index(self.right.schedule.lanes)
        lane = arith.remui(row, lanes)
        place = {**turn.point, self.right.contraction.columns: arith.addi(self.following(turn), lane)}
        for j in range(self.right.schedule.vectors):
            self.fetch(place, arith.subi(row, lane), j)


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
