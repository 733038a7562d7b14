"""Which ops run together as one kernel: a greedy choice in program order, which asks the tables of `rules.py`.

A value that is made and read in one kernel is never in memory, and there is one launch less. To find the groups that
move the fewest bytes is hard (Darte, "On the complexity of loop fusion", 2000), and in a model what an op should join
is near. So each op is looked at once, in the order of the program:

1. Of the groups that make its operands, it joins one that the rules allow: the latest, or before that one which all
   others can be merged into, or a product that elementwise groups can move to.
2. The others are merged into that one, as far as the rules allow.
3. An op that joins none begins a group, of the family that its loops say.
4. In the end, groups that read the same and walk alike are merged, though neither reads the other.

Groups never wait for each other in a circle: a group that reads what a second one makes from the first stays apart. Who
waits for whom is known at any time (`waiting.py`), so that the whole takes a time that grows with the number of ops.
Whatever the rules refuse is kept, with the reason, for `--explain-fusion`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.framework.rules import refusal
from blu.passes.loops.fuse.cases import Gathering, Growing, Joining, Merging
from blu.passes.loops.fuse.flow import Flow, Group
from blu.passes.loops.fuse.loops import VIEWS, LoopNest, is_inner_insertion, is_repeated, loop_nest
from blu.passes.loops.fuse.rules import (
    GATHERING,
    GROWING,
    MERGING,
    begun_by,
    common_domain,
    joining_rules,
)


@dataclass(frozen=True)
class GroupRefusal:
    """Why an op of the group `reader` is in no kernel with `maker`, whose results it reads, or whose inputs."""

    maker: Group
    reader: Group
    operation: ir.Operation
    reason: str


@dataclass
class ReadOperand:
    """A group that an op needs, and why the op does not join it, or it is not merged with the one that the op joins."""

    group: Group
    reason: str | None


class Grouping:
    """The groups of one function, built op by op, in a time that grows with the number of ops.

    With `scalars_apart`, a computation of scalars joins a reduction only where that waits for nothing more by it: the
    terms of a long sum, each a reduction, are then independent of each other.
    """

    def __init__(self, block: ir.Block, scalars_apart: bool = False):
        self._scalars_apart = scalars_apart
        self._all: list[Group] = []
        self.flow = Flow()
        self.refusals: list[GroupRefusal] = []
        self.unknown: list[ir.Operation] = []  # ops of which no kernel is made
        for index, operation in enumerate(block.operations):
            self._visit(operation.operation, index)
        self._merge_siblings()

    @property
    def groups(self) -> list[Group]:
        """The groups in the order in which they were begun."""
        return [group for group in self._all if not group.is_merged]

    def _visit(self, operation: ir.Operation, index: int) -> None:
        if _stays_on_host(operation):
            return
        if _is_view(operation):
            makers = (self.flow.makers(value) for value in operation.operands)
            self.flow.set_makers(operation, set().union(*makers, set()))
            return
        self._place(operation, loop_nest(operation, index))

    def _place(self, operation: ir.Operation, nest: LoopNest | None) -> None:
        family = begun_by(operation, nest)
        if family is None:
            self.unknown.append(operation)
            return
        needs = self.flow.needs_of(operation, nest)
        # The latest first: nothing that an op reads waits for that one.
        operands = [
            ReadOperand(
                group, self._refusal_to_join(nest, group) if nest else f"{operation.name} is a kernel of its own"
            )
            for group in sorted(needs, key=lambda group: -group.index)
        ]
        group = self._find_group(nest, operands) if nest else None
        if group is None:
            group = Group(self.flow.waiting.begin(), family, nest.result_sizes if nest else ())
            self._all.append(group)
        self._add(group, operation, nest, needs | self.flow.needs_of_effects(operation, group))
        self._keep_reasons(group, operation, operands)

    def _keep_reasons(self, group: Group, operation: ir.Operation, operands: Sequence[ReadOperand]) -> None:
        for operand in operands:
            if operand.group.final is not group:
                assert operand.reason is not None, "whatever is refused has a reason"
                self.refusals.append(GroupRefusal(operand.group, group, operation, operand.reason))

    def _refusal_to_join(self, nest: LoopNest, group: Group) -> str | None:
        return refusal(joining_rules(group), Joining(nest, group, self.flow))

    def _refusal_to_merge(self, group: Group, other: Group) -> str | None:
        return refusal(MERGING, Merging(group, other, self.flow, self._scalars_apart))

    def _can_merge(self, group: Group, other: Group) -> bool:
        return self._refusal_to_merge(group, other) is None

    def _find_group(self, nest: LoopNest, operands: Sequence[ReadOperand]) -> Group | None:
        """The group to join: the latest of those that make an operand, the others merged into it where possible."""
        candidates = [operand for operand in operands if operand.reason is None]
        joined = [operand.group for operand in candidates]
        if (product := self._product_to_follow(nest, joined)) is not None:
            candidates.sort(key=lambda operand: operand.group is not product)
            joined = [operand.group for operand in candidates]
        for operand in candidates:
            operand.reason = self._refusal_to_grow(operand.group, nest, operands, joined)
        possible = [operand.group for operand in candidates if operand.reason is None]
        if not possible:
            return None
        group = next((group for group in possible if self._takes_all(group, joined)), possible[0])
        self._gather(group, candidates, operands)
        return group

    def _gather(self, group: Group, candidates: Sequence[ReadOperand], operands: Sequence[ReadOperand]) -> None:
        """Merge into a group those others that make an operand too.

        Not one that waits for what the op needs besides: the group with the op in it would wait for itself. A need may
        be merged itself, which lets others go with it.
        """
        waiting = [operand for operand in candidates if operand.group is not group]
        while taken := [operand for operand in waiting if self._gathers(group, operand, operands)]:
            waiting = [operand for operand in waiting if operand not in taken]

    def _gathers(self, group: Group, operand: ReadOperand, operands: Sequence[ReadOperand]) -> bool:
        other = operand.group
        thirds = [item.group for item in operands if item.group not in (group, other) and not item.group.is_merged]
        operand.reason = refusal(GATHERING, Gathering(other, thirds, self.flow)) or self._refusal_to_merge(group, other)
        if operand.reason is not None:
            return False
        self._merge(group, other)
        return True

    def _refusal_to_grow(
        self, group: Group, nest: LoopNest, operands: Sequence[ReadOperand], candidates: Sequence[Group]
    ) -> str | None:
        others = [operand.group for operand in operands if operand.group is not group]
        return refusal(GROWING, Growing(nest, group, others, candidates, self.flow, self._scalars_apart))

    def _takes_all(self, group: Group, others: Sequence[Group]) -> bool:
        """Whether all others can be merged into a group."""
        return all(self._can_merge(group, other) for other in others if other is not group)

    def _product_to_follow(self, nest: LoopNest, candidates: Sequence[Group]) -> Group | None:
        """A contraction whose result the op reads beside what only this op reads of elementwise groups.

        These groups can move to the contraction, so that an update of a parameter happens where its gradient is made.
        """
        products = [group for group in candidates if group.is_product]
        others = [group for group in candidates if group not in products]
        if len(products) != 1 or not all(self._can_follow(nest, group, products[0]) for group in others):
            return None
        return products[0]

    def _can_follow(self, nest: LoopNest, group: Group, product: Group) -> bool:
        """Whether an elementwise group can become a part of what follows a contraction."""
        users = {*group.members, nest.operation}
        alike = all(item.fits_sums_of(product.domain) for item in group.nests.values())
        own = all(use.owner.operation in users for value in group.made for use in value.uses)
        return alike and own and len(group.nests) == len(group.members)

    def _add(self, group: Group, operation: ir.Operation, nest: LoopNest | None, needs: set[Group]) -> None:
        group.members.append(operation)
        if nest:
            group.nests[operation] = nest
            group.domain = (common_domain(nest, group) or group.domain) if group.is_rows else group.domain
        group.made.update(operation.results)
        self.flow.set_makers(operation, {group})
        self.flow.let_wait(group, needs)

    def _merge(self, group: Group, other: Group) -> None:
        """Put the ops of `other` into `group`, which takes its place everywhere."""
        group.nests |= other.nests
        group.members = sorted(group.members + other.members, key=lambda item: group.nests[item].index)
        group.domain = max(group.domain, other.domain, key=len)
        group.made |= other.made
        other.merged_into = group
        self.flow.merge(group, other)

    def _merge_siblings(self) -> None:
        """Horizontally: row groups of one domain that read the same tensor and do not wait for each other."""
        readers: dict[ir.Value, dict[Group, None]] = {}
        for group in self.groups:
            for member in group.members:
                for value in self.flow.reads_of(member):
                    readers.setdefault(value, {})[group] = None
        for siblings in (found for found in readers.values() if len(found) > 1):
            self._merge_sums(_finals(siblings))
            self._merge_all(_finals(siblings))

    def _merge_sums(self, siblings: list[Group]) -> None:
        """Sums over ranges of rows join whoever reads their rows, those first who do most with them."""
        rows = [group for group in siblings if group.is_rows]
        sums = [group for group in rows if any(nest.range_length for nest in group.nests.values())]
        for group in sums:
            for other in sorted(siblings, key=lambda item: -len(item.members)):
                if other is not group and not group.is_merged and self._are_siblings(group, other):
                    self._merge(other, group)

    def _merge_all(self, siblings: list[Group]) -> None:
        for first, second in pairwise(siblings):
            if self._are_siblings(first, second):
                # What a product leads stays a product's kernel.
                self._merge(*((first, second) if first.is_product else (second, first)))

    def _are_siblings(self, first: Group, second: Group) -> bool:
        """Whether two groups can be one, and neither waits for the other."""
        if first.is_merged or second.is_merged or first.domain != second.domain:
            return False
        if self.flow.waits(first, second) or self.flow.waits(second, first):
            return False
        reason = self._refusal_to_merge(first, second)
        if reason is not None and first.is_rows and second.is_rows:
            self.refusals.append(GroupRefusal(first, second, second.members[0], reason))
        return reason is None


def _finals(groups: Iterable[Group]) -> list[Group]:
    """What groups are part of by now, each once."""
    return list(dict.fromkeys(group.final for group in groups))


def _stays_on_host(operation: ir.Operation) -> bool:
    return operation.name in ("func.return", "plan.check") or is_repeated(operation)


def _is_view(operation: ir.Operation) -> bool:
    """Whether an op only says where its operands are in memory."""
    return operation.name in (*VIEWS, "arith.constant") or is_inner_insertion(operation)
