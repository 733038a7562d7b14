"""What blocks that find all gradients of 128 keys have: their shared memory, and memory for sums of queries'."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import Problem
from blu.passes.gpu.attention.slopes import NUMBER_BYTES, ROW_NUMBERS
from blu.passes.gpu.attention.warpgroups.own_rows import readers_of
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS, TILE_ALIGNMENT, StageRange
from blu.passes.gpu.isa import mbarrier
from blu.passes.gpu.shared import SharedMemory

GROUPS = 2
BLOCK_ROWS = GROUPS * ROWS
"""Keys of a block; tiles have 64 queries."""
SIZE, SUM_BYTES = 2, 4
COLUMNS = 128
OWN, BOTH = 1, 3
"""Named barriers: of the first group, the other one's follows; and of both."""


def blocks_of(keys: int) -> int:
    """Blocks that share a head with so many keys."""
    return ceil(keys / BLOCK_ROWS)


def tiles_of(queries: int) -> int:
    """Tiles of a head."""
    return ceil(queries / ROWS)


SUMS, COUNTS, TICKETS = range(ROW_NUMBERS, ROW_NUMBERS + 3)
"""The places of these in the scratch memory that is reserved."""


def takes_shifts(problem: Problem) -> bool:
    """Whether scores are shifted by rounded numbers (ShiftedRows): beside a mask, rests have no registers."""
    return not problem.causal


def reserve(query: Sequence[int]) -> list[ir.MemRefType]:
    """The numbers of each query, sums of their gradients as threads hold them, who has added to these, and tickets."""
    heads, tiles, f32, i32 = prod(query[:-2]), tiles_of(query[-2]), ir.F32Type.get(), numbers.i32()
    own = [ir.MemRefType.get([heads, tiles * ROWS], f32)] * ROW_NUMBERS
    sums = ir.MemRefType.get([heads, tiles, ROWS * query[-1]], f32)
    return [*own, sums, ir.MemRefType.get([heads, tiles], i32), ir.MemRefType.get([1], i32)]


@dataclass(frozen=True)
class ResultRange:
    """Offsets in shared memory of what groups leave to the thread that adds it up, and of its two barriers."""

    place: int
    barriers: int

    def at(self, shared: ir.Value) -> Results:
        """The same in shared memory from an address on."""
        place, barriers = (numbers.number(numbers.add(shared, each)) for each in (self.place, self.barriers))
        return Results(place, barriers)


@dataclass(frozen=True)
class Results:
    """The same at addresses. A barrier waits for all warps' results, and the next one until these have been read."""

    address: ir.Value
    is_there: ir.Value

    @property
    def is_read(self) -> ir.Value:
        """The barrier that waits for the reader."""
        return numbers.number(numbers.add(self.is_there, mbarrier.BYTES))

    def begin(self) -> None:
        """Make the barriers, by one thread."""
        mbarrier.init(self.is_there, readers_of(GROUPS))
        mbarrier.init(self.is_read, 1)

    def wait(self, number: ir.Value) -> None:
        """Wait for the results of a tile."""
        mbarrier.wait(self.is_there, numbers.remainder(number, 2))

    def wait_empty(self, number: ir.Value) -> None:
        """Wait until those of the tile before it have been read."""
        mbarrier.wait(self.is_read, numbers.remainder(numbers.number(numbers.add(number, 1)), 2))

    def say_there(self) -> None:
        """Say, by one thread of a warp, that its results are there."""
        mbarrier.arrive(self.is_there)

    def give_back(self) -> None:
        """Say, by the reader, that it has read them."""
        mbarrier.arrive(self.is_read)


@dataclass(frozen=True)
class JointLayout:
    """The shared memory of a block: keys and values of each group, stages of queries and g, and what comes of these.

    Slopes are in two places in turns: what one group reads of those of a tile, the other one may not write.
    """

    memory: SharedMemory
    own: StageRange
    queries: StageRange
    slopes: int
    results: ResultRange
    row_numbers: int
    ticket: int

    @classmethod
    def of(cls, stages: int, depth: int, width: int) -> JointLayout:
        """That for queries of `depth` columns and values of `width`."""
        memory, extents = SharedMemory(), ((ROWS, depth), (ROWS, width))
        own = StageRange.take(memory, GROUPS, *extents)
        queries = StageRange.take(memory, stages, *extents)
        of_slopes = memory.take(2 * BLOCK_ROWS * ROWS * SIZE, alignment=TILE_ALIGNMENT)
        results = memory.take(ROWS * depth * SUM_BYTES, alignment=TILE_ALIGNMENT)
        row_numbers = memory.take(stages * ROW_NUMBERS * ROWS * NUMBER_BYTES)
        own, queries = own.with_barriers(memory), queries.with_barriers(memory, GROUPS * THREADS)
        handed_on = ResultRange(results, memory.take(2 * mbarrier.BYTES))
        return cls(memory, own, queries, of_slopes, handed_on, row_numbers, memory.take(NUMBER_BYTES))
