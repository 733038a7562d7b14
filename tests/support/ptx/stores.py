"""Bulk copies of tiles from shared to global memory, for the machine of machine.py.

They read shared memory as late as they may: when their thread waits for them. Until then nobody may write there. What
threads wrote to shared memory is not seen by them before a `fence.proxy.async` of these threads.

Source: PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.wait_group", "Async proxy".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.support.ptx.program import PIECE_BYTES
from tests.support.ptx.races import Races


@dataclass(frozen=True)
class _Store:
    """Pieces of shared memory from the places `first` on that a thread sends away, in which of its groups."""

    first: np.ndarray
    send: Callable[[np.ndarray], None]
    thread: int
    group: int
    over: Callable[[], None] | None = None


@dataclass
class Stores:
    """Copies under way from the `shared` memory of a cluster."""

    shared: np.ndarray
    races: Races
    threads: int
    under_way: list[_Store] = field(default_factory=list)
    read: list[_Store] = field(default_factory=list)

    def __post_init__(self):
        self._group = np.zeros(self.threads, np.int64)

    def begin(
        self, first: np.ndarray, send: Callable[[np.ndarray], None], thread: int, over: Callable[[], None] | None = None
    ) -> None:
        """Begin to copy pieces from the places `first` [pieces] on; `send` gets their bytes [pieces, 16].

        `over` is called once their thread has waited for more than that.
        """
        self.races.begin_store(self.races.places(first, PIECE_BYTES), thread)
        self.under_way.append(_Store(first, send, thread, int(self._group[thread]), over))

    def commit(self, active: np.ndarray) -> None:
        """What active threads begin from now on is another group."""
        self._group[active] += 1

    def wait(self, active: np.ndarray, kept: int, is_over: bool = False) -> None:
        """Let the copies of active threads go, but for the last `kept` groups committed; others see these, if that is
        asked for."""
        before, self.under_way = self.under_way, []
        for store in before:
            if active[store.thread] and store.group < self._group[store.thread] - kept:
                store.send(self.shared.reshape(-1, PIECE_BYTES).take(store.first // PIECE_BYTES, 0))
                self.races.end_store(self.races.places(store.first, PIECE_BYTES))
                self.read.append(store)
            else:
                self.under_way.append(store)
        if is_over:
            ended = [item for item in self.read if active[item.thread] and item.group < self._group[item.thread] - kept]
            for store in ended:
                self.read.remove(store)
                if store.over:
                    store.over()
