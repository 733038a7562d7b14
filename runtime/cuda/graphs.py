"""The launches of a program as CUDA graphs: captured once, then replayed; a few are kept, by the arrays they run on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from blu.runtime.cuda.driver.driver import BoundLaunch, Driver, Graph

_KEPT = 4

Key = tuple[int, ...]


class Graphs:
    """Graphs of the same launches on different arrays.

    A run whose arrays lie where a kept graph expects them replays that one. While fewer than four are kept, another one
    is captured; after that the one that was not used for longest gets the other addresses: a few microseconds for each
    kernel that they concern.
    """

    def __init__(self, driver: Driver, kernels: Sequence[BoundLaunch], before: Callable[[], None]):
        self._driver = driver
        self._kernels = kernels
        self._before = before
        self._kept: OrderedDict[Key, tuple[Graph, np.ndarray]] = OrderedDict()
        self.captures = 0

    def knows(self, key: Key) -> bool:
        """Whether there is a graph for arrays at these addresses."""
        return key in self._kept

    def known(self, key: Key) -> Graph | None:
        """The graph for arrays at these addresses, if there is one."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def made(self, key: Key, values: np.ndarray, owners: np.ndarray) -> Graph:
        """A graph for arrays at these addresses, for which there is none. `values` are the kernels' arguments that
        depend on them, `owners` the numbers of their kernels; the kernels have these arguments already."""
        if len(self._kept) < _KEPT:
            graph = self._driver.capture(self._kernels, self._before)
            self.captures += 1
        else:
            _, (graph, before) = self._kept.popitem(last=False)
            for index in np.unique(owners[values != before]).tolist():
                graph.update(index, self._kernels[index])
        self._kept[key] = (graph, values.copy())
        return graph
