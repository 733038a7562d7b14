"""Panels of a GEMM's right operand: read in place, or copied (widened, transposed) to a buffer."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, vector
from blu.passes.cpu.gemm.schedule import PanelTilesSchedule
from blu.passes.cpu.gemm.tile import widen
from blu.passes.cpu.gemm.transpose import transpose
from blu.passes.cpu.kernel import for_range
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import Contraction, Point

Depth = tuple[ir.Value, ir.Value]
"""A block of k: begin and end."""

PREFETCH_TO_L2, PREFETCH_TO_L1 = 2, 3
ROWS_AHEAD = 4
"""Rows that a tile that packs brings into L1 before they are its turn: what an access to L2 takes."""
PACKED_AT_ONCE = 4
"""Rows of a panel that are loaded before the first of them is stored."""


@dataclass(frozen=True)
class RightPanels:
    """Access to panels of columns. A point's `columns` entry is the first column of a panel.

    `buffer` holds `schedule.packed_panels` panels, `rows` values of k each, one after another; None: read in place.
    """

    contraction: Contraction
    schedule: PanelTilesSchedule
    buffer: ir.Value | None
    rows: int

    def load(self, point: Point, slot: ir.Value, depth: Depth, k: ir.Value, j: int, count: int) -> ir.Value:
        """The j-th vector of the panel (packed in `slot`) at depth k."""
        if self.buffer is None:
            return self.load_first(point, k, j, count)
        type_ = vectors.vector_type(self.schedule.lanes, self.contraction.accumulator)
        return vector.load(type_, self.buffer, self.place(slot, arith.subi(k, depth[0]), j))

    def load_packing(self, point: Point, slot: ir.Value, depth: Depth, k: ir.Value, j: int, count: int) -> ir.Value:
        """The same on the first use of a panel: read in place, and packed for the uses to come."""
        contraction = self.contraction
        self.prefetch(point, vectors.offset(k, ROWS_AHEAD), j, PREFETCH_TO_L1)
        value = widen(self.load_in_place(point, k, j, count), contraction.accumulator)
        vector.store(value, self.buffer, self.place(slot, arith.subi(k, depth[0]), j))
        return value

    def prefetch(self, point: Point, k: ir.Value, j: int, level: int) -> None:
        """Bring the line where the j-th vector of the panel begins nearer; outside of the matrix that does no harm."""
        contraction = self.contraction
        column = vectors.offset(point[contraction.columns], j * self.schedule.lanes)
        indices = contraction.right.indices({**point, contraction.depth: k, contraction.columns: column})
        memref.prefetch(contraction.right.buffer, indices, False, level, True)

    def load_in_place(self, point: Point, k: ir.Value, j: int, count: int) -> ir.Value:
        contraction, lanes = self.contraction, self.schedule.lanes
        place = {**point, contraction.depth: k}
        if contraction.columns is not None:
            place[contraction.columns] = vectors.offset(point[contraction.columns], j * lanes)
        return vectors.splat(contraction.right.load(place, contraction.columns, lanes, count), lanes)

    def load_first(self, point: Point, k: ir.Value, j: int, count: int) -> ir.Value:
        """The same where this is the first touch of memory: fetches what will be loaded a few k later."""
        contraction = self.contraction
        if self.schedule.fetch_ahead and contraction.right.stride(contraction.columns) == 1:
            self.prefetch(point, vectors.offset(k, self.schedule.fetch_ahead), j, PREFETCH_TO_L2)
        return self.load_in_place(point, k, j, count)

    def place(self, slot: ir.Value, k: ir.Value, j: int) -> list[ir.Value]:
        """Where the j-th vector of a packed panel lies, for k counted from the begin of the block of k."""
        return [arith.addi(arith.muli(slot, vectors.index(self.rows)), k), vectors.index(j * self.schedule.lanes)]

    def pack(self, point: Point, slot: ir.Value, depth: Depth, counts: tuple[int, ...]) -> None:
        """Copy one panel for k in `depth`, in the type of the sums."""
        if self.buffer is None:
            return
        if self.contraction.columns is not None and self.contraction.right.stride(self.contraction.depth) == 1:
            self.pack_columns(point, slot, depth, counts)
            return
        begin, end = depth
        batches = arith.divui(arith.subi(end, begin), vectors.index(PACKED_AT_ONCE))
        middle = arith.addi(begin, arith.muli(batches, vectors.index(PACKED_AT_ONCE)))
        with for_range(begin, middle, PACKED_AT_ONCE) as loop:
            self.pack_rows(_Spot(point, slot, begin, loop.induction_variable), counts, PACKED_AT_ONCE)
        with for_range(middle, end) as loop:
            self.pack_rows(_Spot(point, slot, begin, loop.induction_variable), counts, 1)

    def pack_rows(self, spot: _Spot, counts: tuple[int, ...], rows: int) -> None:
        """A few k, all loads first: a load near a store to the same place in another page would wait for it."""
        values = []
        for i in range(rows):
            for j, count in enumerate(counts):
                value = self.load_in_place(spot.point, vectors.offset(spot.k, i), j, count)
                values.append(widen(value, self.contraction.accumulator))
        local = arith.subi(spot.k, spot.start)
        for place, value in enumerate(values):
            i, j = divmod(place, len(counts))
            vector.store(value, self.buffer, self.place(spot.slot, vectors.offset(local, i), j))

    def pack_columns(self, point: Point, slot: ir.Value, depth: Depth, counts: tuple[int, ...]) -> None:
        """A panel of an operand that is contiguous along k: squares of lanes x lanes, and the k that are left."""
        begin, end = depth
        lanes = self.schedule.lanes
        squares = arith.divui(arith.subi(end, begin), vectors.index(lanes))
        middle = arith.addi(begin, arith.muli(squares, vectors.index(lanes)))
        full = sum(count == lanes for count in counts)
        with for_range(begin, middle, lanes) as loop:
            spot = _Spot(point, slot, begin, loop.induction_variable)
            with for_range(0, full * lanes, lanes) as columns:
                self.pack_square(spot, columns.induction_variable, lanes)
            if full < len(counts):
                self.pack_square(spot, vectors.index(full * lanes), counts[full])
        with for_range(middle, end) as loop:
            self.pack_rows(_Spot(point, slot, begin, loop.induction_variable), counts, 1)

    def pack_square(self, spot: _Spot, column: ir.Value, count: int) -> None:
        """`lanes` values of k of `count` columns from `column` of the panel on: loaded along k and transposed."""
        contraction, lanes = self.contraction, self.schedule.lanes
        first, rows = arith.addi(spot.point[contraction.columns], column), []
        for lane in range(count):
            place = {**spot.point, contraction.columns: vectors.offset(first, lane), contraction.depth: spot.k}
            value = contraction.right.load(place, contraction.depth, lanes, lanes)
            rows.append(widen(value, contraction.accumulator))
        rows += [vectors.constant(rows[0].type, 0)] * (lanes - count)
        row, _ = self.place(spot.slot, arith.subi(spot.k, spot.start), 0)
        for lane, value in enumerate(transpose(rows)):
            vector.store(value, self.buffer, [vectors.offset(row, lane), column])


@dataclass(frozen=True)
class _Spot:
    """Where packing is: the panel's point and slot, the k that the buffer starts with, and the k to pack."""

    point: Point
    slot: ir.Value
    start: ir.Value
    k: ir.Value
