"""The kinds of schedules of scans, sorts and additions at indices on GPUs. Sizes and dtypes alone decide."""

from __future__ import annotations

from typing import ClassVar

from blu.dataclass import dataclass
from blu.passes.kernels.schedules import Schedule, table_of


@dataclass(frozen=True)
class ScanRowsSchedule(Schedule):
    """Rows in pieces of `length` elements, each of which a `team` of threads scans: a warp, or a block."""

    kind: ClassVar[str] = "scan_rows"
    length: int
    team: int


@dataclass(frozen=True)
class ScanColumnsSchedule(Schedule):
    """Columns in pieces of `length` elements, a thread for each."""

    kind: ClassVar[str] = "scan_columns"
    length: int


MERGING, BYTES = "merging", "bytes"


@dataclass(frozen=True)
class MergeSchedule(Schedule):
    """Blocks of `tile_threads` threads sort tiles of `tile` keys; further launches, blocks of `threads`, merge runs.

    `by` says how they sort tiles: "merging" runs, where short rows share a tile, or "bytes", where none do. At a time,
    `runs` runs become one; `short_runs` where each has at most `short` keys.
    """

    kind: ClassVar[str] = "merge"
    by: str = MERGING
    tile: int = 2048
    tile_threads: int = 512
    threads: int = 256
    runs: int = 8
    short_runs: int = 32
    short: int = 256


@dataclass(frozen=True)
class RadixSchedule(Schedule):
    """Rows are sorted by one byte of their keys after the other."""

    kind: ClassVar[str] = "radix"


@dataclass(frozen=True)
class SelectSchedule(Schedule):
    """Of pieces of `tile` keys of a row, those are found that are among the first; a warp has at most `short` keys."""

    kind: ClassVar[str] = "select"
    tile: int = 8192
    short: int = 1024


@dataclass(frozen=True)
class SortedSchedule(Schedule):
    """Positions are sorted by their indices, each compared with all; blocks add up `piece` sorted places each."""

    kind: ClassVar[str] = "sorted"
    piece: int


@dataclass(frozen=True)
class RadixScatterSchedule(Schedule):
    """The same, where positions are sorted by one byte of their indices after the other."""

    kind: ClassVar[str] = "radix"
    piece: int


@dataclass(frozen=True)
class InOrderSchedule(Schedule):
    """Each thread takes a column through all updates, and memory has the sums."""

    kind: ClassVar[str] = "in_order"


SCAN_KINDS = table_of(ScanRowsSchedule, ScanColumnsSchedule)
MERGE_KINDS = table_of(MergeSchedule, RadixSchedule, SelectSchedule)
SCATTER_KINDS = table_of(SortedSchedule, RadixScatterSchedule, InOrderSchedule)
