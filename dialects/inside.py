"""A value that holds for what is called inside of a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def inside(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Let a variable have a value inside of the block, and then again what it had before."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
