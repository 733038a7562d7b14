"""Between which numbers integers lie, as far as the ops say that make them: what is inside an axis needs no check.

Sound for what wraps around: a sum that may leave its dtype is anything that the dtype holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of, operands_of, value_type

DEEPEST = 80
"""Ops that are looked through, one above the other: a search by halving has two for each of its up to 31 steps."""

Range = tuple[int, int]


def is_inside(value: ir.Value, low: int, high: int) -> bool:
    """Whether all elements of a value of integers are known to be in [low, high)."""
    found = _RangeFinder().range_of(value, 0)
    return found is not None and low <= found[0] and found[1] < high


class _RangeFinder:
    """Looks at each value once."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Range | None] = {}

    def range_of(self, value: ir.Value, depth: int) -> Range | None:
        """The least and the largest that an element may be; None of floats."""
        if value not in self._known:
            self._known[value] = self._find(value, depth)
        return self._known[value]

    def _find(self, value: ir.Value, depth: int) -> Range | None:
        whole = _range_of_dtype(value)
        if whole is None or isinstance(value.owner, ir.Block) or depth > DEEPEST:
            return whole
        rule = _RULES.get(value.owner.name)
        if rule is None:
            return whole
        found = rule(value.owner, lambda operand: self.range_of(operand, depth + 1))
        return found if found is not None and whole[0] <= found[0] and found[1] <= whole[1] else whole


def _range_of_dtype(value: ir.Value) -> Range | None:
    dtype = value_type(value).dtype
    if dtype.kind == "bool":
        return 0, 1
    if not dtype.is_integer:
        return None
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


Ask = Callable[[ir.Value], Range | None]


def _same(operation: ir.Operation, ask: Ask) -> Range | None:
    """Elements of the first operand, all or some of them."""
    return ask(operation.operands[0])


def _constant(operation: ir.Operation, ask: Ask) -> Range | None:
    value = attributes_of(operation)["value"]
    return (int(value.min()), int(value.max())) if value.size else None


def _iota(operation: ir.Operation, ask: Ask) -> Range | None:
    attributes = attributes_of(operation)
    return 0, max(0, attributes["shape"][attributes["axis"]] - 1)


def _position(operation: ir.Operation, ask: Ask) -> Range | None:
    """Where something stands along an axis of the operand: the last one, if the op names none."""
    shape, attributes = value_type(operation.operands[0]).shape, attributes_of(operation)
    return 0, max(0, shape[attributes.get("axis", len(shape) - 1)] - 1)


def _of_each(combine: Callable[[Sequence[Range]], Range]) -> Callable[[ir.Operation, Ask], Range | None]:
    """A rule by the ranges of all operands of integers: the least of the least, say."""

    def rule(operation: ir.Operation, ask: Ask) -> Range | None:
        found = [ask(operand) for operand in operation.operands]
        known = [item for item in found if item is not None]
        return combine(known) if len(known) == len(found) else None

    return rule


def _any_of(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _where(operation: ir.Operation, ask: Ask) -> Range | None:
    one, other = (ask(operand) for operand in list(operation.operands)[1:])
    return None if one is None or other is None else _any_of((one, other))


def _clip(operation: ir.Operation, ask: Ask) -> Range | None:
    x, low, high = (None if operand is None else ask(operand) for operand in operands_of(operation))
    if x is None:
        return None
    raised = x if low is None else _maximum((x, low))
    return raised if high is None else _minimum((raised, high))


def _maximum(ranges: Sequence[Range]) -> Range:
    return max(low for low, _ in ranges), max(high for _, high in ranges)


def _minimum(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), min(high for _, high in ranges)


def _add(ranges: Sequence[Range]) -> Range:
    return sum(low for low, _ in ranges), sum(high for _, high in ranges)


def _subtract(ranges: Sequence[Range]) -> Range:
    (low, high), (other_low, other_high) = ranges
    return low - other_high, high - other_low


_RULES: dict[str, Callable[[ir.Operation, Ask], Range | None]] = {
    "blu.constant": _constant,
    "blu.iota": _iota,
    **dict.fromkeys(("blu.argsort", "blu.arg_top_k", "blu.argmax", "blu.argmin"), _position),
    "blu.where": _where,
    "blu.clip": _clip,
    "blu.add": _of_each(_add),
    "blu.subtract": _of_each(_subtract),
    "blu.maximum": _of_each(_maximum),
    "blu.minimum": _of_each(_minimum),
    "blu.concatenate": _of_each(_any_of),
    **dict.fromkeys(
        ("blu.reshape", "blu.transpose", "blu.broadcast_to", "blu.slice", "blu.reverse", "blu.convert", "blu.take"),
        _same,
    ),
}
