"""Which module is running: the path ("h.3.mlp.c_fc") that ops emitted now carry in their locations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

current_module_path: ContextVar[str] = ContextVar("current_module_path", default="")


@contextmanager
def entered(path: str) -> Iterator[None]:
    """Give everything emitted inside of the block this module path."""
    token = current_module_path.set(path)
    try:
        yield
    finally:
        current_module_path.reset(token)
