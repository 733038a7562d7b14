"""Attributes that ops get besides their own, such as the policy of `blu.autocast` while tracing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from blu.dialects.core.mlir import ir
from blu.dialects.inside import inside

Marks = Callable[[str], dict[str, ir.Attribute]]
_marks: ContextVar[Marks] = ContextVar("marks", default=lambda name: {})


def marks_of(name: str) -> dict[str, ir.Attribute]:
    """The attributes that an op of this name gets now."""
    return _marks.get()(name)


def marking(marks: Marks) -> AbstractContextManager[None]:
    """Give all ops emitted inside of the block the attributes that `marks` says for their names."""
    return inside(_marks, marks)
