"""Buffers for arenas, constants and results: aligned, on huge pages where large, refused where they cannot fit."""

from __future__ import annotations

import ctypes
import math
import mmap
import weakref
from functools import cache
from pathlib import Path

import numpy as np

from blu.errors import OutOfMemoryError

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""
HUGE_PAGE = 2 << 20
_MAPPED_FROM = 1 << 20
_ASK_THE_SYSTEM_FROM = 64 << 20
_KEPT_BYTES = 512 << 20
DATA_FIELD = object.__basicsize__
"""Where CPython's array objects hold their data's address: the first field of numpy's PyArrayObject since 1.0."""

_kept: dict[int, list[mmap.mmap]] = {}


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element (a fifth of the time that `ndarray.ctypes.data` takes)."""
    return ctypes.c_void_p.from_address(id(array) + DATA_FIELD).value or 0


def _check_layout() -> None:
    probe = np.empty(3, np.int8)[1:]
    if address_of(probe) != probe.ctypes.data:
        raise ImportError("Blu's runtime needs CPython and numpy's usual array objects")


_check_layout()


def allocate(nbytes: int, purpose: str = "a buffer") -> np.ndarray:
    """`nbytes` bytes (uint8, contents undefined) at a multiple of 64; OutOfMemoryError where they do not fit.

    Large buffers are mapped of their own, and kept for the next request of the same size when they are dropped: giving
    fresh pages to each run's results would cost more than most kernels.
    """
    if nbytes >= _MAPPED_FROM:
        _check_fits(nbytes, purpose)
    try:
        if nbytes >= _MAPPED_FROM:
            return _map(nbytes)
        return _carve(np.empty(nbytes + ALIGNMENT, np.uint8), nbytes, ALIGNMENT)
    except (MemoryError, OSError, ValueError) as error:
        raise _out_of_memory(nbytes, purpose, "the system refused it") from error


def allocate_array(shape: tuple[int, ...], dtype: np.dtype, purpose: str = "an array") -> np.ndarray:
    """An aligned array of undefined contents."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes >= _MAPPED_FROM:
        return np.ndarray(shape, dtype, allocate(nbytes, purpose))
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)  # every result of a small program comes here
    return np.ndarray(shape, dtype, raw, -address_of(raw) % ALIGNMENT)


def _carve(raw: np.ndarray, nbytes: int, alignment: int) -> np.ndarray:
    offset = -address_of(raw) % alignment
    return raw[offset : offset + nbytes]


def _map(nbytes: int) -> np.ndarray:
    """A private mapping; the array that all views of it keep alive gives the mapping back when it dies."""
    size = nbytes + HUGE_PAGE
    kept = _kept.get(size)
    region = kept.pop() if kept else mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE") and nbytes >= HUGE_PAGE:
        _advise(region)
    root = np.frombuffer(region, np.uint8)
    weakref.finalize(root, _keep, region, size).atexit = False
    return _carve(root, nbytes, HUGE_PAGE)


def _advise(region: mmap.mmap) -> None:
    """Ask for huge pages; a kernel built without them says EINVAL, which changes nothing but speed."""
    try:
        region.madvise(mmap.MADV_HUGEPAGE)
    except OSError:
        return


def _keep(region: mmap.mmap, size: int) -> None:
    kept_bytes = sum(size * len(regions) for size, regions in list(_kept.items()))
    if kept_bytes + size <= _KEPT_BYTES:
        _kept.setdefault(size, []).append(region)


def release_kept() -> None:
    """Give the buffers that are kept for later requests back to the system."""
    _kept.clear()


def _check_fits(nbytes: int, purpose: str) -> None:
    if nbytes > machine_memory():
        raise _out_of_memory(nbytes, purpose, f"this machine has {machine_memory()} bytes")
    if nbytes < _ASK_THE_SYSTEM_FROM:
        return
    available = _available_memory()
    if nbytes > available:
        release_kept()
        available = _available_memory()
    if nbytes > available:
        raise _out_of_memory(nbytes, purpose, f"{available} bytes are free")


def _out_of_memory(nbytes: int, purpose: str, reason: str) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"cannot allocate {nbytes} bytes for {purpose}: {reason}",
        advice="use smaller shapes, a smaller batch or a narrower dtype, or drop arrays that are no longer needed",
    )


@cache
def machine_memory() -> int:
    """Bytes of memory that this process could ever have: the machine's, or its control group's limit."""
    pages = _meminfo("MemTotal")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return pages
    return min(pages, int(limit)) if limit.isdigit() else pages


def _available_memory() -> int:
    return min(machine_memory(), _meminfo("MemAvailable"))


def _meminfo(key: str) -> int:
    """Bytes of one line of /proc/meminfo; without one (not Linux) half of the address space, so nothing is refused."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1 << 62
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")]
    return sizes[0] if sizes else 1 << 62
