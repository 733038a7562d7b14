"""The registry of simplifications: `@simplifies("reshape")` on a function that gives a simpler value, or None."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.constants import decode
from blu.dialects.core.dtypes import TensorType
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, Op, attributes_of, operands_of, value_type
from blu.dialects.tensor.tensor import Tensor

# Constants of up to so many elements are computed with while compiling.
LARGEST_CONSTANT = 1024


@dataclass(frozen=True)
class Site:
    """A `blu` op of one result that a rule looks at."""

    operation: ir.Operation

    @property
    def name(self) -> str:
        return self.operation.name.removeprefix("blu.")

    @property
    def op_class(self) -> type[Op]:
        return OPS[self.name]

    @cached_property
    def operands(self) -> list[Any]:
        """By declared field: a value, a list of values, or None."""
        return operands_of(self.operation)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        return attributes_of(self.operation)

    @cached_property
    def type(self) -> TensorType:
        """The type of the result."""
        return value_type(self.operation.results[0])

    @cached_property
    def source_type(self) -> TensorType:
        """The type of the first operand."""
        return value_type(self.operands[0])


Rule = Callable[[Site], ir.Value | None]
RULES: dict[str, list[Rule]] = {}


def simplifies(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the ops of these names. Rules of one op are tried in the order they are written in."""

    def register(rule: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, []).append(rule)
        return rule

    return register


def made_by(value: ir.Value, name: str) -> Site | None:
    """The op of that name which makes the value, or None where another one does."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != f"blu.{name}" else Site(owner)


def emit(name: str, *operands: Any, **attributes: Any) -> ir.Value:
    """A new op at the insertion point: its result."""
    wrapped = [list(map(Tensor, item)) if isinstance(item, list) else Tensor(item) for item in operands]
    return OPS[name](*wrapped, **attributes).value


def broadcast(value: ir.Value, type_: TensorType) -> ir.Value:
    """The value in a larger shape; itself where it has that shape."""
    return value if value_type(value) == type_ else emit("broadcast_to", value, shape=type_.shape)


def constant_of(value: ir.Value) -> np.ndarray | None:
    """The numbers of a small constant."""
    site = made_by(value, "constant")
    return site.attributes["value"] if site is not None and site.type.size <= LARGEST_CONSTANT else None


_MOVES = ("blu.broadcast_to", "blu.reshape")


def splat_of(value: ir.Value) -> np.generic | None:
    """The number that all elements are, where that is known: a constant, seen through ops that only move elements."""
    while not isinstance(owner := value.owner, ir.Block) and owner.name in _MOVES:
        value = owner.operands[0]
    site = made_by(value, "constant")
    if site is None or not site.type.size or not ir.DenseElementsAttr(site.operation.attributes["value"]).is_splat:
        return None
    return decode(site.operation.attributes["value"]).flat[0]
