"""Python's recursion limit while a user's function is traced: deep models call deeper than scripts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Frames. Calls through C (`module(x)`, `a + b`) take up to 0.6 KB of the stack, which usually has 8 MB.
DEPTH = 8_000

_lock = threading.Lock()
_inside = 0
_before = 0


@contextmanager
def room_to_recurse() -> Iterator[None]:
    """Let Python functions call each other DEPTH deep inside of the block; the limit is one for all threads."""
    global _inside, _before
    with _lock:
        if not _inside:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, DEPTH))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                sys.setrecursionlimit(_before)
