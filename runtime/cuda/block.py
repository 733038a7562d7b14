"""Device memory of Blu's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blu.runtime.cuda.driver.driver import Driver


class DeviceBlock:
    """Device memory of Blu's own; it goes back to the driver's pool when nothing refers to it any more."""

    __slots__ = ("_driver", "address", "nbytes")

    def __init__(self, driver: Driver, nbytes: int, purpose: str):
        self._driver = driver
        self.nbytes = nbytes
        self.address = driver.allocate(nbytes, purpose)

    def __del__(self) -> None:
        # An allocation that failed has no address.
        if hasattr(self, "address"):
            self._driver.free(self.address, self.nbytes)

    def __repr__(self) -> str:
        return f"Block({self.nbytes} bytes at {self.address:#x})"
