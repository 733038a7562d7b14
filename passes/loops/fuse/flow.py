"""What is known of a program while its groups form: who makes a value, who reads it, which group waits for which."""

from __future__ import annotations

from collections.abc import Iterable

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import is_pure
from blu.passes.framework import families
from blu.passes.framework.families import Family
from blu.passes.loops.fuse.loops import LoopNest, captured, is_repeated
from blu.passes.loops.fuse.waiting import Waiting


@dataclass(eq=False)
class Group:
    """Ops of one kernel, in program order. `domain` are the loop sizes of its widest op."""

    index: int
    family: Family
    domain: tuple[int, ...] = ()
    members: list[ir.Operation] = field(default_factory=list)
    nests: dict[ir.Operation, LoopNest] = field(default_factory=dict)
    made: set[ir.Value] = field(default_factory=set)
    # The group that this one has become a part of.
    merged_into: Group | None = None

    @property
    def is_rows(self) -> bool:
        return self.family == families.ROWS

    @property
    def is_product(self) -> bool:
        return self.family == families.GEMM

    @property
    def is_merged(self) -> bool:
        return self.merged_into is not None

    @property
    def location(self) -> ir.Location:
        """Where the kernel is said to come from: its contraction, or else the op that gives its result."""
        contractions = [member for member in self.members if member.name == "linalg.contract"]
        return (contractions or self.members)[-1].location

    @property
    def final(self) -> Group:
        """The group that the ops of this one have ended in."""
        group = self
        while group.merged_into is not None:
            group = group.merged_into
        return group


class Flow:
    """The values and groups of one function."""

    def __init__(self) -> None:
        self.waiting = Waiting()
        self._makers: dict[ir.Value, set[Group]] = {}
        self._behind: dict[Group, list[ir.Value]] = {}
        self._reads: dict[ir.Operation, list[ir.Value]] = {}
        # The group of the last op with effects.
        self._acting: set[Group] = set()

    def makers(self, value: ir.Value) -> set[Group]:
        """The groups that must have run before a value is there, seen through views."""
        return self._makers.get(value, set())

    def set_makers(self, operation: ir.Operation, makers: set[Group]) -> None:
        """Say who must have run before the results of an op are there."""
        for result in operation.results:
            self._makers[result] = makers
            for group in makers:
                self._behind.setdefault(group, []).append(result)

    def reads_of(self, operation: ir.Operation, nest: LoopNest | None = None) -> list[ir.Value]:
        """As the function `reads_of`, which takes long enough to do it once for each op, with what its loops know."""
        if operation not in self._reads:
            self._reads[operation] = reads_of(operation, captured(operation) if nest is None else nest.captured)
        return self._reads[operation]

    def needs_of(self, operation: ir.Operation, nest: LoopNest | None) -> set[Group]:
        """The groups that make what an op reads."""
        return set().union(*(self.makers(value) for value in self.reads_of(operation, nest)), set())

    def needs_of_effects(self, operation: ir.Operation, group: Group) -> set[Group]:
        """The group that must have run before an op with effects in this group: that of the last one with any."""
        if is_pure(operation):
            return set()
        before, self._acting = self._acting, {group}
        return before

    def waits(self, one: Group, other: Group) -> bool:
        """Whether a group is another or waits for it, directly or through others."""
        return self.waiting.waits(one.index, other.index)

    def waits_through_third(self, one: Group, other: Group) -> bool:
        """Whether one of two groups waits for the other, and not only directly."""
        return self.waiting.waits_through_third(one.index, other.index)

    def let_wait(self, group: Group, others: Iterable[Group]) -> None:
        """Let a group wait for others."""
        self.waiting.let_wait(group.index, (other.index for other in others if not other.is_merged))

    def merge(self, group: Group, other: Group) -> None:
        """Let a group take the place of another."""
        self.waiting.merge(group.index, other.index)
        for value in self._behind.pop(other, ()):
            self._makers[value] = (self._makers[value] - {other}) | {group}
            self._behind.setdefault(group, []).append(value)


def reads_of(operation: ir.Operation, inside: Iterable[ir.Value]) -> list[ir.Value]:
    """Every value that an op reads, those captured `inside` of it and of its repeated producers included."""
    values = [*operation.operands, *inside]
    found: list[ir.Value] = []
    for value in values:  # which grows
        owner = value.owner
        if not isinstance(owner, ir.Block) and is_repeated(owner):
            values.extend(owner.operands)
        else:
            found.append(value)
    return found
