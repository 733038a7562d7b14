"""How warps of a cluster's blocks, which have the same rows, tell each other their sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.boxes.plan import BOX_BYTES, PLACES, WARPS
from blu.passes.gpu.gemm.boxes.row_totals import over_lanes, own_of
from blu.passes.gpu.gemm.boxes.writer import Boxes, BoxWriter
from blu.passes.gpu.isa import barrier, cluster, mbarrier, shared_memory, shfl, tma
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import when

SUMS = 2
"""Exchanges of a tile: as many as there are places for what comes."""
CLUSTERS = (2, 4)
FREE = PLACES - 1
"""Places of a warp that boxes have; in the last one is what other blocks send."""
ROWS = 4
"""Those of a thread."""
_SLOT = WARP * 4
"""Bytes that a warp sends of a sum: one f32 for each of its rows."""
_BARRIERS = SUMS * max(CLUSTERS) * _SLOT
"""Where the barriers of exchanges are, from the first slot on; those of boxes come after them."""


@dataclass(frozen=True)
class ClusterBoxes(Boxes):
    """Those of a block that has rows together with others of its cluster, in which it has number `rank`."""

    rank: ir.Value

    @property
    def filled(self) -> int:
        """Places of a warp that have a barrier for what is read."""
        return self.plan.ahead

    @property
    def keeps_more(self) -> bool:
        return True

    def begin(self) -> None:
        for warp in range(WARPS):
            first = _barriers_of(numbers.add(self.places, warp * PLACES * BOX_BYTES))
            for number in range(SUMS + self.filled):
                mbarrier.init(numbers.add(first, number * mbarrier.BYTES), 1)
        mbarrier.fence_init()
        for map_ in self.maps:
            tma.prefetch_tensormap(map_)

    def wait_for_all(self) -> None:
        """Until all blocks of the cluster have their barriers."""
        barrier.cluster_sync()

    def writer(self, group: ir.Value, thread: ir.Value) -> BoxWriter:
        own = Boxes.writer(self, group, thread)
        return replace(own, barriers=numbers.add(_barriers_of(own.places), SUMS * mbarrier.BYTES))


def _barriers_of(places: ir.Value) -> ir.Value:
    """The first of the barriers of a warp's exchanges, from its places; those of its boxes follow them."""
    return numbers.add(places, FREE * BOX_BYTES + _BARRIERS)


@dataclass(frozen=True)
class RowExchange:
    """What a thread of number `lane` of a warp does, whose boxes are at `places`, in block `rank` of `blocks`."""

    places: ir.Value
    lane: ir.Value
    rank: ir.Value
    blocks: int

    def totals(self, values: Sequence[ir.Value], number: int, turn: ir.Value) -> list[ir.Value]:
        """The sums of whole rows, from those of a thread's columns: exchange `number` of the group's tile `turn`."""
        total = self.total(self.part(values), number, turn)
        return [self.of_row(total, row) for row in range(ROWS)]

    def part(self, values: Sequence[ir.Value]) -> ir.Value:
        """The block's sum of one of the thread's rows: four neighbours have the four of all of them."""
        return own_of(over_lanes(values), self.lane)

    def total(self, part: ir.Value, number: int, turn: ir.Value) -> ir.Value:
        """The whole row's sum, from the block's own part of it."""
        area, word = numbers.add(self.places, FREE * BOX_BYTES), arith.bitcast(numbers.i32(), part)
        slots, full = number * self.blocks * _SLOT, _BARRIERS + number * mbarrier.BYTES
        own = numbers.add(area, numbers.multiply(self.lane, 4))
        place = numbers.add(own, numbers.multiply(self.rank, _SLOT))
        with when(numbers.is_equal(self.lane, 0)):
            mbarrier.arrive_expect_tx(numbers.add(area, full), self.blocks * _SLOT)
        for rank in range(self.blocks):
            there, counted = (cluster.mapa(item, numbers.number(rank)) for item in (place, numbers.add(area, full)))
            cluster.st_async(there, slots, word, counted)
        mbarrier.wait(numbers.add(area, full), arith.andi(turn, numbers.number(1)))
        barrier.warp_sync()
        parts = [shared_memory.ld(own, slots + rank * _SLOT, 1, numbers.f32())[0] for rank in range(self.blocks)]
        total = parts[0]
        for part in parts[1:]:
            total = arith.addf(total, part)
        return total

    def of_row(self, own: ir.Value, row: int) -> ir.Value:
        """The number of one of the thread's rows, where each lane has its own."""
        return shfl.idx(own, row, ROWS)
