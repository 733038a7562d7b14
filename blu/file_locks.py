"""Locks on files, which end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.05


@contextmanager
def holding_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a file, which is made where there is none.

    Raises TimeoutError when another process has it for `seconds`, and OSError on file systems without locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        _lock(descriptor, path, time.monotonic() + seconds)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{path}: another process has its lock") from None
            time.sleep(_POLL_SECONDS)
