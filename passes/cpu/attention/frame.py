"""What the parts of attention for many queries share: how it is cut, its scratch buffers, and where a block is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.cpu.attention.operands import HeadMatrix, Index, Problem, scaled
from blu.passes.cpu.attention.schedule import LanesSchedule
from blu.passes.cpu.attention.weights import unit_of
from blu.passes.cpu.gemm.tile import scratch
from blu.passes.cpu.kernel import for_range
from blu.passes.kernels import lanes as vectors


@dataclass(frozen=True)
class Buffers:
    """Scratch of one block. Rows of `query` and `result` are depth and width, group after group; of `scores` and `mask`
    keys of a block (after some room, see their use); of `largest` and `total` groups."""

    query: ir.Value
    result: ir.Value
    scores: ir.Value
    largest: ir.Value
    total: ir.Value
    mask: ir.Value | None
    key: ir.Value | None
    value: ir.Value | None


@dataclass(frozen=True)
class QueryBlock:
    """Where a block is: its head's matrices and its first query."""

    query: HeadMatrix
    key: HeadMatrix
    value: HeadMatrix
    output: HeadMatrix
    mask: HeadMatrix | None
    first: ir.Value


@dataclass(frozen=True)
class Keys:
    """A block of keys: its first key, and how many there are (for the block's last query)."""

    first: ir.Value
    count: ir.Value


class Frame:
    """One kernel while it is emitted. Its scratch is allocated at the current insertion point."""

    def __init__(self, problem: Problem, schedule: LanesSchedule):
        self.problem, self.schedule = problem, schedule
        self.type = vectors.vector_type(schedule.lanes, problem.accumulator)
        self.unit = unit_of(problem)
        self.buffers = self._allocate()

    def _allocate(self) -> Buffers:
        problem, schedule = self.problem, self.schedule
        element, columns, lanes = problem.accumulator, schedule.group_queries, schedule.lanes

        def buffer(rows: int, width: int = columns) -> ir.Value:
            return scratch([max(rows, 1), max(width, 1)], element)

        mask = problem.mask and problem.mask.matrix([vectors.index(0)] * len(problem.heads))
        full_mask = mask is not None and mask.row_stride and mask.column_stride
        padded = [-(-size // lanes) * lanes for size in (problem.depth, problem.width)]
        return Buffers(
            query=buffer(schedule.groups * problem.depth),
            result=buffer(schedule.groups * problem.width),
            scores=buffer(schedule.keys + 2 * schedule.key_rows),
            largest=buffer(schedule.groups),
            total=buffer(schedule.groups),
            mask=buffer(schedule.keys + 2 * lanes) if full_mask else None,
            key=buffer(schedule.keys + schedule.key_rows, padded[0]) if schedule.copies else None,
            value=buffer(schedule.keys, padded[1]) if schedule.copies else None,
        )

    def constant(self, number: float) -> ir.Value:
        return vectors.constant(self.type, number)

    def query(self, block: QueryBlock, distance: ir.Value) -> ir.Value:
        """The query at a distance from the block's first, or the last one there is."""
        return arith.minsi(arith.addi(block.first, distance), vectors.index(self.problem.queries - 1))

    def group_query(self, block: QueryBlock, group: ir.Value, distance: int) -> ir.Value:
        return self.query(block, vectors.offset(scaled(group, self.schedule.group_queries), distance))

    def lane_queries(self, block: QueryBlock, group: ir.Value, register: Index) -> list[tuple[ir.Value, int]]:
        """The query in each lane of one vector of a group, as an index and a distance from it."""
        lanes = self.schedule.lanes
        place = scaled(group, self.schedule.group_queries)
        if isinstance(register, int):
            place = vectors.offset(place, register * lanes)
        else:
            place = arith.addi(place, scaled(register, lanes))
        if self.problem.queries % self.schedule.group_queries == 0:
            first = arith.addi(block.first, place)
            return [(first, lane) for lane in range(lanes)]
        return [(self.query(block, vectors.offset(place, lane)), 0) for lane in range(lanes)]

    def store(self, value: ir.Value, buffer: ir.Value, row: ir.Value, j: Index) -> None:
        vector.store(value, buffer, [row, self._column(j)])

    def load(self, buffer: ir.Value, row: ir.Value, j: Index) -> ir.Value:
        return vector.load(self.type, buffer, [row, self._column(j)])

    def _column(self, j: Index) -> ir.Value:
        """The first column of the j-th vector."""
        lanes = self.schedule.lanes
        return vectors.index(j * lanes) if isinstance(j, int) else scaled(j, lanes)


@contextmanager
def each_block(limit: ir.Value, size: int) -> Iterator[Keys]:
    """The loop over blocks of the keys before `limit`."""
    with for_range(0, limit, size) as loop:
        first = loop.induction_variable
        yield Keys(first, arith.minsi(arith.subi(limit, first), vectors.index(size)))
