"""Which ops run together as one kernel: a greedy choice in program order, by loop bounds and indexing maps.

An elementwise op joins the group that makes its operand if it walks the same loops and reads the value where it was
made: elementwise and row groups, and contractions. A reduction over the last loop joins elementwise and row groups.
Groups never wait for each other in a circle: a group that reads what a second one makes from the first stays apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from blu.dialects.mlir import ir
from blu.passes.fuse.loops import VIEWS, LoopNest, captured, is_inner_insertion, is_repeated, loop_nest

MAX_OPS = 48


@dataclass(eq=False)
class Group:
    """Ops of one kernel, in program order. `domain` are the loop sizes of its widest op."""

    index: int
    anchor: str
    domain: tuple[int, ...] = ()
    members: list[ir.Operation] = field(default_factory=list)
    nests: dict[ir.Operation, LoopNest] = field(default_factory=dict)
    # Groups whose results this one reads, directly.
    needs: set[Group] = field(default_factory=set)

    @property
    def is_rows(self) -> bool:
        return self.anchor == "rows"


class Grouping:
    """The groups of one function, built op by op."""

    def __init__(self, block: ir.Block):
        self.groups: list[Group] = []
        self.owner: dict[ir.Operation, Group] = {}
        self.made_by: dict[ir.Value, set[Group]] = {}
        for index, operation in enumerate(block.operations):
            self._visit(operation.operation, index)
        self._merge_siblings()

    def _visit(self, operation: ir.Operation, index: int) -> None:
        if operation.name in ("func.return", "plan.check") or is_repeated(operation):
            return
        if operation.name in VIEWS or is_inner_insertion(operation) or operation.name == "arith.constant":
            sources = (
                set().union(*(self._makers(value) for value in operation.operands)) if operation.operands else set()
            )
            self.made_by.update((result, sources) for result in operation.results)
            return
        self._place(operation, loop_nest(operation, index))

    def _makers(self, value: ir.Value) -> set[Group]:
        """The groups that must have run before a value is there, seen through views."""
        return self.made_by.get(value, set())

    def _place(self, operation: ir.Operation, nest: LoopNest | None) -> None:
        needs = set().union(*(self._makers(value) for value in reads_of(operation)), set())
        group = self._find_group(nest, needs) if nest else None
        if group is None:
            group = Group(len(self.groups), _anchor(operation, nest), nest.result_sizes if nest else ())
            self.groups.append(group)
        self._add(group, operation, nest, needs)

    def _find_group(self, nest: LoopNest, needs: set[Group]) -> Group | None:
        """The group to join: the latest of those that make an operand, the others merged into it where possible."""
        candidates = [group for group in sorted(needs, key=lambda group: -group.index) if self._can_join(nest, group)]
        for group in candidates:
            if not any(self._reaches(other, group) for other in needs if other is not group):
                break
        else:
            return None
        for other in candidates:
            if other is not group and self._can_merge(group, other):
                self._merge(group, other)
        return group

    def _can_join(self, nest: LoopNest, group: Group) -> bool:
        if len(group.members) >= MAX_OPS or nest.is_contraction:
            return False
        if group.anchor == "gemm":
            return nest.is_pointwise and nest.sizes == group.domain and self._reads_in_place(nest, group)
        if not group.is_rows or not (nest.is_pointwise or nest.is_row_reduction):
            return False
        return _common_domain(nest, group) is not None and self._reads_in_place(nest, group)

    def _reads_in_place(self, nest: LoopNest, group: Group) -> bool:
        """Whether every value of the group is read at the loops' own position, whole or by row."""
        for member in group.members:
            for value in member.results:
                for dims in nest.reads(value):
                    if dims is None or dims != tuple(range(len(dims))):
                        return False
                    if len(dims) < len(nest.sizes) - 1:
                        return False
        return not self._reads_through_views(nest, group)

    def _reads_through_views(self, nest: LoopNest, group: Group) -> bool:
        made = {value for member in group.members for value in member.results}
        return any(group in self._makers(value) and value not in made for value in reads_of(nest.operation))

    def _add(self, group: Group, operation: ir.Operation, nest: LoopNest | None, needs: Iterable[Group]) -> None:
        group.members.append(operation)
        if nest:
            group.nests[operation] = nest
            group.domain = (_common_domain(nest, group) or group.domain) if group.is_rows else group.domain
        group.needs.update(other for other in needs if other is not group)
        self.owner[operation] = group
        self.made_by.update((result, {group}) for result in operation.results)

    def _can_merge(self, group: Group, other: Group) -> bool:
        """Two row groups of one domain, neither of which waits for the other through a third."""
        if not (group.is_rows and other.is_rows) or len(group.members) + len(other.members) > MAX_OPS:
            return False
        if group.domain != other.domain and not _row_domains(group.domain, other.domain):
            return False
        between = [item for item in group.needs if item is not other] + [
            item for item in other.needs if item is not group
        ]
        if any(self._reaches(item, group) or self._reaches(item, other) for item in between):
            return False
        return self._reads_each_other_in_place(group, other)

    def _reads_each_other_in_place(self, group: Group, other: Group) -> bool:
        pairs = ((group, other), (other, group))
        return all(self._reads_in_place(nest, source) for user, source in pairs for nest in user.nests.values())

    def _merge(self, group: Group, other: Group) -> None:
        group.members = sorted(group.members + other.members, key=lambda item: self._position(group, other, item))
        group.nests |= other.nests
        group.domain = max(group.domain, other.domain, key=len)
        group.needs = (group.needs | other.needs) - {group, other}
        for member in other.members:
            self.owner[member] = group
        self._replace(other, group)

    def _position(self, group: Group, other: Group, operation: ir.Operation) -> int:
        return (group.nests.get(operation) or other.nests[operation]).index

    def _replace(self, other: Group, group: Group) -> None:
        self.groups.remove(other)
        for item in self.groups:
            if other in item.needs:
                item.needs = (item.needs - {other}) | ({group} if item is not group else set())
        for value, makers in self.made_by.items():
            if other in makers:
                self.made_by[value] = (makers - {other}) | {group}

    def _reaches(self, start: Group, goal: Group) -> bool:
        """Whether `start` waits for `goal`, directly or through others."""
        waiting, seen = [start], {start}
        while waiting:
            group = waiting.pop()
            if group is goal:
                return True
            fresh = group.needs - seen
            seen |= fresh
            waiting.extend(fresh)
        return False

    def _merge_siblings(self) -> None:
        """Horizontally: row groups of one domain that read the same tensor and do not wait for each other."""
        readers: dict[ir.Value, list[Group]] = {}
        for group in self.groups:
            for member in group.members:
                for value in reads_of(member):
                    siblings = readers.setdefault(value, [])
                    if group not in siblings:
                        siblings.append(group)
        for siblings in readers.values():
            self._merge_all([group for group in siblings if group in self.groups])

    def _merge_all(self, siblings: list[Group]) -> None:
        for first, second in pairwise(siblings):
            alive = first in self.groups and second in self.groups
            independent = alive and not self._reaches(first, second) and not self._reaches(second, first)
            if independent and first.domain == second.domain and self._can_merge(first, second):
                self._merge(second, first)


def reads_of(operation: ir.Operation) -> list[ir.Value]:
    """Every value that an op reads, its regions' captured ones and those of its repeated producers included."""
    values = [*operation.operands, *captured(operation)]
    found: list[ir.Value] = []
    while values:
        value = values.pop(0)
        owner = value.owner
        if not isinstance(owner, ir.Block) and is_repeated(owner):
            values.extend(owner.operands)
        else:
            found.append(value)
    return found


def _anchor(operation: ir.Operation, nest: LoopNest | None) -> str:
    if nest is None:
        return {"tensor.insert_slice": "update"}.get(operation.name, operation.name.partition(".")[2])
    if nest.is_contraction:
        return "gemm"
    return "rows" if nest.is_pointwise or nest.is_row_reduction else "loops"


def _common_domain(nest: LoopNest, group: Group) -> tuple[int, ...] | None:
    """The loops of the group with the op in it, or None where they do not fit."""
    if not group.members or nest.sizes == group.domain:
        return nest.sizes
    if nest.is_pointwise and nest.sizes == group.domain[:-1]:
        return group.domain
    only_rows = all(member.is_pointwise for member in group.nests.values())
    if only_rows and nest.sizes[:-1] == group.domain:
        return nest.sizes
    return None


def _row_domains(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    return first == second[:-1] or second == first[:-1]
