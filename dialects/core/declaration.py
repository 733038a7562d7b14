"""The declarations of a dialect's ops as IRDL, which MLIR loads a dialect from.

MLIR's Python builds them op by op, which takes longer than to compile a small program. Here they are written as text:

    irdl.dialect @plan {
      irdl.operation @each {
        %T = irdl.any
        irdl.operands(arguments: variadic %T)
        irdl.results(result: %T)
      }
    }
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from blu.dialects.core.mlir import ext, ir

_HOW_MANY = {ext.Variadicity.single: "", ext.Variadicity.optional: "optional ", ext.Variadicity.variadic: "variadic "}


def declaration(dialect: type[ext.Dialect]) -> ir.Module:
    """The declarations of all ops that a dialect has by now, in the current context."""
    return ir.Module.parse(_text(dialect.name, tuple(dialect.operations)))


@functools.lru_cache(maxsize=8)
def _text(name: str, operations: tuple[Any, ...]) -> str:
    lines = [line for operation in operations for line in _operation(operation)]
    return "\n".join([f"irdl.dialect @{name} {{", *lines, "}"])


def _operation(operation: Any) -> Iterator[str]:
    operands, attributes, results, regions = ext.partition_fields(operation._fields)
    yield f"irdl.operation @{operation._op_name} {{"
    yield from {f"{_constraint(item)} = irdl.any": None for item in (*operands, *attributes, *results)}
    yield from (f"%{item.name} = irdl.region" for item in regions)
    yield from _group("operands(%s)", map(_value, operands))
    yield from _group("attributes {%s}", (f'"{item.name}" = {_constraint(item)}' for item in attributes))
    yield from _group("results(%s)", map(_value, results))
    yield from _group("regions(%s)", (f"{item.name}: %{item.name}" for item in regions))
    yield "}"


def _group(form: str, items: Iterable[str]) -> Iterator[str]:
    if text := ", ".join(items):
        yield "irdl." + form % text


def _value(item: Any) -> str:
    """An operand or a result: its name, how many of it there are, and what it has to be."""
    return f"{item.name}: {_HOW_MANY[item.variadicity]}{_constraint(item)}"


def _constraint(item: Any) -> str:
    """Fields with the same TypeVar have the same type. Whatever else an op demands, its verifier looks after."""
    if item.constraint is Any:
        return f"%{item.name}"
    assert isinstance(item.constraint, TypeVar), f"{item.name}: its verifier says of what kind a field is"
    return f"%{item.constraint.__name__}"
