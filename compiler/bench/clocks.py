"""How long calls take: on the host by its clock, on a GPU by CUDA events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

Call = Callable[[int], Any]


class Clock(Protocol):
    """Measures calls that are given their number."""

    def microseconds(self, call: Call, count: int) -> float:
        """The time of one of `count` calls in a row."""
        ...

    def count_for(self, call: Call) -> int:
        """How many calls in a row take long enough to be measured."""
        ...


class HostClock:
    """For calls that return when they are done."""

    ENOUGH, MOST = 20_000.0, 1000

    def microseconds(self, call: Call, count: int) -> float:
        time.sleep(0.005)  # PyTorch's threads spin for a while after a call
        call(0)
        start = time.perf_counter()
        for number in range(count):
            call(number)
        return 1e6 * (time.perf_counter() - start) / count

    def count_for(self, call: Call) -> int:
        return _count(self.microseconds(call, 1), self.ENOUGH, self.MOST)


class CudaClock:
    """For calls that put work on the current GPU's stream."""

    ENOUGH, MOST = 3_000.0, 40

    def __init__(self, torch: Any, wait_clocks: int = 6_000_000, uncounted: int = 0):
        """The GPU is busy for `wait_clocks` before, so that the host is ahead of it. So many calls before the first are
        not counted: they find in the GPU's cache what others have written, and must write that to memory."""
        self._torch, self._wait_clocks, self._uncounted = torch, wait_clocks, uncounted

    def microseconds(self, call: Call, count: int) -> float:
        torch = self._torch
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(self._wait_clocks)
        for number in range(self._uncounted):
            call(number)
        start.record()
        for number in range(count):
            call(number)
        end.record()
        torch.cuda.synchronize()
        return 1e3 * start.elapsed_time(end) / count

    def count_for(self, call: Call) -> int:
        return _count(self.microseconds(call, 2), self.ENOUGH, self.MOST)


def _count(microseconds: float, enough: float, most: int) -> int:
    return max(1, min(most, math.ceil(enough / max(microseconds, 1e-3))))
