"""Which ops run together as one kernel: a greedy choice in program order, by loop bounds and indexing maps.

An elementwise op joins the group that makes its operand if it walks the same loops and reads the value where it was
made: elementwise and row groups, and contractions. A reduction over the last loop joins elementwise and row groups, and
so do sums over ranges of rows (which GPUs have).
Groups never wait for each other in a circle: a group that reads what a second one makes from the first stays apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from blu.dialects.core.mlir import ir
from blu.passes.loops.fuse.loops import VIEWS, LoopNest, captured, is_inner_insertion, is_repeated, loop_nest
from blu.passes.loops.fuse.waiting import Waiting

MAX_OPS = 48
MOST_SUMS = 4
"""Sums over ranges of rows that a group may have."""
WORDS_OF_SUMMED_ROW = 40960
"""Elements of inputs and sums for one row of a group that has reductions along rows too: what a block can hold."""


@dataclass(eq=False)
class Group:
    """Ops of one kernel, in program order. `domain` are the loop sizes of its widest op."""

    index: int
    anchor: str
    domain: tuple[int, ...] = ()
    members: list[ir.Operation] = field(default_factory=list)
    nests: dict[ir.Operation, LoopNest] = field(default_factory=dict)
    made: set[ir.Value] = field(default_factory=set)
    is_merged: bool = False

    @property
    def is_rows(self) -> bool:
        return self.anchor == "rows"


class Grouping:
    """The groups of one function, built op by op, in a time that grows with the number of ops.

    With `scalars_apart`, a computation of scalars joins a reduction only where that waits for nothing more by it: the
    terms of a long sum, each a reduction, are then independent of each other.
    """

    def __init__(self, block: ir.Block, scalars_apart: bool = False):
        self._scalars_apart = scalars_apart
        self._all: list[Group] = []
        self.waiting = Waiting()
        self.made_by: dict[ir.Value, set[Group]] = {}
        self._behind: dict[Group, list[ir.Value]] = {}
        self._reads: dict[ir.Operation, list[ir.Value]] = {}
        for index, operation in enumerate(block.operations):
            self._visit(operation.operation, index)
        self._merge_siblings()

    @property
    def groups(self) -> list[Group]:
        """The groups in the order in which they were begun."""
        return [group for group in self._all if not group.is_merged]

    def _visit(self, operation: ir.Operation, index: int) -> None:
        if operation.name in ("func.return", "plan.check") or is_repeated(operation):
            return
        if operation.name in VIEWS or is_inner_insertion(operation) or operation.name == "arith.constant":
            sources = (
                set().union(*(self._makers(value) for value in operation.operands)) if operation.operands else set()
            )
            self._set_makers(operation, sources)
            return
        self._place(operation, loop_nest(operation, index))

    def _set_makers(self, operation: ir.Operation, makers: set[Group]) -> None:
        for result in operation.results:
            self.made_by[result] = makers
            for group in makers:
                self._behind.setdefault(group, []).append(result)

    def _makers(self, value: ir.Value) -> set[Group]:
        """The groups that must have run before a value is there, seen through views."""
        return self.made_by.get(value, set())

    def _reads_of(self, operation: ir.Operation) -> list[ir.Value]:
        """As `reads_of`, which takes long enough to do it once for each op."""
        if operation not in self._reads:
            self._reads[operation] = reads_of(operation)
        return self._reads[operation]

    def _place(self, operation: ir.Operation, nest: LoopNest | None) -> None:
        needs = set().union(*(self._makers(value) for value in self._reads_of(operation)), set())
        group = self._find_group(nest, needs) if nest else None
        if group is None:
            group = Group(self.waiting.begin(), _anchor(operation, nest), nest.result_sizes if nest else ())
            self._all.append(group)
        self._add(group, operation, nest, needs)

    def _find_group(self, nest: LoopNest, needs: set[Group]) -> Group | None:
        """The group to join: the latest of those that make an operand, the others merged into it where possible."""
        candidates = [group for group in sorted(needs, key=lambda group: -group.index) if self._can_join(nest, group)]
        if (product := self._product_to_follow(nest, candidates)) is not None:
            candidates = [product, *(group for group in candidates if group is not product)]
        possible = [group for group in candidates if self._is_free_to_grow(group, nest, needs, candidates)]
        if not possible:
            return None
        group = next((group for group in possible if self._takes_all(group, candidates)), possible[0])
        self._gather(group, candidates, needs)
        return group

    def _gather(self, group: Group, candidates: list[Group], needs: set[Group]) -> None:
        """Merge into a group those others that make an operand too.

        Not one that waits for what the op needs besides: the group with the op in it would wait for itself. A need may
        be merged itself, which lets others go with it.
        """
        waiting = [other for other in candidates if other is not group]
        while taken := [other for other in waiting if self._gathers(group, other, needs)]:
            waiting = [other for other in waiting if other not in taken]

    def _gathers(self, group: Group, other: Group, needs: set[Group]) -> bool:
        thirds = (need for need in needs if need not in (group, other) and not need.is_merged)
        if any(self._waits(third, other) for third in thirds) or not self._can_merge(group, other):
            return False
        self._merge(group, other)
        return True

    def _is_free_to_grow(self, group: Group, nest: LoopNest, needs: set[Group], candidates: list[Group]) -> bool:
        """Whether a group can have an op with these needs, without waiting for itself or, for scalars, for others."""
        others = [other for other in needs if other is not group]
        if any(self._waits(other, group) for other in others):
            return False
        return not (self._scalars_apart and self._would_wait(nest, group, others, candidates))

    def _would_wait(self, nest: LoopNest, group: Group, others: list[Group], candidates: list[Group]) -> bool:
        """Whether a reduction would wait for more than now, only because a computation of scalars joins it."""
        if nest.sizes or not group.domain:
            return False
        merging = [other for other in others if other in candidates and self._can_merge(group, other)]
        return any(other not in merging and not self._waits(group, other) for other in others)

    def _takes_all(self, group: Group, others: list[Group]) -> bool:
        """Whether all others can be merged into a group."""
        return all(self._can_merge(group, other) for other in others if other is not group)

    def _product_to_follow(self, nest: LoopNest, candidates: list[Group]) -> Group | None:
        """A contraction whose result the op reads beside what only this op reads of elementwise groups.

        These groups can move to the contraction, so that an update of a parameter happens where its gradient is made.
        """
        products = [group for group in candidates if group.anchor == "gemm"]
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

    def _can_join(self, nest: LoopNest, group: Group) -> bool:
        if len(group.members) >= MAX_OPS or nest.is_contraction:
            return False
        if group.anchor == "gemm":
            is_alike = nest.fits_sums_of(group.domain) and self._reads_in_place(nest, group)
            is_stored = any(value in group.made and len(list(value.uses)) > 1 for value, _ in nest.reads)
            return is_alike and not nest.is_widening and not (is_stored and _stays_inside_of_rows(nest))
        if not group.is_rows or not (nest.is_pointwise or nest.is_row_reduction or nest.range_length):
            return False
        if _common_domain(nest, group) is None or not self._reads_in_place(nest, group):
            return False
        return can_sum([*group.nests.values(), nest], group.made)

    def _reads_in_place(self, nest: LoopNest, group: Group) -> bool:
        """Whether every value of the group is read at the loops' own position, whole or by row."""
        for value, dims in nest.reads:
            if value not in group.made:
                continue
            if dims is None or dims != tuple(range(len(dims))) or len(dims) < len(nest.sizes) - 1:
                return False
        return not self._reads_through_views(nest, group)

    def _reads_through_views(self, nest: LoopNest, group: Group) -> bool:
        return any(group in self._makers(value) and value not in group.made for value in self._reads_of(nest.operation))

    def _add(self, group: Group, operation: ir.Operation, nest: LoopNest | None, needs: Iterable[Group]) -> None:
        group.members.append(operation)
        if nest:
            group.nests[operation] = nest
            group.domain = (_common_domain(nest, group) or group.domain) if group.is_rows else group.domain
        group.made.update(operation.results)
        self._set_makers(operation, {group})
        self.waiting.let_wait(group.index, (need.index for need in needs if not need.is_merged))

    def _can_merge(self, group: Group, other: Group) -> bool:
        """Two row groups of one domain (or a contraction and an elementwise group), with no third between them."""
        if not other.is_rows or len(group.members) + len(other.members) > MAX_OPS:
            return False
        if self._scalars_apart and bool(group.domain) != bool(other.domain):
            return False
        if group.anchor == "gemm":
            if not all(item.fits_sums_of(group.domain) for item in other.nests.values()):
                return False
        elif not group.is_rows:
            return False
        if group.domain != other.domain and not _walks_rows_of(group, other) and not _walks_rows_of(other, group):
            return False
        if self.waiting.waits_through_third(group.index, other.index):
            return False
        nests = [*group.nests.values(), *other.nests.values()]
        return self._reads_each_other_in_place(group, other) and can_sum(nests, group.made | other.made)

    def _reads_each_other_in_place(self, group: Group, other: Group) -> bool:
        pairs = ((group, other), (other, group))
        return all(self._reads_in_place(nest, source) for user, source in pairs for nest in user.nests.values())

    def _merge(self, group: Group, other: Group) -> None:
        """Put the ops of `other` into `group`, which takes its place everywhere."""
        group.members = sorted(group.members + other.members, key=lambda item: self._position(group, other, item))
        group.nests |= other.nests
        group.domain = max(group.domain, other.domain, key=len)
        group.made |= other.made
        other.is_merged = True
        self.waiting.merge(group.index, other.index)
        for value in self._behind.pop(other, ()):
            self.made_by[value] = (self.made_by[value] - {other}) | {group}
            self._behind.setdefault(group, []).append(value)

    def _position(self, group: Group, other: Group, operation: ir.Operation) -> int:
        return (group.nests.get(operation) or other.nests[operation]).index

    def _waits(self, one: Group, other: Group) -> bool:
        """Whether a group is another or waits for it, directly or through others."""
        return self.waiting.waits(one.index, other.index)

    def _merge_siblings(self) -> None:
        """Horizontally: row groups of one domain that read the same tensor and do not wait for each other."""
        readers: dict[ir.Value, dict[Group, None]] = {}
        for group in self.groups:
            for member in group.members:
                for value in self._reads_of(member):
                    readers.setdefault(value, {})[group] = None
        for siblings in readers.values():
            self._merge_sums([group for group in siblings if not group.is_merged])
            self._merge_all([group for group in siblings if not group.is_merged])

    def _merge_sums(self, siblings: list[Group]) -> None:
        """Sums over ranges of rows join whoever reads their rows, those first who do most with them."""
        sums = [group for group in siblings if any(nest.range_length for nest in group.nests.values())]
        for group in sums:
            for other in sorted(siblings, key=lambda item: -len(item.members)):
                if other is not group and not group.is_merged and self._are_siblings(group, other):
                    self._merge(other, group)

    def _merge_all(self, siblings: list[Group]) -> None:
        for first, second in pairwise(siblings):
            if self._are_siblings(first, second):
                self._merge(second, first)

    def _are_siblings(self, first: Group, second: Group) -> bool:
        """Whether two groups can be one, and neither waits for the other."""
        if first.is_merged or second.is_merged or first.domain != second.domain:
            return False
        independent = not self._waits(first, second) and not self._waits(second, first)
        return independent and self._can_merge(first, second)


def _stays_inside_of_rows(nest: LoopNest) -> bool:
    """Whether a result is only read by loops over the same rows, some of which reduce them.

    Those become a kernel that computes it as well as any other, from what is stored for others too.
    """
    users = [loop_nest(use.owner.operation, 0) for result in nest.operation.results for use in result.uses]
    alike = all(
        user is not None and user.sizes == nest.sizes and (user.is_pointwise or user.is_row_reduction) for user in users
    )
    return alike and any(user is not None and user.is_row_reduction for user in users)


def can_sum(nests: Sequence[LoopNest], made: set[ir.Value]) -> bool:
    """Whether one kernel can have all sums over ranges of rows among some loops, if there are any."""
    sums = [nest for nest in nests if nest.range_length]
    if not sums:
        return True
    if len(sums) > MOST_SUMS or len({nest.range_length for nest in sums}) > 1:
        return False
    if not any(nest.is_row_reduction for nest in nests):
        return True
    wide = {value for nest in nests for value, dims in nest.reads if dims is None or 1 in dims} - made
    return (len(wide) + len(sums)) * sums[0].sizes[1] <= WORDS_OF_SUMMED_ROW


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
        return "update" if operation.name == "tensor.insert_slice" else str(operation.name).partition(".")[2]
    if nest.is_contraction:
        return "gemm"
    if nest.is_scan:
        return "scan"
    return "rows" if nest.is_pointwise or nest.is_row_reduction or nest.range_length else "loops"


def _common_domain(nest: LoopNest, group: Group) -> tuple[int, ...] | None:
    """The loops of the group with the op in it, or None where they do not fit."""
    if not group.members or nest.sizes == group.domain:
        return nest.sizes
    if nest.is_pointwise and nest.sizes == group.domain[:-1]:
        return group.domain
    grows = group.domain and nest.sizes[:-1] == group.domain  # a scalar is no row of anything
    if grows and all(member.is_pointwise for member in group.nests.values()):
        return nest.sizes
    return None


def _walks_rows_of(group: Group, other: Group) -> bool:
    """Whether a group does something for each row of another one, and nothing across them."""
    if group.domain != other.domain[:-1]:
        return False
    return all(nest.is_pointwise and nest.sizes == group.domain for nest in group.nests.values())
