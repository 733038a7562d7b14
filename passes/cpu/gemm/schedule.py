"""The kinds of schedules of a matrix product on the CPU: what is read in place or packed, and how it is cut."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func
from blu.passes.kernels import schedules
from blu.passes.kernels.contraction import Contraction
from blu.passes.kernels.schedules import Schedule, table_of

LONG_DEPTH = 512
"""Beyond this many products, an element is no longer one chain of additions but the sum of chains of `CHAIN`.

The rounding error grows with the length of a chain: with these, GPT-2's gradients are as exact as PyTorch's.
"""
CHAIN = 256


@dataclass(frozen=True)
class PanelTilesSchedule(Schedule):
    """A tile of `rows` x (`vectors` x `lanes`) sums in registers; k in blocks of `depth_block` (gemm.py).

    A block of the grid has `chunk_rows` rows (a multiple of `rows`, or all) and `group_panels` panels of columns.
    Panels of the right operand are packed `packed_panels` at a time and used by all rows of the chunk (0: read in
    place, fetching `fetch_ahead` rows ahead). `claim` is how many blocks a thread takes at a time.
    """

    kind: ClassVar[str] = "tiles"
    rows: int
    vectors: int
    lanes: int
    depth_block: int
    chunk_rows: int
    group_panels: int = 1
    packed_panels: int = 0
    fetch_ahead: int = 0
    claim: int = 1

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


@dataclass(frozen=True)
class ReadRowsSchedule(Schedule):
    """Few rows: the matrix is read once along its rows, of which a block has `columns` columns (gemv_rows.py)."""

    kind: ClassVar[str] = "read_rows"
    columns: int


@dataclass(frozen=True)
class ReadColumnsSchedule(Schedule):
    """Few rows: the matrix is read once along k, by blocks of `columns` columns (gemv.py)."""

    kind: ClassVar[str] = "read_columns"
    columns: int


KINDS = table_of(PanelTilesSchedule, ReadRowsSchedule, ReadColumnsSchedule)


def schedule_of(kernel: func.FuncOp) -> Schedule:
    """The schedule of a kernel of a product. PassError where it has none."""
    return schedules.schedule_of(kernel, KINDS)


def is_long(contraction: Contraction) -> bool:
    """Whether the elements are sums of chains. Sizes alone decide, so that bits do not depend on schedules."""
    return (
        prod(contraction.size(dim) for dim in contraction.outer_depth) * contraction.size(contraction.depth)
        > LONG_DEPTH
    )
