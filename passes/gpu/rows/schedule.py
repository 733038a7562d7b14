"""The kinds of schedules of row kernels on GPUs: how blocks and threads share rows, columns or elements.

Sizes say how many blocks share a reduction, which needs memory for what each has found; what vectors there are, and
whether a row stays in registers, depends on strides. So there is a kind for what is known first, "nest", in whose place
one of the others is put once there are strides (choice.py).
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import ClassVar

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func
from blu.passes.gpu.others.loops import LoopsSchedule
from blu.passes.kernels import schedules
from blu.passes.kernels.schedules import Fields, Schedule, table_of

DIRECTLY, AHEAD = "directly", "ahead"
VALUES, INPUTS = "values", "inputs"


@dataclass(frozen=True)
class RowCut:
    """What emitters read of a schedule, whatever its kind: who has a row, and how it walks over it.

    `threads` of a block; `team` of them have a row together, or each element for itself (1, without columns). Vectors
    have `lanes` elements. `chunks` vectors of a row are in one thread's registers; None: a loop walks over the row,
    `unroll` vectors a step. `hides`: what is made from inputs is made again in each walk over the registers, rather
    than kept. `cluster` blocks have a row together: `team` are the threads of all of them. `per_processor` blocks
    should have registers on a processor.
    """

    threads: int
    team: int
    lanes: int
    unroll: int
    chunks: int | None
    hides: bool = False
    cluster: int = 1
    per_processor: int = 1

    @property
    def rows_per_block(self) -> int:
        return self.threads // self.team


@dataclass(frozen=True)
class NestSchedule(Schedule):
    """What sizes decide: in how many parts the reductions are split, each a block's."""

    kind: ClassVar[str] = "nest"
    split: int = 1


@dataclass(frozen=True)
class RowSchedule(Schedule):
    """Base of those whose blocks have `threads` threads, which read vectors of `lanes` elements."""

    threads: int
    lanes: int

    def cut(self, width: int) -> RowCut:
        """What it comes to, for rows of `width` elements."""
        return RowCut(self.threads, 1, self.lanes, 1, 1)


@dataclass(frozen=True)
class RowsSchedule(RowSchedule):
    """A row for each `team` of threads: a part of a warp, or the whole block. It stays in their registers.

    What is kept from walk to walk are `values`, all that has been made from the row, or `inputs`, of which they are
    made again in each walk.
    """

    kind: ClassVar[str] = "rows"
    team: int
    keeps: str = VALUES

    def cut(self, width: int) -> RowCut:
        chunks = ceil(width / (self.lanes * self.team))
        return RowCut(self.threads, self.team, self.lanes, 1, chunks, self.keeps == INPUTS)


@dataclass(frozen=True)
class RowsAheadSchedule(RowSchedule):
    """A row for each block, or `cluster` of blocks, which copies its next row while it works on one (ahead.py).

    There are as many blocks as run at the same time, `per_processor` on each.
    """

    kind: ClassVar[str] = "rows_ahead"
    cluster: int = 1
    per_processor: int = 1

    def cut(self, width: int) -> RowCut:
        team = self.threads * self.cluster
        chunks = ceil(width / (self.lanes * team))
        return RowCut(self.threads, team, self.lanes, 1, chunks, True, self.cluster, self.per_processor)


@dataclass(frozen=True)
class SweepSchedule(RowSchedule):
    """A row for each block, which reads it again in each walk, `unroll` vectors of a thread at a time.

    At most `per_processor` blocks are on a processor.
    """

    kind: ClassVar[str] = "sweep"
    unroll: int = 1
    per_processor: int = 2

    def cut(self, width: int) -> RowCut:
        return RowCut(self.threads, self.threads, self.lanes, self.unroll, None)


@dataclass(frozen=True)
class SlicesSchedule(RowSchedule):
    """`split` blocks share a row, and each walk over it is a launch of its own (slices.py)."""

    kind: ClassVar[str] = "slices"
    unroll: int = 1
    split: int = 2

    def cut(self, width: int) -> RowCut:
        return RowCut(self.threads, self.threads, self.lanes, self.unroll, None)


@dataclass(frozen=True)
class ColumnSchedule(RowSchedule):
    """Base of those of threads that walk down columns: `width` threads of a block are beside each other."""

    width: int = 32
    unroll: int = 1

    def cut(self, width: int) -> RowCut:
        return RowCut(self.threads, 1, self.lanes, self.unroll, None)


@dataclass(frozen=True)
class ColumnsSchedule(ColumnSchedule):
    """`split` blocks share a column, and another launch adds up what they have found (columns.py). Or it is a `cluster`
    of blocks, which adds that up itself: `per_processor` blocks have registers on a processor."""

    kind: ClassVar[str] = "columns"
    split: int = 1
    cluster: int = 1
    per_processor: int = 1

    def cut(self, width: int) -> RowCut:
        return replace(super().cut(width), cluster=self.cluster, per_processor=self.per_processor)


@dataclass(frozen=True)
class ColumnRangesSchedule(ColumnSchedule):
    """A block has a range of rows, of which it leaves one sum for each column."""

    kind: ClassVar[str] = "column_ranges"


@dataclass(frozen=True)
class RowRangesSchedule(RowSchedule):
    """The same for a block that walks over the rows of its range (sums.py), each of a `team` of its threads.

    A thread `reads` its part of a row directly, or ahead, to shared memory.
    """

    kind: ClassVar[str] = "row_ranges"
    team: int
    reads: str = DIRECTLY

    def cut(self, width: int) -> RowCut:
        return RowCut(self.threads, self.team, self.lanes, 1, ceil(width / (self.lanes * self.team)))


@dataclass(frozen=True)
class PointsSchedule(RowSchedule):
    """Elements one by one, `unroll` vectors for each thread."""

    kind: ClassVar[str] = "points"
    unroll: int = 1

    def cut(self, width: int) -> RowCut:
        return RowCut(self.threads, 1, self.lanes, self.unroll, 1)


@dataclass(frozen=True)
class SquaresSchedule(Schedule):
    """Elements one by one, in tiles of `side` x `side` that are transposed in shared memory (transposes.py)."""

    kind: ClassVar[str] = "squares"
    side: int


KINDS = table_of(
    *(NestSchedule, RowsSchedule, RowsAheadSchedule, SweepSchedule, SlicesSchedule, ColumnsSchedule),
    *(ColumnRangesSchedule, RowRangesSchedule, PointsSchedule, SquaresSchedule, LoopsSchedule),
)


def schedule_of(kernel: func.FuncOp) -> Schedule:
    """The schedule of a row kernel. PassError where it has none."""
    return schedules.schedule_of(kernel, KINDS)


def parts_of(fields: Fields) -> int:
    """In how many parts reductions are split whose results are in memory between two launches."""
    split = fields.get("split", 1)
    return split if isinstance(split, int) else 1
