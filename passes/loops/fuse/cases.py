"""What the rules of fusion are asked about: an op and a group that it may join, or two groups that may become one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.loops.fuse.flow import Flow, Group
from blu.passes.loops.fuse.loops import LoopNest

MAX_OPS, MAX_SCALAR_OPS = 48, 96
"""Ops of a kernel. A kernel of scalars does so little that its launch is all that it costs."""


@dataclass(frozen=True)
class Joining:
    """An op that may join the group that makes one of its operands."""

    nest: LoopNest
    group: Group
    flow: Flow

    @property
    def num_ops(self) -> int:
        return len(self.group.members) + 1

    @property
    def most_ops(self) -> int:
        return _most_ops(self.group.domain, self.nest.sizes)

    @property
    def sizes(self) -> str:
        return _sizes(self.nest.sizes)

    @property
    def domain(self) -> str:
        return _sizes(self.group.domain)

    @property
    def family(self) -> str:
        return self.group.family.name

    @property
    def reads_in_place(self) -> bool:
        """Whether every value of the group is read at the loops' own position, whole or by row."""
        return all(
            dims is not None and dims == tuple(range(len(dims))) and len(dims) >= len(self.nest.sizes) - 1
            for value, dims in self.nest.reads
            if value in self.group.made
        )

    @property
    def reads_no_view(self) -> bool:
        reads = self.flow.reads_of(self.nest.operation)
        return not any(self.group in self.flow.makers(value) and value not in self.group.made for value in reads)

    @cached_property
    def sums(self) -> Sums:
        return Sums([*self.group.nests.values(), self.nest], self.group.made)


@dataclass(frozen=True)
class Growing:
    """A group that may take an op which needs `others` too, of which those in `candidates` could take it as well."""

    nest: LoopNest
    group: Group
    others: Sequence[Group]
    candidates: Sequence[Group]
    flow: Flow
    scalars_apart: bool

    @property
    def waits_for_itself(self) -> bool:
        """Whether the group with the op in it would wait for itself."""
        return any(self.flow.waits(other, self.group) for other in self.others)


@dataclass(frozen=True)
class Gathering:
    """A group that may be merged into the one that an op joins, which needs `others` besides the two."""

    group: Group
    others: Sequence[Group]
    flow: Flow

    @property
    def waits_for_itself(self) -> bool:
        """Whether the group with the op and the merged one in it would wait for itself."""
        return any(self.flow.waits(other, self.group) for other in self.others)


@dataclass(frozen=True)
class Merging:
    """Two groups that may become one, of the first one's family."""

    group: Group
    other: Group
    flow: Flow
    scalars_apart: bool

    @property
    def num_ops(self) -> int:
        return len(self.group.members) + len(self.other.members)

    @property
    def most_ops(self) -> int:
        return _most_ops(self.group.domain, self.other.domain)

    @property
    def sizes(self) -> str:
        return _sizes(self.other.domain)

    @property
    def domain(self) -> str:
        return _sizes(self.group.domain)

    @property
    def family(self) -> str:
        return (self.other if self.group.is_rows or self.group.is_product else self.group).family.name

    @property
    def _joinings(self) -> list[Joining]:
        pairs = ((self.group, self.other), (self.other, self.group))
        return [Joining(nest, source, self.flow) for user, source in pairs for nest in user.nests.values()]

    @property
    def reads_in_place(self) -> bool:
        return all(joining.reads_in_place for joining in self._joinings)

    @property
    def reads_no_view(self) -> bool:
        return all(joining.reads_no_view for joining in self._joinings)

    @cached_property
    def sums(self) -> Sums:
        return Sums([*self.group.nests.values(), *self.other.nests.values()], self.group.made | self.other.made)


@dataclass(frozen=True)
class Sums:
    """The sums over ranges of rows among some loops, which make some values."""

    nests: Sequence[LoopNest]
    made: set[ir.Value]

    @cached_property
    def sums(self) -> list[LoopNest]:
        return [nest for nest in self.nests if nest.range_length]

    @property
    def count(self) -> int:
        return len(self.sums)

    @property
    def num_lengths(self) -> int:
        return len({nest.range_length for nest in self.sums})

    @property
    def words_of_row(self) -> int:
        """Elements of one row of all that is read, and of the sums, where rows are reduced too; else 0."""
        if not self.sums or not any(nest.is_row_reduction for nest in self.nests):
            return 0
        wide = {value for nest in self.nests for value, dims in nest.reads if dims is None or 1 in dims} - self.made
        return (len(wide) + len(self.sums)) * self.sums[0].sizes[1]


def _most_ops(*loops: Sequence[int]) -> int:
    """The ops that a kernel of such loops may have."""
    return MAX_OPS if any(loops) else MAX_SCALAR_OPS


def _sizes(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes)) or "a scalar"
