"""Named ranges in NVIDIA's profilers, with BLU_NVTX=1 and the package nvtx."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any


@cache
def _library() -> Any:
    if os.environ.get("BLU_NVTX", "0") in ("", "0"):
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
