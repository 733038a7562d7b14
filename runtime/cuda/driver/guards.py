"""What is entered around calls of the driver: the device, and what is said of a failure.

A run enters some of each: they are classes rather than generators, which take the host three times as long.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from blu.errors import BluError, UnsupportedError
from blu.runtime.cuda.driver.failures import DriverError, Named

if TYPE_CHECKING:
    from blu.runtime.cuda.driver.driver import Driver


class Exclusive:
    """The device, for the thread that enters it, which may enter again. `lost` is the error that lost the context.

    What was discarded is given back first. A driver needs no more than one of these.
    """

    __slots__ = ("_driver", "_lock", "_process", "lost")

    def __init__(self, driver: Driver):
        self._driver = driver
        self._lock = threading.RLock()
        self._process = os.getpid()
        self.lost: BluError | None = None

    def __enter__(self) -> None:
        if self._process != os.getpid():
            raise UnsupportedError(
                "a process that used a GPU was forked, and CUDA does not work in the child",
                advice="start processes with multiprocessing's method 'spawn'",
            )
        self._lock.acquire()
        try:
            if self.lost is not None:
                raise self.lost
            self._driver.make_current()
        except BaseException:
            self._lock.release()
            raise
        try:
            self._driver.release_discarded()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._driver.leave_current()
        finally:
            self._lock.release()


class Explained:
    """Raises another error in place of a DriverError: one that says what was being done."""

    __slots__ = ("_doing", "_driver", "_launch")

    def __init__(self, driver: Driver, doing: str, launch: Named | None):
        self._driver = driver
        self._doing = doing
        self._launch = launch

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, failure: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(failure, DriverError):
            raise self._driver.explanation(failure, self._doing, self._launch) from None
