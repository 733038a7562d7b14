"""A clock by which others are blamed: it stands still while this process, or the whole machine, does."""

from __future__ import annotations

import time
from collections.abc import Callable


class RunningClock:
    """Seconds that this process has been running, as a thread that looks at it every `interval` seconds can tell.

    Where the thread comes much later, the process was stopped, or had no processor: it could hear nobody meanwhile, and
    did nothing that others wait for. Of such a pause no more than two intervals count. Any thread may ask for `now`.
    """

    def __init__(self, interval: float, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._most = 2 * interval
        self._looked = clock(), 0.0

    def now(self) -> float:
        """The seconds until now, of a pause only the part that counts."""
        at, seconds = self._looked
        return seconds + min(self._clock() - at, self._most)

    def look(self) -> float:
        """The seconds until now, which is noted: what comes from now on counts anew."""
        at, seconds = self._looked
        now = self._clock()
        self._looked = now, seconds + min(now - at, self._most)
        return self._looked[1]
