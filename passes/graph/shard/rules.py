"""What a rule of `blu-shard` is: how one op is done by ranks that have parts of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blu.dataclass import dataclass
from blu.dialects.core.fields import on_operand
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import Op, emit
from blu.dialects.sharding import Sharding, Splits
from blu.dialects.tensor.tensor import Tensor
from blu.passes.graph.shard.placed import Movement, Placed


@dataclass
class Case:
    """One op: its operands as they are placed, lists of them for variadic fields, None for absent ones.

    A rule asks for operands in shardings (`bring`), then emits the op on what the rank has (`emit`).
    """

    operation: ir.Operation
    cls: type[Op]
    operands: list[Any]
    attributes: dict[str, Any]
    movement: Movement
    wish: Sharding | None = None
    """How the result is going to be needed, where that is known."""
    companion: Sharding | None = None
    """How others of its shape are split that elementwise ops bring it together with, where some are."""

    @property
    def present(self) -> list[Placed]:
        """All operands that are there, in one list."""
        return present_in(self.operands)

    @property
    def types(self) -> list[Any]:
        """The types of the whole operands, as `infer` takes them."""
        return [on_operand(lambda value: value.type, item) for item in self.operands]

    def bring(self, wanted: Callable[[Placed, int], Sharding]) -> None:
        """Bring each operand, given with its number among those present, to a sharding."""
        numbers = iter(range(len(self.present)))

        def moved(value: Placed) -> Placed:
            return self.movement.to(value, wanted(value, next(numbers)))

        self.operands = [on_operand(moved, item) for item in self.operands]

    def bring_one(self, number: int, wanted: Sharding) -> None:
        """Bring the operand of one field to a sharding."""
        self.operands[number] = self.movement.to(self.operands[number], wanted)

    def sum_up(self) -> None:
        """Let no operand be a sum of which ranks have terms."""
        self.bring(lambda value, _: value.sharding.with_partial(()))

    def emit(self, shardings: Sequence[Sharding], **changed: Any) -> list[Placed]:
        """Emit the op on what this rank has; its results are in these shardings."""
        local = [on_operand(lambda value: value.tensor, item) for item in self.operands]
        return self.placed(emit(self.cls, local, {**self.attributes, **changed}), shardings)

    def placed(self, results: Sequence[Tensor], shardings: Sequence[Sharding]) -> list[Placed]:
        """What this rank has of the op's results, by whatever it was made."""
        types = self.cls.infer_all(self.types, self.attributes)
        return [Placed(*item) for item in zip(results, shardings, types, strict=True)]

    def ranks(self, axis: str) -> int:
        """The size of an axis."""
        return self.movement.mesh.ranks(axis)


Rule = Callable[[Case], list[Placed]]
RULES: dict[str, Rule] = {}


def shards(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of ops, by their names."""

    def register(rule: Rule) -> Rule:
        for name in names:
            assert name not in RULES, f"two rules shard {name}"
            RULES[name] = rule
        return rule

    return register


def rule_of(cls: type[Op]) -> Rule:
    """The rule of an op, or of the nearest of its base classes that has one; else all ranks do all of it."""
    for base in cls.__mro__:
        rule = RULES.get(getattr(base, "name", "")) if base is cls else RULES.get(base.__name__)
        if rule is not None:
            return rule
    return everywhere


def everywhere(case: Case) -> list[Placed]:
    """Every rank does the whole op, on whole operands: right for any op, and no faster than on one rank."""
    case.bring(lambda value, _: Sharding.whole(value.type.ndim))
    types = case.cls.infer_all(case.types, case.attributes)
    return case.emit([Sharding.whole(type_.ndim) for type_ in types])


def agreed(candidates: Sequence[Splits], taken: set[str]) -> Splits:
    """The splits of a dimension that several operands have: those of the first that has any, of axes not taken."""
    for splits in candidates:
        if splits and not {split.axis for split in splits} & taken:
            taken.update(split.axis for split in splits)
            return splits
    return ()


def present_in(operands: Sequence[Any]) -> list[Any]:
    """All that is there of operands by field, in one list: lists for variadic fields, None for absent ones."""
    found: list[Any] = []
    for item in operands:
        found += item if isinstance(item, list) else [item] if item is not None else []
    return found
