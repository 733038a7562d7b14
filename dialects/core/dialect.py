"""How dialects that Python declares are loaded, the `blu` dialect itself, and the op that ends the bodies of its ops.

MLIR loads them from IRDL. Its Python builds that op by op, which takes longer than to compile a small program: here it
is written as text.

    irdl.dialect @plan {
      irdl.operation @each {
        %T = irdl.any
        irdl.operands(arguments: variadic %T)
        irdl.results(result: %T)
      }
    }
"""

# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportAttributeAccessIssue=false
# (MLIR's classes take keyword arguments when they are derived from, which an untyped module does not say.)
from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.mlir import ext, ir, irdl
from blu.errors import ArgumentError

_HOW_MANY = {ext.Variadicity.single: "", ext.Variadicity.optional: "optional ", ext.Variadicity.variadic: "variadic "}
_told: dict[str, list[type]] = {}
"""The ops of each dialect that MLIR's Python knows."""


class BluDialect(ext.Dialect, name="blu"):
    """Deep learning on tensors: the mathematics of a model, before any decision on how to compute it."""

    @classmethod
    def _emit_module(cls) -> ir.Module:
        """The declarations as IR."""
        return declaration(cls)


def load_dialect(dialect: type[ext.Dialect]) -> None:
    """Load it into the current context. MLIR's Python is told of the classes once, and keeps no context for them."""
    if ir.Context.current.is_dialect_loaded(dialect.name):
        return
    if _told.get(dialect.name) != dialect.operations:
        dialect.load()
        dialect._mlir_module = None
        _told[dialect.name] = list(dialect.operations)
        return
    irdl.load_dialects(dialect._emit_module())
    for operation in dialect.operations:
        operation._attach_traits()


def take_back(before: Any, after: type, name: str) -> None:
    """Forget an op that is declared again by what declared it: a cell of a notebook that is run another time."""
    if before is None:
        return
    places = [f"{cls.__module__}.{cls.__qualname__}" for cls in (before, after)]
    if places[0] != places[1]:
        advice = "Give it another name: programs know ops by it."
        raise ArgumentError(f"op {name} of {places[1]} is declared by {places[0]} already", advice=advice)
    BluDialect.operations.remove(before.ext_class)


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


class Terminator:
    """The trait of an op that ends a block."""

    @staticmethod
    def attach(op_name: str) -> None:
        """Give it to an op of the current context."""
        ir.IsTerminatorTrait.attach(op_name)


class Closed:
    """The trait of an op in whose bodies no value from above is used: bodies are functions of their arguments."""

    @staticmethod
    def attach(op_name: str) -> None:
        """Give it to an op of the current context."""
        ir.IsIsolatedFromAboveTrait.attach(op_name)


def _declare_yield() -> type:
    """`blu.yield` ends a body with what that gives. The op around it verifies how many there are, of which types."""
    values = {f"value_{slot}": ir.Value[Any] | None for slot in range(CAPTURED_SLOTS)}
    body = {"__annotations__": values, "__doc__": _declare_yield.__doc__}
    keywords = {"name": "yield", "traits": [Terminator]}
    return types.new_class("Yield", (BluDialect.Operation,), keywords, lambda space: space.update(body))


Yield = _declare_yield()
YIELD = "blu.yield"
