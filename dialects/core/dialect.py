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
_VARIADICITY = {False: ext.Variadicity.single, True: ext.Variadicity.optional}
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
    irdl.load_dialects(dialect._emit_module())
    for operation in dialect.operations:
        operation._attach_traits()
    if _told.get(dialect.name) != dialect.operations:
        ext._cext.globals._register_dialect_impl(dialect.DIALECT_NAMESPACE, dialect, replace=True)
        for operation in dialect.operations:
            ext._cext.register_operation(dialect, replace=True)(operation)
        _told[dialect.name] = list(dialect.operations)


@functools.cache
def operand(name: str, is_optional: bool = False) -> ext.FieldDef:
    """A field that holds a value."""
    return ext.OperandDef(name, _VARIADICITY[is_optional], Any)


@functools.cache
def result(name: str, is_optional: bool = False) -> ext.FieldDef:
    """A field that holds a result."""
    return ext.ResultDef(name, _VARIADICITY[is_optional], Any)


@functools.cache
def attribute(name: str) -> ext.FieldDef:
    """A field that holds an attribute."""
    return ext.AttributeDef(name, ext.Variadicity.single, Any)


@functools.cache
def region(name: str) -> ext.FieldDef:
    """A field that holds a body."""
    return ext.RegionDef(name, ext.Variadicity.single, Any)


def declare(title: str, dialect: type[ext.Dialect], name: str, fields: Iterable[ext.FieldDef], **more: Any) -> type:
    """The class of an op: `more` may have its `traits`, and else is what stands in the class.

    MLIR's Python makes a class from annotations, and for each field what reads and builds it: a third of a millisecond
    for an op of sixteen fields, 20 for one of a thousand. Nobody reads ops of Blu by these.
    """
    keywords = {"name": name, "fields": list(fields), "traits": more.pop("traits", [])}
    return types.new_class(title, (_base_of(dialect),), keywords, lambda space: space.update(more))


@functools.cache
def _base_of(dialect: type[ext.Dialect]) -> type:
    def declared(cls: Any, name: str, fields: list[ext.FieldDef], traits: list[type]) -> None:
        cls._fields, cls._traits, cls._op_name = fields, traits, name
        cls._generate_class_attributes(dialect.DIALECT_NAMESPACE, name, fields)
        dialect.operations.append(cls)

    return type("Declared", (dialect.Operation,), {"__init_subclass__": classmethod(declared)})


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
    values = [operand(f"value_{slot}", is_optional=True) for slot in range(CAPTURED_SLOTS)]
    return declare("Yield", BluDialect, "yield", values, traits=[Terminator], __doc__=_declare_yield.__doc__)


Yield = _declare_yield()
YIELD = "blu.yield"
