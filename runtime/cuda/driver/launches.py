"""What a driver enqueues: a kernel with its arguments, what another library does, and a graph of many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blu.dataclass import dataclass


@dataclass(eq=False)
class BoundLaunch:
    """A launch that is ready to go. `values` (uint64) are its arguments, `pointers` is the address of their addresses.

    Both stay where they are, so that a change of `values` is all that other arguments take. One that is `early` may
    begin before the kernel before it is over, for which it waits; `prepared` is what a driver keeps for that.
    """

    name: str
    location: str
    function: Any
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    values: np.ndarray
    pointers: int
    early: bool = False
    prepared: Any = None


@dataclass(frozen=True, eq=False)
class BoundCall:
    """What is enqueued between kernels by `enqueue`, on streams that the driver tells."""

    name: str
    location: str
    enqueue: Callable[[], None]


@dataclass(frozen=True, eq=False)
class BoundChoice:
    """A bool that the host reads, waiting for the GPU, by which it goes on elsewhere: launch `number` of the plan."""

    name: str
    location: str
    number: int
    holds: Callable[[], bool]


Step = BoundLaunch | BoundCall | BoundChoice


def let_overlap(steps: Sequence[Step], is_wanted: bool) -> None:
    """Leave kernels early that directly follow another one, or are all of a program, whatever the plan says of others,
    if that is wanted."""
    for before, step in zip((None, *steps), steps, strict=False):
        if isinstance(step, BoundLaunch):
            follows = isinstance(before, BoundLaunch) or len(steps) == 1
            step.early = step.early and is_wanted and follows


class Graph:
    """A captured sequence of calls that the GPU runs at one request."""

    def update(self, index: int, kernel: BoundLaunch) -> None:
        """Let the kernel of this number (in the order of capture) have its arguments of now, in later launches."""
        raise NotImplementedError

    def launch(self) -> None:
        """Enqueue all of it on the stream."""
        raise NotImplementedError
