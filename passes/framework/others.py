"""Other processes that do a part of a pass, where whoever runs passes has some for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

Ask = Callable[[Sequence[bytes]], list[bytes]]
"""What the processes make of each of some modules, all as bytecode. BluError where one cannot."""
_ask: ContextVar[Ask | None] = ContextVar("others", default=None)


@contextmanager
def with_others(ask: Ask) -> Iterator[None]:
    """Inside, passes let others do what these can."""
    token = _ask.set(ask)
    try:
        yield
    finally:
        _ask.reset(token)


def others() -> Ask | None:
    """How to ask other processes, if there are any."""
    return _ask.get()
