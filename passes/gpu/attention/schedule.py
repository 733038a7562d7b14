"""The kinds of schedules of attention and of its gradients on GPUs. Sizes and dtypes alone decide."""

from __future__ import annotations

from typing import ClassVar

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func
from blu.passes.gpu.attention.scores import STRIP
from blu.passes.kernels import schedules
from blu.passes.kernels.schedules import Schedule, table_of

STAY, ONCE = "stay", "once"
REGISTERS, SHARED = "registers", "shared"
TOGETHER, APART = "together", "apart"
WARPS = 4
LAUNCHES = {TOGETHER: (("_key", True, True),), APART: (("_value", False, True), ("_key", True, False))}
"""Launches for the gradients of keys and of values: their suffix, and whether they compute the one and the other."""


@dataclass(frozen=True)
class QueryTilesSchedule(Schedule):
    """A block of four warps of `strips` times 16 queries walks over tiles of `keys` keys.

    Queries are in `registers`, or read from `shared` memory at every tile.
    """

    kind: ClassVar[str] = "tiles"
    strips: int
    keys: int
    queries: str = SHARED

    @property
    def rows(self) -> int:
        """Rows of queries of a block."""
        return WARPS * STRIP * self.strips


@dataclass(frozen=True)
class WarpgroupSchedule(Schedule):
    """A warpgroup has 64 queries, and walks over tiles of `keys` keys in `stages` stages of shared memory (warpgroups).

    A processor has at least `per_processor` such blocks at a time.
    """

    kind: ClassVar[str] = "wgmma"
    keys: int
    stages: int
    per_processor: int


@dataclass(frozen=True)
class SharedKeysSchedule(Schedule):
    """`groups` warpgroups of a block have 64 queries each, and share tiles of `keys` keys in `stages` stages.

    Blocks `stay`, one on each processor, or come `once` for each of such rows of queries (warpgroups/shared_keys.py).
    """

    kind: ClassVar[str] = "wgmma_shared"
    groups: int
    keys: int
    stages: int
    blocks: str = STAY


@dataclass(frozen=True)
class PartsSchedule(Schedule):
    """The same of f32 that are sums of so many bf16, with one stage of keys and one of values (warpgroups/parts.py)."""

    kind: ClassVar[str] = "wgmma_parts"
    parts: int
    groups: int
    keys: int
    blocks: str = STAY


@dataclass(frozen=True)
class FewQueriesSchedule(Schedule):
    """A block of `warps` warps for each query, or a cluster of `blocks`, which share out the keys (decode.py)."""

    kind: ClassVar[str] = "few_queries"
    warps: int
    blocks: int = 1


@dataclass(frozen=True)
class GradientTilesSchedule(Schedule):
    """One launch walks over tiles of `keys` keys: blocks have `query_warps` warps of `query_strips` times 16 queries.

    The next walks over tiles of `queries` queries, for `key_warps` times `key_strips` times 16 keys; those of keys and
    values are found `together`, or `apart`, in a launch each. Left factors are in `registers` or in `shared` memory.
    """

    kind: ClassVar[str] = "gradient"
    query_warps: int
    query_strips: int
    keys: int
    query_left: str
    key_warps: int
    key_strips: int
    queries: int
    key_left: str
    launches: str = TOGETHER


@dataclass(frozen=True)
class WarpgroupGradientSchedule(Schedule):
    """Each launch has a warpgroup of 64 queries, or keys, that walks over tiles of `keys` keys, or `queries` queries.

    These are in so many stages of shared memory; a processor has at least so many blocks of a launch at a time. In a
    block there is such a group, or two that share tiles, which another one copies. The gradients of keys and values are
    found `together`, or `apart`, in a launch each, whose sums are half as many.
    """

    kind: ClassVar[str] = "wgmma"
    keys: int
    key_stages: int
    query_blocks: int
    queries: int
    query_stages: int
    key_blocks: int
    query_groups: int = 1
    key_groups: int = 1
    launches: str = TOGETHER


@dataclass(frozen=True)
class PartsGradientSchedule(Schedule):
    """A block has 64 queries, or keys, that are sums of so many bf16, and walks over tiles of `rows` rows.

    Gradients of keys and of values are those of different blocks (warpgroups/part_gradient.py).
    """

    kind: ClassVar[str] = "wgmma_parts"
    parts: int
    rows: int


@dataclass(frozen=True)
class JointGradientSchedule(Schedule):
    """A block has 128 keys and walks over tiles of 64 queries, in so many stages, for all gradients (five_products)."""

    kind: ClassVar[str] = "wgmma_joint"
    stages: int = 2


KINDS = table_of(QueryTilesSchedule, WarpgroupSchedule, SharedKeysSchedule, PartsSchedule, FewQueriesSchedule)
GRADIENT_KINDS = table_of(
    GradientTilesSchedule, WarpgroupGradientSchedule, PartsGradientSchedule, JointGradientSchedule
)


def schedule_of(kernel: func.FuncOp) -> Schedule:
    """The schedule of a kernel of attention. PassError where it has none."""
    return schedules.schedule_of(kernel, KINDS)


def gradient_schedule_of(kernel: func.FuncOp) -> Schedule:
    """The schedule of a kernel of the gradients of attention. PassError where it has none."""
    return schedules.schedule_of(kernel, GRADIENT_KINDS)
