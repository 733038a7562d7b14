"""Locks on files, which end with the process that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def holding_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a file, which is made where there is none.

    Raises TimeoutError when another process has it for `seconds`, and OSError on file systems without locks.
    """
    from filelock import FileLock, Timeout  # 8 ms: what is compiled already needs no lock

    lock = FileLock(path)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise TimeoutError(f"{path}: another process has its lock") from None
    except NotImplementedError as error:
        raise OSError(f"{path}: {error}") from error
    try:
        yield
    finally:
        lock.release()
