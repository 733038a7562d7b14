"""Page-locked memory through which small arguments travel to the GPU while the host goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blu.runtime.memory import address_of

if TYPE_CHECKING:
    from blu.runtime.cuda.driver.driver import Driver

_HALF_BYTES = 4 << 20
_ALIGNMENT = 64


class Staging:
    """Two halves: one is filled, run after run, while the GPU still reads the other.

    What does not fit into a half is copied from where it is, which makes the host wait until it has been read.
    """

    def __init__(self, driver: Driver):
        self._driver = driver
        self._halves: list[np.ndarray] = []
        self._events: list[Any] = []
        self._half = 0
        self._used = 0
        self._start = 0  # of the current run's part

    def copy_in(self, address: int, array: np.ndarray) -> None:
        """Enqueue a copy of a contiguous array to the device; the array may change as soon as this returns."""
        if not array.nbytes:
            return
        self._open()
        if self._used + array.nbytes > _HALF_BYTES:
            self._driver.copy_in(address, address_of(array), array.nbytes)
            return
        if not self._used:
            self._driver.wait(self._events[self._half])
        place = self._halves[self._half][self._used : self._used + array.nbytes]
        place[...] = array.reshape(-1).view(np.uint8)
        self._driver.copy_in(address, address_of(place), array.nbytes)
        self._used += array.nbytes + -array.nbytes % _ALIGNMENT

    def finish(self) -> None:
        """The run's arguments are enqueued: the next run fills the other half if another like this does not fit."""
        if self._used == self._start:
            return
        self._driver.record(self._events[self._half])
        if 2 * self._used - self._start > _HALF_BYTES:
            self._half, self._used = 1 - self._half, 0
        self._start = self._used

    def _open(self) -> None:
        if not self._halves:
            self._halves = [self._driver.pinned(_HALF_BYTES) for _ in range(2)]
            self._events = [self._driver.event() for _ in range(2)]
