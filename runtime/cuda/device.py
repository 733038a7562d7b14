"""The GPU of this machine."""

from __future__ import annotations

from blu.runtime.cuda.driver import default_driver


def compute_capability() -> tuple[int, int]:
    """The first GPU's compute capability, such as (9, 0). UnsupportedError where there is no driver or GPU."""
    return default_driver().capability


def synchronize() -> None:
    """Wait until the GPU has done all work of Blu's. Raises what it has found: OutOfRangeError, DeviceError."""
    driver = default_driver()
    with driver.exclusively():
        driver.finish()
