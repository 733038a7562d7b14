"""The `blu` dialect itself, and the op that ends the bodies of its ops."""

# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportAttributeAccessIssue=false
# (MLIR's classes take keyword arguments when they are derived from, which an untyped module does not say.)
from __future__ import annotations

import types
from typing import Any

from blu.dialects.core.declaration import declaration
from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.mlir import ext, ir, irdl

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
