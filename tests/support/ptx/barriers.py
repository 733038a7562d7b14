"""Barriers, named (bar.sync, bar.arrive) and in shared memory (mbarrier), for the machine of machine.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.support.ptx.races import Races

_NAMES = 16


@dataclass
class CountingBarrier:
    """An mbarrier: a phase is over after so many `arrivals`, and once all announced bytes have come."""

    arrivals: int
    end_phase: Callable[[], None]
    phase: int = 0
    arrived: int = 0
    awaited_bytes: int = 0
    deliveries: list[Callable[[], None]] = field(default_factory=list)

    def arrive(self, announced: int = 0, count: int = 1) -> None:
        """Count arrivals, and await so many more bytes."""
        self.arrived += count
        assert self.arrived <= self.arrivals, f"{self.arrived} arrivals at a barrier of {self.arrivals}"
        self.awaited_bytes += announced
        self._end_phase()

    def count(self, size: int, deliver: Callable[[], None]) -> None:
        """Count bytes on their way, which `deliver` writes when the phase ends."""
        self.awaited_bytes -= size
        self.deliveries.append(deliver)
        self._end_phase()

    def _end_phase(self) -> None:
        if self.arrived < self.arrivals or self.awaited_bytes:
            return
        for deliver in self.deliveries:
            deliver()
        self.end_phase()
        self.phase, self.arrived, self.deliveries = self.phase + 1, 0, []


@dataclass
class NamedBarriers:
    """The barriers 0 to 15 of each block: one is passed once so many threads have come to it or only arrived."""

    races: Races
    arrived: dict[int, int] = field(default_factory=dict)

    def ready(self, keys: np.ndarray, counts: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Which of the active threads at a bar.sync, at the barrier `keys` for `counts` threads each, may go on."""
        asked, wanted = keys[active], counts[active]
        come = np.bincount(asked, minlength=max(self.arrived, default=0) + 1)
        for key, count in self.arrived.items():
            come[key] += count
        come = come[asked]
        over = come > wanted
        assert not over.any(), f"{come[over][0]} threads are at a barrier for {wanted[over][0]}"
        found = np.zeros_like(active)
        found[active] = come == wanted
        return found

    def sync(self, keys: np.ndarray, active: np.ndarray) -> None:
        """Active threads, which were found ready, go on."""
        for key in np.flatnonzero(np.bincount(keys[active])).tolist():
            here = np.flatnonzero(active & (keys == key))
            self.races.meet(here)
            if self.arrived.pop(key, 0):
                self.races.end_phase(_number(key))
                self.races.hear(here, _number(key))

    def arrive(self, keys: np.ndarray, active: np.ndarray) -> None:
        """Active threads let those at the barrier go on, and do not wait themselves."""
        for key in map(int, np.unique(keys[active])):
            here = np.flatnonzero(active & (keys == key))
            self.arrived[key] = self.arrived.get(key, 0) + len(here)
            self.races.tell(here, _number(key), for_warps=True)


def keys_of(ranks: np.ndarray, names: np.ndarray) -> np.ndarray:
    """A number for each barrier of the cluster."""
    return ranks * _NAMES + names.astype(np.int64)


def name_of(key: int) -> int:
    """The name of a barrier in its block."""
    return key % _NAMES


def _number(key: int) -> int:
    """As races know it, where numbers from 0 on are places of mbarriers."""
    return -1 - key
