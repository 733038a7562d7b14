"""The registry of lowering rules: `@lowers("add")` on a function that writes one `blu` op in linalg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import DType, TensorType
from blu.dialects.core.evaluation import on_operand
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of, body_blocks_of, operands_of, value_type

LoweredBody = Callable[..., list[ir.Value]]


@dataclass(frozen=True)
class Lowering:
    """What a rule sees of the op: its operands already lowered, and the types the `blu` level knew.

    `operands` and `types` follow the declared fields (a list for variadic ones, None for absent ones); `types` keep the
    signedness that linalg's signless element types no longer show. `keeps_subnormals` says whether the machine's
    exponentials of f32 do, `moves_in_loops` whether what is put elsewhere is so by loops. `bodies` of an op with
    regions take lowered values, and write what they compute with them.
    """

    operation: ir.Operation
    operands: list[Any]
    types: list[Any]
    attributes: dict[str, Any]
    results: tuple[TensorType, ...]
    keeps_subnormals: bool = True
    moves_in_loops: bool = False
    bodies: dict[str, LoweredBody] = field(default_factory=dict)

    @property
    def result(self) -> TensorType:
        return self.results[0]


Rule = Callable[[Lowering], ir.Value | Sequence[ir.Value]]
RULES: dict[str, Rule] = {}


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the `blu` ops of these names."""

    def register(rule: Rule) -> Rule:
        for name in names:
            before = RULES.get(name, rule)
            is_again = (before.__module__, before.__qualname__) == (rule.__module__, rule.__qualname__)
            assert is_again, f"blu.{name} has two lowering rules"
            RULES[name] = rule
        return rule

    return register


def describe(
    operation: ir.Operation,
    mapped: Callable[[ir.Value], ir.Value],
    keeps_subnormals: bool,
    moves_in_loops: bool,
    lower_body: Callable[..., list[ir.Value]],
) -> Lowering:
    """Collect what a rule needs to know about an operation."""
    fields = operands_of(operation)
    return Lowering(
        operation,
        [on_operand(mapped, item) for item in fields],
        [on_operand(value_type, item) for item in fields],
        attributes_of(operation),
        tuple(map(value_type, operation.results)),
        keeps_subnormals,
        moves_in_loops,
        {name: partial(lower_body, block) for name, block in body_blocks_of(operation).items()},
    )


def element_type(dtype: DType) -> ir.Type:
    """The signless element type that stores a dtype at the linalg level."""
    return ir.IntegerType.get_signless(dtype.bits) if dtype.kind == "unsigned" else dtype.to_mlir()


def storage(type_: TensorType) -> ir.RankedTensorType:
    """The linalg-level tensor type of a `blu` tensor type."""
    return ir.RankedTensorType.get(type_.shape, element_type(type_.dtype))
