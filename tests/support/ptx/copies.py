"""Asynchronous copies of threads (cp.async), for the machine of machine.py: they arrive when waited for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.support.ptx.races import Races


@dataclass(frozen=True)
class _Copy:
    """Pieces of bytes that go to shared memory from the places `first` on, by whom, and in which of the thread's
    groups."""

    first: np.ndarray
    data: np.ndarray
    threads: np.ndarray
    groups: np.ndarray

    def of(self, chosen: np.ndarray) -> _Copy:
        """Some of them."""
        return _Copy(self.first[chosen], self.data[chosen], self.threads[chosen], self.groups[chosen])


@dataclass
class Copies:
    """Copies under way to the `shared` memory of a cluster. Each thread puts its own in groups, and waits for these."""

    shared: np.ndarray
    races: Races
    threads: int
    under_way: list[_Copy] = field(default_factory=list)

    def __post_init__(self):
        self._group = np.zeros(self.threads, np.int64)

    def begin(self, first: np.ndarray, data: np.ndarray, threads: np.ndarray) -> None:
        """Begin to copy pieces [copies] for threads [copies]. Until they wait, there is NaN."""
        size = data.dtype.itemsize
        self.races.begin_copy(self.races.places(first, size), threads)
        self.shared.view(data.dtype)[first // size] = np.full(size, 0xFF, np.uint8).view(data.dtype)
        self.under_way.append(_Copy(first, data, threads, self._group[threads]))

    def commit(self, active: np.ndarray) -> None:
        """What active threads begin from now on is another group."""
        self._group[active] += 1

    def wait(self, active: np.ndarray, kept: int | None) -> None:
        """Let the copies of active threads arrive, but for the last `kept` groups committed; None: really all."""
        before, self.under_way = self.under_way, []
        for copy in before:
            is_over = active[copy.threads]
            if kept is not None:
                is_over &= copy.groups < self._group[copy.threads] - kept
            if is_over.any():
                arrived = copy.of(is_over)
                size = arrived.data.dtype.itemsize
                self.shared.view(arrived.data.dtype)[arrived.first // size] = arrived.data
                self.races.end_copy(self.races.places(arrived.first, size), arrived.threads)
            if not is_over.all():
                self.under_way.append(copy.of(~is_over))
