"""Bulk copies of tiles from shared to global memory, for the machine of machine.py.

They read shared memory as late as they may: when their thread waits for them. Until then nobody may write there. What
threads wrote to shared memory is not seen by them before a `fence.proxy.async` of these threads.

Source: PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.wait_group", "Async proxy".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.support.ptx.races import Races


@dataclass(frozen=True)
class _Store:
    """Bytes at places [pieces, 16] of shared memory that a thread sends away, in which of its groups."""

    places: np.ndarray
    send: Callable[[np.ndarray], None]
    thread: int
    group: int


@dataclass
class Stores:
    """Copies under way from the `shared` memory of a cluster."""

    shared: np.ndarray
    races: Races
    threads: int
    under_way: list[_Store] = field(default_factory=list)

    def __post_init__(self):
        self._group = np.zeros(self.threads, np.int64)

    def begin(self, places: np.ndarray, send: Callable[[np.ndarray], None], thread: int) -> None:
        """Begin to copy from places [pieces, 16]; `send` gets their bytes."""
        self.races.begin_store(places, thread)
        self.under_way.append(_Store(places, send, thread, int(self._group[thread])))

    def commit(self, active: np.ndarray) -> None:
        """What active threads begin from now on is another group."""
        self._group[active] += 1

    def wait(self, active: np.ndarray, kept: int) -> None:
        """Let the copies of active threads go, but for the last `kept` groups committed."""
        before, self.under_way = self.under_way, []
        for store in before:
            if active[store.thread] and store.group < self._group[store.thread] - kept:
                store.send(self.shared[store.places])
                self.races.end_store(store.places)
            else:
                self.under_way.append(store)
