"""The kinds of schedules of row kernels on the CPU: what a block of the grid has."""

from __future__ import annotations

from typing import ClassVar

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func
from blu.passes.kernels import schedules
from blu.passes.kernels.schedules import Schedule, table_of

REPEATED = "blu.repeated"
"""Of a kernel that a step of a loop launches, while its schedule is chosen: threads are awake when it comes."""


@dataclass(frozen=True)
class RowBlocksSchedule(Schedule):
    """A block has `rows` rows. Sums down columns are of chains of `chain` terms (0: one chain)."""

    kind: ClassVar[str] = "rows"
    rows: int
    chain: int = 0


@dataclass(frozen=True)
class ColumnPiecesSchedule(Schedule):
    """A block has `columns` columns of a row, or of all rows that are added up, in chains of `chain` terms (0: one)."""

    kind: ClassVar[str] = "pieces"
    columns: int
    chain: int = 0


@dataclass(frozen=True)
class ScalarLoopsSchedule(Schedule):
    """Scalar loops over elements, in `blocks` blocks: what is no group of rows."""

    kind: ClassVar[str] = "loops"
    blocks: int


KINDS = table_of(RowBlocksSchedule, ColumnPiecesSchedule, ScalarLoopsSchedule)


def schedule_of(kernel: func.FuncOp) -> Schedule:
    """The schedule of a row kernel. PassError where it has none."""
    return schedules.schedule_of(kernel, KINDS)
