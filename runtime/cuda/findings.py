"""What the checks of runs have found: the host reads it when the GPU is done with a run, and does not wait before.

A run that checks indices or divisors leaves its status slots in page-locked memory, with an event behind the copy.
Whoever next uses the GPU after that event is told: a later run, or the first to read an array.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blu.dataclass import dataclass
from blu.plan.schema import NOTHING_FOUND, Check, Plan
from blu.runtime.cuda.block import DeviceBlock
from blu.runtime.cuda.hand_over import HandOver
from blu.runtime.memory import address_of
from blu.runtime.runnable import report

if TYPE_CHECKING:
    from blu.runtime.cuda.driver.driver import Driver
    from blu.runtime.cuda.driver.launches import BoundLaunch

MOST_UNREAD = 8
"""Runs with checks that the host may be ahead of the GPU."""


@dataclass(frozen=True, eq=False)
class CheckedRun:
    """A run whose checks are not read yet. `found` is what they have found once the GPU has reached `event`."""

    name: str
    checks: Sequence[Check]
    found: np.ndarray
    event: Any

    def report(self) -> None:
        """Raise OutOfRangeError, or warn."""
        for check, value in zip(self.checks, self.found.tolist(), strict=False):
            if value != NOTHING_FOUND:
                report(check, value, self.name)


class Findings:
    """The runs of all programs whose checks are not read yet, oldest first."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._unread: deque[CheckedRun] = deque()

    def __len__(self) -> int:
        return len(self._unread)

    def add(self, run: CheckedRun) -> None:
        """Remember a run that was enqueued."""
        self._unread.append(run)

    def read(self, keep: int = MOST_UNREAD) -> None:
        """Report what finished runs have found, and wait for others until at most `keep` are unread.

        Each run is reported once; where one raises, those after it stay for the next time.
        """
        while self._unread:
            run = self._unread[0]
            with self._driver.explained("read what checks have found"):
                if len(self._unread) > keep:
                    self._driver.wait(run.event)
                elif not self._driver.is_reached(run.event):
                    return
            self._unread.popleft().report()


class Checks:
    """The status slots of a program, and what its runs leave in them."""

    def __init__(self, driver: Driver, plan: Plan):
        self._driver, self._plan = driver, plan
        nbytes = 8 * plan.status_slots
        self._status = DeviceBlock(driver, nbytes, "the status block")
        # Slots for one run more than may be unread, the last for those that are none.
        slots = driver.pinned(max(nbytes, 8) * (MOST_UNREAD + 1)).view(np.int64)
        slots.fill(NOTHING_FOUND)
        self._slots = slots.reshape(MOST_UNREAD + 1, -1)
        self._events = [driver.event(is_timed=False) for _ in range(MOST_UNREAD + 1)] if plan.checks else []
        self._runs = 0
        self._clean = DeviceBlock(driver, nbytes, "the status block")
        if nbytes:
            driver.copy_in(self._clean.address, address_of(slots), nbytes)
        self._hand_over = HandOver.of(driver, self._status, self._slots) if plan.checks else None
        self.forget()

    @property
    def steps(self) -> list[BoundLaunch]:
        """What comes behind the program's kernels."""
        return [self._hand_over.launch] if self._hand_over else []

    @property
    def address(self) -> int:
        """Where kernels find the first slot."""
        return self._status.address

    def clear(self) -> None:
        """Enqueue what forgets the run before, where it is not handed over."""
        if self._hand_over is None:
            self.forget()

    def forget(self) -> None:
        """Enqueue what forgets all that kernels have found."""
        if self._plan.checks:
            self._driver.copy(self._status.address, self._clean.address, self._status.nbytes)

    def collect(self) -> None:
        """Enqueue the reading of what a run has found, of which all steps are enqueued."""
        self._runs += 1
        if not self._plan.checks:
            return
        place = self._runs % len(self._events)
        found, event = self._slots[place], self._events[place]
        if self._hand_over is None:
            self._driver.copy_out(address_of(found), self._status.address, self._status.nbytes)
        self._driver.record(event)
        name = f"run {self._runs} of {self._plan.entry}"
        self._driver.findings.add(CheckedRun(name, self._plan.checks, found, event))
