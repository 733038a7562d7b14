"""The GPU of this machine."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.runtime.cuda.driver.driver import default_driver


def compute_capability() -> tuple[int, int]:
    """This process's GPU's compute capability, such as (9, 0). UnsupportedError where there is no driver or GPU."""
    return default_driver().capability


def device_name() -> str:
    """The name of this process's GPU, such as "NVIDIA H200"."""
    return default_driver().name


@dataclass(frozen=True)
class MemoryStats:
    """Bytes of the GPU's memory: of Blu's arrays and programs, now and at most so far; what Blu keeps for the next
    ones; and what is free on the GPU, and all of it."""

    used: int
    peak: int
    kept: int
    free: int
    total: int


def memory_stats() -> MemoryStats:
    """How much of the GPU's memory is used, and by whom."""
    driver = default_driver()
    with driver.exclusively():
        free, total = driver.memory()
    pool = driver.pool
    return MemoryStats(pool.used_bytes, pool.peak_bytes, pool.kept_bytes, free, total)


def synchronize() -> None:
    """Wait until the GPU has done all work of Blu's. Raises what it has found: OutOfRangeError, DeviceError."""
    driver = default_driver()
    with driver.exclusively():
        driver.finish()
