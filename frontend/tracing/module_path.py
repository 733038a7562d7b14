"""Which module is running: the path ("h.3.mlp.c_fc") that ops emitted now carry in their locations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The path inside of the outermost module, which itself is "". Where no module runs, it is "" as well.
current_module_path: ContextVar[str] = ContextVar("current_module_path", default="")
is_inside_module: ContextVar[bool] = ContextVar("is_inside_module", default=False)


@contextmanager
def entered(path: str) -> Iterator[None]:
    """Give everything emitted inside of the block this module path."""
    token, inside = current_module_path.set(path), is_inside_module.set(True)
    try:
        yield
    finally:
        current_module_path.reset(token)
        is_inside_module.reset(inside)
