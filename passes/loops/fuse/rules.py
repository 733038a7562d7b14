"""Which ops and groups may share a kernel: rules, each with the reason that it gives where it refuses.

An elementwise op joins the group that makes its operand if it walks the same loops and reads the value where it was
made: elementwise and row groups, and contractions. A reduction over the last loop joins elementwise and row groups, and
so do sums over ranges of rows (which GPUs have). `groups.py` asks these tables, and knows no rule itself.
"""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.passes.framework import families
from blu.passes.framework.families import Family
from blu.passes.framework.kernels import has_own_kernel, is_host_step
from blu.passes.framework.rules import Rule, refusal
from blu.passes.loops.fuse.cases import MAX_OPS, Gathering, Growing, Joining, Merging
from blu.passes.loops.fuse.flow import Group
from blu.passes.loops.fuse.loops import LoopNest, loop_nest

MOST_SUMS = 4
"""Sums over ranges of rows that a group may have."""
WORDS_OF_SUMMED_ROW = 40960
"""Elements of inputs and sums for one row of a group that has reductions along rows too: what a block can hold."""


_SHARED: tuple[Rule[Joining | Merging], ...] = (
    Rule(
        "in place",
        lambda case: case.reads_in_place,
        "it is not read where it is made, but at another element, or in whole",
    ),
    Rule("no view", lambda case: case.reads_no_view, "it is read through a view (a transpose, slice or reshape)"),
)
_SUMS: tuple[Rule[Joining | Merging], ...] = (
    Rule("few sums", lambda case: case.sums.count <= MOST_SUMS, f"a kernel has at most {MOST_SUMS} sums over rows"),
    Rule("one length", lambda case: case.sums.num_lengths <= 1, "their sums are over ranges of rows of other lengths"),
    Rule(
        "fits a block",
        lambda case: case.sums.words_of_row <= WORDS_OF_SUMMED_ROW,
        f"a row of all that is read, and the sums, are more than the {WORDS_OF_SUMMED_ROW} elements that a block holds",
    ),
)
_OP_BEGINS: tuple[Rule[Joining], ...] = (
    Rule(
        "room",
        lambda case: case.num_ops <= case.most_ops,
        "a kernel holds at most {case.most_ops} ops",
    ),
    Rule("no product", lambda case: not case.nest.is_contraction, "a matrix product begins a kernel"),
)
# Which ops join a group, by the family of the group. Nothing joins one of a family that is not here.
JOINING: dict[Family, tuple[Rule[Joining], ...]] = {
    families.GEMM: (
        *_OP_BEGINS,
        Rule(
            "elementwise",
            lambda case: case.nest.is_pointwise or case.nest.sums_product,
            "only elementwise ops follow a matrix product",
        ),
        Rule(
            "same sums",
            lambda case: case.nest.sizes == case.group.domain,
            "loops of {case.sizes} are not those of the product's sums, {case.domain}",
        ),
        Rule(
            "no gather",
            lambda case: not case.nest.gathers,
            "what follows a product reads other tensors at the place of the sum, and nowhere else",
        ),
        *_SHARED,
        Rule(
            "no widening",
            lambda case: not case.nest.is_widening or _is_added_up(case),
            "every reader widens halves better for itself",
        ),
        Rule(
            "no row kernel",
            lambda case: not (_is_stored(case) and (_stays_inside_of_rows(case.nest) or _is_only_summed(case.nest))),
            "it is left to the kernel that reduces its rows, since the product is stored for others as well",
        ),
        Rule(
            "no other product",
            lambda case: not (_is_needed(case) and _ends_in_other_product(case.nest, case.group)),
            "it is left to the product that it is put together with, since this one is stored for others as well",
        ),
    ),
    families.ROWS: (
        *_OP_BEGINS,
        Rule(
            "rows",
            lambda case: bool(case.nest.is_pointwise or case.nest.is_row_reduction or case.nest.range_length),
            "only elementwise ops and reductions over the last dimension are done row by row",
        ),
        Rule(
            "one domain",
            lambda case: common_domain(case.nest, case.group) is not None,
            "loops of {case.sizes} do not fit those of {case.domain}",
        ),
        *_SHARED,
        *_SUMS,
    ),
    families.ATTENTION_GRADIENT: (
        Rule(
            "sums of rows",
            lambda case: case.nest.sums_gradient,
            "only sums over ranges of its rows follow a gradient of attention",
        ),
    ),
}
_NOTHING_JOINS: tuple[Rule[Joining], ...] = (
    Rule("family", lambda case: False, "nothing follows in a kernel of the family {case.family}"),
)


def joining_rules(group: Group) -> tuple[Rule[Joining], ...]:
    """The rules for ops that may join a group."""
    return JOINING.get(group.family, _NOTHING_JOINS)


_NO_CIRCLE: Rule[Growing | Gathering] = Rule(
    "no circle",
    lambda case: not case.waits_for_itself,
    "the kernel would wait for itself: something else that is read waits for it",
)
GROWING: tuple[Rule[Growing], ...] = (
    _NO_CIRCLE,
    Rule(
        "no waiting",
        lambda case: not (case.scalars_apart and _waits_for_more(case)),
        "a reduction does not wait for more than its rows, so that the terms of a sum are reduced at once",
    ),
)
GATHERING: tuple[Rule[Gathering], ...] = (_NO_CIRCLE,)
# Two row groups of one domain (or a contraction and an elementwise group), with no third between them.
MERGING: tuple[Rule[Merging], ...] = (
    Rule(
        "one product",
        lambda case: not (case.group.is_product and case.other.is_product),
        "a kernel has one matrix product",
    ),
    Rule(
        "families",
        lambda case: case.other.is_rows and (case.group.is_rows or case.group.is_product),
        "a kernel of the family {case.family} is not merged with others",
    ),
    Rule("room", lambda case: case.num_ops <= case.most_ops, "a kernel holds at most {case.most_ops} ops"),
    Rule(
        "scalars apart",
        lambda case: not case.scalars_apart or bool(case.group.domain) == bool(case.other.domain),
        "a reduction does not wait for what is done with the scalars",
    ),
    Rule(
        "follows the product",
        lambda case: not case.group.is_product or _all_fit_sums(case.other, case.group),
        "not all of it can be done with the product's sums, {case.domain}",
    ),
    Rule(
        "one domain",
        lambda case: (
            case.group.domain == case.other.domain
            or _walks_rows_of(case.group, case.other)
            or _walks_rows_of(case.other, case.group)
        ),
        "loops of {case.sizes} do not fit those of {case.domain}",
    ),
    Rule(
        "nothing between",
        lambda case: not case.flow.waits_through_third(case.group, case.other),
        "a third kernel waits for one of them, and the other one for it",
    ),
    *_SHARED,
    *_SUMS,
)


def begun_by(operation: ir.Operation, nest: LoopNest | None) -> Family | None:
    """The family of the kernel that an op begins, or None for ops that are no part of kernels."""
    if nest is None:
        return _family_of_no_loops(operation)
    if nest.is_contraction:
        return families.GEMM
    if nest.is_scan:
        return families.SCAN
    is_by_rows = nest.is_pointwise or nest.is_row_reduction or nest.range_length
    return families.ROWS if is_by_rows else families.LOOPS


def _family_of_no_loops(operation: ir.Operation) -> Family | None:
    if is_host_step(operation.name):
        return families.HOST
    if has_own_kernel(operation.name):
        return families.family_named(operation.name.partition(".")[2])
    found = (item for item in families.FAMILIES.values() if item.updates and item.updates[0] == operation.name)
    return next(found, None)


def _waits_for_more(case: Growing) -> bool:
    """Whether a reduction would wait for more than now, only because a computation of scalars joins it."""
    if case.nest.sizes or not case.group.domain:
        return False
    return any(not _is_gathered(case, other) and not case.flow.waits(case.group, other) for other in case.others)


def _is_gathered(case: Growing, other: Group) -> bool:
    merging = Merging(case.group, other, case.flow, case.scalars_apart)
    return other in case.candidates and refusal(MERGING, merging) is None


def _all_fit_sums(other: Group, product: Group) -> bool:
    return all(nest.fits_sums_of(product.domain) for nest in other.nests.values())


def _is_added_up(case: Joining) -> bool:
    """Whether results are only read by sums that the product may make, for one of which there is room, too."""
    nests = [loop_nest(use.owner.operation, 0) for result in case.nest.operation.results for use in result.uses]
    return case.num_ops < MAX_OPS and len(nests) == 1 and nests[0] is not None and nests[0].sums_product


def _is_stored(case: Joining) -> bool:
    """Whether others read the product too."""
    return any(value in case.group.made and len(list(value.uses)) > 1 for value, _ in case.nest.reads)


def _is_needed(case: Joining) -> bool:
    """Whether all that is read of the product is read by what is no elementwise loop too: it is in memory anyway."""
    values = [value for value, _ in case.nest.reads if value in case.group.made]
    return bool(values) and all(map(_has_other_readers, values))


def _has_other_readers(value: ir.Value) -> bool:
    users = [loop_nest(use.owner.operation, 0) for use in value.uses]
    return any(user is None or not user.is_pointwise for user in users)


def _ends_in_other_product(nest: LoopNest, group: Group) -> bool:
    """Whether a result is only read, by elementwise loops, to be put together with what another product makes."""
    uses = [use for result in nest.operation.results for use in result.uses]
    users = {use.owner.operation: loop_nest(use.owner.operation, 0) for use in uses}
    (user,) = users.values() if len(users) == 1 else (None,)
    if user is None or not user.is_pointwise or user.sizes != nest.sizes:
        return False
    others = [value for value in user.inputs if value not in nest.operation.results]
    return any(_is_of_other_product(value, group) for value in others) or _ends_in_other_product(user, group)


def _is_of_other_product(value: ir.Value, group: Group) -> bool:
    """Whether elementwise loops make a value of a product that no kernel of the group does."""
    while not isinstance(value.owner, ir.Block) and value not in group.made:
        nest = loop_nest(value.owner, 0)
        if nest is None or nest.is_contraction or not nest.is_pointwise or not nest.inputs:
            return nest is not None and nest.is_contraction
        value = nest.inputs[0]
    return False


def _stays_inside_of_rows(nest: LoopNest) -> bool:
    """Whether a result is only read by loops over the same rows, some of which reduce them.

    Those become a kernel that computes it as well as any other, from what is stored for others too.
    """
    users = [loop_nest(use.owner.operation, 0) for result in nest.operation.results for use in result.uses]
    alike = all(
        user is not None and user.sizes == nest.sizes and (user.is_pointwise or user.is_row_reduction) for user in users
    )
    return alike and any(user is not None and user.is_row_reduction for user in users)


def _is_only_summed(nest: LoopNest) -> bool:
    """Whether a result is only read by sums over ranges of rows, which no product makes."""
    users = [loop_nest(use.owner.operation, 0) for result in nest.operation.results for use in result.uses]
    return all(user is not None and user.range_length and not user.sums_product for user in users)


def common_domain(nest: LoopNest, group: Group) -> tuple[int, ...] | None:
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
