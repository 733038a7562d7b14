"""What a driver enqueues: a kernel with its arguments, what another library does, and a graph of many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(eq=False)
class BoundLaunch:
    """A launch that is ready to go. `values` (uint64) are its arguments, `pointers` is the address of their addresses.

    Both stay where they are, so that a change of `values` is all that other arguments take.
    """

    name: str
    location: str
    function: Any
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    values: np.ndarray
    pointers: int


@dataclass(frozen=True, eq=False)
class BoundCall:
    """What is enqueued between kernels by `enqueue`, on streams that the driver tells."""

    name: str
    location: str
    enqueue: Callable[[], None]


Step = BoundLaunch | BoundCall


class Graph:
    """A captured sequence of calls that the GPU runs at one request."""

    def update(self, index: int, kernel: BoundLaunch) -> None:
        """Let the kernel of this number (in the order of capture) have its arguments of now, in later launches."""
        raise NotImplementedError

    def launch(self) -> None:
        """Enqueue all of it on the stream."""
        raise NotImplementedError
