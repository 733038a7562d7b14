"""How dialects that Python declares are loaded, the `blu` dialect itself, and the op that ends the bodies of its ops.

MLIR loads them from IRDL. Its Python builds that op by op, from classes with accessors that nobody asks for, which
takes longer than to compile a small program: here it is written as text.

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
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from blu.dataclass import dataclass, field
from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.mlir import ir, load_declared, register_views
from blu.errors import ArgumentError

OPERAND, ATTRIBUTE, RESULT, REGION = "operand", "attribute", "result", "region"
ONE, OPTIONAL, VARIADIC = "", "optional ", "variadic "


@dataclass(frozen=True)
class Slot:
    """A field of an op as MLIR knows it. How many values an operand or result holds is ONE, OPTIONAL or VARIADIC;
    those of one `constraint` are of one type. Whatever else an op demands, its verifier looks after.
    """

    kind: str
    name: str
    how_many: str = ONE
    constraint: str = ""

    @property
    def variable(self) -> str:
        """What stands for its type in a declaration."""
        return f"%{self.constraint or self.name}"


@dataclass(eq=False)
class Declared:
    """An op of a dialect. It is verified by `verify_invariants`, which MLIR asks for by that name."""

    dialect: str
    name: str
    slots: tuple[Slot, ...]
    traits: tuple[type, ...] = ()
    verify_invariants: Callable[[Any], bool] | None = None

    def attach(self) -> None:
        """Give the op its traits in the current context."""
        name = f"{self.dialect}.{self.name}"
        for trait in self.traits:
            trait.attach(name)  # type: ignore[attr-defined]
        if self.verify_invariants:
            ir.DynamicOpTrait.attach(name, self)


@dataclass(eq=False)
class PythonDialect:
    """A dialect, and the ops that were declared by now."""

    name: str
    operations: list[Declared] = field(default_factory=list)
    _registered: set[Declared] = field(default_factory=set)

    def declare(self, name: str, *slots: Slot, **more: Any) -> Declared:
        """Declare an op; `more` are its `traits` and what verifies it."""
        self.operations.append(Declared(self.name, name, slots, **more))
        return self.operations[-1]

    def declaration(self) -> ir.Module:
        """The declarations of all ops, in the current context."""
        return ir.Module.parse(_text(self.name, tuple(self.operations)))

    def load(self) -> None:
        """Load it into the current context."""
        if ir.Context.current.is_dialect_loaded(self.name):
            return
        load_declared(self.declaration())
        for operation in self.operations:
            operation.attach()

    def register_views(self) -> None:
        """Let the collector know views of its ops that are made from here on (passes/framework/handles.py)."""
        new = [operation for operation in self.operations if operation not in self._registered]
        register_views(self.name, [operation.name for operation in new])
        self._registered.update(new)


BluDialect = PythonDialect("blu")
"""Deep learning on tensors: the mathematics of a model, before any decision on how to compute it."""


@functools.cache
def operand(name: str, how_many: str = ONE) -> Slot:
    """A field that holds a value, or none, or any number."""
    return Slot(OPERAND, name, how_many)


@functools.cache
def result(name: str, how_many: str = ONE) -> Slot:
    """A field that holds a result."""
    return Slot(RESULT, name, how_many)


@functools.cache
def attribute(name: str) -> Slot:
    """A field that holds an attribute."""
    return Slot(ATTRIBUTE, name)


@functools.cache
def region(name: str) -> Slot:
    """A field that holds a body."""
    return Slot(REGION, name)


def take_back(before: Any, after: type, name: str) -> None:
    """Forget an op that is declared again by what declared it: a cell of a notebook that is run another time."""
    if before is None:
        return
    places = [f"{cls.__module__}.{cls.__qualname__}" for cls in (before, after)]
    if places[0] != places[1]:
        advice = "Give it another name: programs know ops by it."
        raise ArgumentError(f"op {name} of {places[1]} is declared by {places[0]} already", advice=advice)
    BluDialect.operations.remove(before.declared)


@functools.lru_cache(maxsize=8)
def _text(name: str, operations: tuple[Declared, ...]) -> str:
    lines = [line for operation in operations for line in _operation(operation)]
    return "\n".join([f"irdl.dialect @{name} {{", *lines, "}"])


def _operation(operation: Declared) -> Iterator[str]:
    by_kind: dict[str, list[Slot]] = {OPERAND: [], ATTRIBUTE: [], RESULT: [], REGION: []}
    for slot in operation.slots:
        by_kind[slot.kind].append(slot)
    operands, attributes, results, regions = by_kind.values()
    yield f"irdl.operation @{operation.name} {{"
    yield from {f"{slot.variable} = irdl.any": None for slot in (*operands, *attributes, *results)}
    yield from (f"%{slot.name} = irdl.region" for slot in regions)
    yield from _group("operands(%s)", map(_value, operands))
    yield from _group("attributes {%s}", (f'"{slot.name}" = {slot.variable}' for slot in attributes))
    yield from _group("results(%s)", map(_value, results))
    yield from _group("regions(%s)", (f"{slot.name}: %{slot.name}" for slot in regions))
    yield "}"


def _group(form: str, items: Iterable[str]) -> Iterator[str]:
    if text := ", ".join(items):
        yield "irdl." + form % text


def _value(slot: Slot) -> str:
    """An operand or a result: its name, how many of it there are, and what it has to be."""
    return f"{slot.name}: {slot.how_many}{slot.variable}"


class Pure:
    """The trait of an op that only computes its results: it may be merged, dropped, done ahead, or done again."""

    class NoEffects(ir.MemoryEffectsOpInterface):
        """It does nothing to memory."""

        @staticmethod
        def get_effects(operation: Any, effects: Any) -> None:
            """Add nothing."""

    class Speculatable(ir.ConditionallySpeculatable):
        """It may be done where it would not have been."""

        @staticmethod
        def get_speculatability(operation: Any) -> Any:
            """Always."""
            return ir.Speculatability.Speculatable

    @staticmethod
    def attach(op_name: str) -> None:
        """Give it to an op of the current context."""
        Pure.NoEffects.attach(op_name)
        Pure.Speculatable.attach(op_name)


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


# It ends a body with what that gives. The op around it verifies how many there are, of which types.
BluDialect.declare(
    "yield", *(operand(f"value_{slot}", OPTIONAL) for slot in range(CAPTURED_SLOTS)), traits=(Terminator,)
)
YIELD = "blu.yield"
