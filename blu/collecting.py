"""Looking for cycles less often, while what is made stays: modules, classes, IR.

Python looks through all objects again and again while their number grows. While a first program is imported and
compiled, that is a tenth of the time, and finds nothing.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 50_000
"""So many objects more than before are made between two looks; the default is some hundreds."""
_lock = threading.Lock()
_inside: list[int] = []
"""For each block that runs, in any thread, the threshold before all of them."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Within the block, cycles are looked for after `ALLOCATIONS`. What the user has set to be rarer stays so."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    with _lock:
        first, *others = gc.get_threshold()
        _inside.append(_inside[-1] if _inside else first)
        if 0 < first < ALLOCATIONS:  # 0 is never
            gc.set_threshold(ALLOCATIONS, *others)


def _leave() -> None:
    with _lock:
        before = _inside.pop()
        first, *others = gc.get_threshold()
        if not _inside and first == ALLOCATIONS:  # else the user's program has set another in the meantime
            gc.set_threshold(before, *others)
