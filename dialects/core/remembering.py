"""Ops that are verified once. Inside of `remembering`, an op like one that was right is not looked at again: passes
leave most ops as they were, layers repeat the same ones, and reading and printing a module verify it as well. What
functions find about types and attributes, which are the same objects wherever they occur, is found once there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from blu.dialects.core.mlir import ir

_known: ContextVar[set[Hashable] | None] = ContextVar("known", default=None)
# What functions have given, by function and argument.
_given: ContextVar[dict[Callable, dict[Any, Any]] | None] = ContextVar("given", default=None)
Result = TypeVar("Result")


@contextmanager
def remembering() -> Iterator[None]:
    """Inside, an op like one that was found right is not looked at again; nothing is kept beyond the outermost one."""
    token, given = _known.set(set()), _given.get()
    _given.set({} if given is None else given)
    try:
        yield
    finally:
        _known.reset(token)
        _given.set(given)


def once(function: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """A function of a type or an attribute, whose result nobody changes, that is asked once inside of `remembering`."""

    @wraps(function)
    def ask(argument: Any) -> Result:
        given = _given.get()
        if given is None:
            return function(argument)
        own = given.setdefault(function, {})
        try:
            return own[argument]
        except KeyError:
            own[argument] = result = function(argument)
            return result

    return ask


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
