"""Which module is running: the path ("h.3.mlp.c_fc") that ops emitted now carry in their locations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from blu.dialects.inside import inside

# The path inside of the outermost module, which itself is "". Where no module runs, it is "" as well.
current_module_path: ContextVar[str] = ContextVar("current_module_path", default="")
is_inside_module: ContextVar[bool] = ContextVar("is_inside_module", default=False)


@contextmanager
def entered(path: str) -> Iterator[None]:
    """Give everything emitted inside of the block this module path."""
    with inside(current_module_path, path), inside(is_inside_module, True):
        yield
