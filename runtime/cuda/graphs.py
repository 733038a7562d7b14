"""The steps of a program as CUDA graphs: captured once, then replayed; a few are kept, by the arrays they run on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from blu.dataclass import dataclass
from blu.runtime.cuda.driver.driver import Driver
from blu.runtime.cuda.driver.launches import BoundLaunch, Graph, Step

_KEPT = 4

Key = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Kept:
    """A graph, with what its kernels take (`values`) and where ranks exchange data in it (`exchanged`)."""

    graph: Graph
    values: np.ndarray
    exchanged: bytes


class Graphs:
    """Graphs of the same steps on different arrays.

    A run whose arrays lie where a kept graph expects them replays that one. While fewer than four are kept, another one
    is captured; after that the one that was not used for longest gets the other addresses: a few microseconds for each
    kernel that they concern. What ranks exchange cannot be moved within a graph: where that lies elsewhere, another
    graph is captured in the place of that one.
    """

    def __init__(self, driver: Driver, steps: Sequence[Step], before: Callable[[], None]):
        self._driver = driver
        self._steps = steps
        self._kernels = [step for step in steps if isinstance(step, BoundLaunch)]
        self._before = before
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self.captures = 0

    def knows(self, key: Key) -> bool:
        """Whether there is a graph for arrays at these addresses."""
        return key in self._kept

    def known(self, key: Key) -> Graph | None:
        """The graph for arrays at these addresses, if there is one."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key].graph

    def made(self, key: Key, values: np.ndarray, owners: np.ndarray, exchanged: bytes) -> Graph:
        """A graph for arrays at these addresses, for which there is none. `values` are the kernels' arguments that
        depend on them, `owners` the numbers of their kernels; the steps have these arguments already. `exchanged` says
        where ranks exchange data."""
        oldest = self._kept.popitem(last=False)[1] if len(self._kept) >= _KEPT else None
        if oldest is not None and oldest.exchanged == exchanged:
            graph = self._updated(oldest, values, owners)
        else:
            graph = self._driver.capture(self._steps, self._before)
            self.captures += 1
        self._kept[key] = _Kept(graph, values.copy(), exchanged)
        return graph

    def _updated(self, kept: _Kept, values: np.ndarray, owners: np.ndarray) -> Graph:
        for index in np.unique(owners[values != kept.values]).tolist():
            kept.graph.update(index, self._kernels[index])
        return kept.graph
