"""Ops that are verified once. Inside of `remembering`, an op like one that was right is not looked at again: passes
leave most ops as they were, layers repeat the same ones, and reading and printing a module verify it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from blu.dialects.core.mlir import ir

_known: ContextVar[set[Hashable] | None] = ContextVar("known", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Inside, an op like one that was found right is not looked at again."""
    token = _known.set(set())
    try:
        yield
    finally:
        _known.reset(token)


def remembered(verify: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A verifier, from operation to whether it is right, that asks `verify` only for what it has not seen yet.

    What `verify` says must depend on nothing but the op's name, attributes, and the types of operands and results.
    """

    def check(operation: Any) -> bool:
        known = _known.get()
        if known is None:
            return verify(operation)
        key = _key(operation.operation)
        if key in known:
            return True
        is_right = verify(operation)
        if is_right:
            known.add(key)
        return is_right

    return check


def _key(operation: ir.Operation) -> Hashable:
    found = operation.attributes
    attributes = tuple((name, found[name]) for name in found)
    operands = tuple(value.type for value in operation.operands)
    return operation.name, attributes, operands, tuple(value.type for value in operation.results)
