"""Named ranges in NVIDIA's profilers, with BLU_NVTX=1 and the package nvtx."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from blu import settings


@cache
def _library() -> Any:
    if not settings.current().nvtx:
        return None
    try:
        import nvtx  # type: ignore[import-not-found]
    except ImportError:
        return None
    return nvtx


def named_range(name: str) -> AbstractContextManager[Any]:
    """What the host does inside carries this name in a profile."""
    library = _library()
    return nullcontext() if library is None else library.annotate(name, domain="blu")


def are_shown() -> bool:
    """Whether ranges are recorded."""
    return _library() is not None
