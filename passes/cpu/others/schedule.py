"""The kinds of schedules of scans and sorts on the CPU. Sizes alone decide: results do not depend on threads."""

from __future__ import annotations

from typing import ClassVar

from blu.dataclass import dataclass
from blu.passes.kernels.schedules import Schedule, table_of


@dataclass(frozen=True)
class RowScansSchedule(Schedule):
    """Blocks of `rows` rows, each scanned as a whole."""

    kind: ClassVar[str] = "scan_rows"
    rows: int


@dataclass(frozen=True)
class PieceScansSchedule(Schedule):
    """Rows in pieces of `length` elements: a launch finds what each comes to, another one scans them."""

    kind: ClassVar[str] = "scan_pieces"
    length: int


@dataclass(frozen=True)
class ColumnScansSchedule(Schedule):
    """Columns side by side, `vectors` vectors of them at a time."""

    kind: ClassVar[str] = "scan_columns"
    vectors: int = 4


@dataclass(frozen=True)
class InsertionSchedule(Schedule):
    """Keys are put into their places one by one, by `blocks` blocks."""

    kind: ClassVar[str] = "insertion"
    blocks: int


@dataclass(frozen=True)
class RadixSchedule(Schedule):
    """Keys are sorted by one byte after the other, by `blocks` blocks, each with scratch memory of its own."""

    kind: ClassVar[str] = "radix"
    blocks: int


SCAN_KINDS = table_of(RowScansSchedule, PieceScansSchedule, ColumnScansSchedule)
SORT_KINDS = table_of(InsertionSchedule, RadixSchedule)
