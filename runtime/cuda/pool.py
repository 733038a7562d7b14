"""Device memory that is kept when it is given back, so that a run's results cost no call of the driver.

Requests are rounded to 512 bytes and served by a kept block of that very size only: programs are static, so the same
sizes come again, and rounding further, as PyCUDA's pool does, can waste a quarter of the memory. BLU_CUDA_POOL=0 keeps
nothing (for compute-sanitizer, which then sees each array's own bounds).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from blu import settings
from blu.runtime.cuda.driver.failures import DriverError

_GRAIN = 512


class DeviceMemoryPool:
    """Blocks of one device's memory: in use and kept."""

    def __init__(self, allocate: Callable[[int], int], release: Callable[[int], None]):
        self._allocate = allocate
        self._release = release
        self._kept: dict[int, list[int]] = {}
        # Arrays may die (and give memory back) in the middle of an allocation, in the same thread.
        self._lock = threading.RLock()
        self._keeps = settings.current().cuda_pool
        self.used_bytes = 0
        self.peak_bytes = 0

    def __repr__(self) -> str:
        return f"DeviceMemoryPool({self.used_bytes} bytes in use, {self.kept_bytes} kept)"

    @property
    def kept_bytes(self) -> int:
        """Bytes that are allocated and not in use."""
        return sum(size * len(blocks) for size, blocks in self._kept.items())

    def allocate(self, nbytes: int) -> int:
        """The address of a block; DriverError where the device has no room, even after giving back what is kept."""
        size = self._rounded(nbytes)
        with self._lock:
            kept = self._kept.get(size)
            address = kept.pop() if kept else self._fresh(size)
            self.used_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.used_bytes)
            return address

    def free(self, address: int, nbytes: int) -> None:
        """Give a block of `nbytes` bytes back."""
        size = self._rounded(nbytes)
        with self._lock:
            self.used_bytes -= size
            if self._keeps:
                self._kept.setdefault(size, []).append(address)
                return
        self._release(address)

    def release_kept(self) -> None:
        """Give what is kept back to the device."""
        with self._lock:
            blocks = [address for kept in self._kept.values() for address in kept]
            self._kept.clear()
        for address in blocks:
            self._release(address)

    def _fresh(self, size: int) -> int:
        try:
            return self._allocate(size)
        except DriverError as failure:
            if failure.name != "CUDA_ERROR_OUT_OF_MEMORY" or not self._kept:
                raise
        self.release_kept()
        return self._allocate(size)

    def _rounded(self, nbytes: int) -> int:
        if not self._keeps:
            return max(nbytes, 1)
        return max(nbytes + -nbytes % _GRAIN, _GRAIN)
