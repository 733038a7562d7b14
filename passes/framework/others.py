"""Other processes that do a part of a pass, where whoever runs passes has some for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

from blu.dialects.inside import inside

Ask = Callable[[Sequence[bytes]], list[bytes]]
"""What the processes make of each of some modules, all as bytecode. BluError where one cannot."""
_ask: ContextVar[Ask | None] = ContextVar("others", default=None)


def with_others(ask: Ask) -> AbstractContextManager[None]:
    """Inside, passes let others do what these can."""
    return inside(_ask, ask)


def others() -> Ask | None:
    """How to ask other processes, if there are any."""
    return _ask.get()
