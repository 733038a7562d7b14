"""The kinds of schedules of attention and of its gradients on the CPU."""

from __future__ import annotations

from typing import ClassVar

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func
from blu.passes.kernels import schedules
from blu.passes.kernels.schedules import Schedule, table_of

COPIED, IN_PLACE = "copied", "in_place"
KEYS = 64
"""Keys per block. The same for all targets and schedules, so that sums round alike."""


@dataclass(frozen=True)
class LanesSchedule(Schedule):
    """Base of those whose queries lie along the lanes: `vectors` x `lanes` of them at a time.

    `key_rows` x `vectors` scores, and `value_rows` x `vectors` results, are kept in registers.
    """

    lanes: int
    vectors: int
    key_rows: int
    value_rows: int

    @property
    def groups(self) -> int:
        """Times `vectors` x `lanes` queries in a block of the grid."""
        return 1

    @property
    def copies(self) -> bool:
        """Whether each block of keys and values is copied (and widened) once for all groups."""
        return False

    @property
    def keys(self) -> int:
        """Keys of a block of keys."""
        return KEYS

    @property
    def group_queries(self) -> int:
        return self.lanes * self.vectors

    @property
    def queries(self) -> int:
        """Queries of a block of the grid."""
        return self.group_queries * self.groups


@dataclass(frozen=True)
class PrefillSchedule(LanesSchedule):
    """Many queries: `query_groups` groups of them are a block of the grid. `matrices` of keys and values are read
    "in_place", or "copied" once for all groups."""

    kind: ClassVar[str] = "prefill"
    query_groups: int = 1
    matrices: str = IN_PLACE

    @property
    def groups(self) -> int:
        return self.query_groups

    @property
    def copies(self) -> bool:
        return self.matrices == COPIED


@dataclass(frozen=True)
class DecodeSchedule(Schedule):
    """Few queries, one by one: keys and values stream through once."""

    kind: ClassVar[str] = "decode"


@dataclass(frozen=True)
class GradientLanesSchedule(LanesSchedule):
    """All queries of a head of keys, a group of them at a time."""

    kind: ClassVar[str] = "gradient"


KINDS = table_of(PrefillSchedule, DecodeSchedule)
GRADIENT_KINDS = table_of(GradientLanesSchedule)


def schedule_of(kernel: func.FuncOp) -> Schedule:
    """The schedule of a kernel of attention. PassError where it has none."""
    return schedules.schedule_of(kernel, KINDS)


def gradient_schedule_of(kernel: func.FuncOp) -> GradientLanesSchedule:
    """The schedule of a kernel of the gradients of attention. PassError where it has none."""
    schedule = schedules.schedule_of(kernel, GRADIENT_KINDS)
    assert isinstance(schedule, GradientLanesSchedule), "the only kind there is"
    return schedule
