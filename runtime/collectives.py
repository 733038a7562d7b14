"""What the ranks of a program on processors do together, between its kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from blu.plan.collective import Collective
from blu.runtime.ranks.group import Pending, RankGroup


class Collectives:
    """The collectives of one program, begun and waited for by their numbers.

    `groups` are the ranks along each axis. Memory is given by its address, run by run.
    """

    def __init__(self, collectives: tuple[Collective, ...], groups: Mapping[str, RankGroup]):
        self._collectives = collectives
        self._groups = groups
        self._pending: dict[int, Pending] = {}

    def begin(self, number: int, source: int, target: int) -> None:
        """Begin a collective from one address to another."""
        item = self._collectives[number]
        group = self._groups[item.axis]
        if item.kind == "axis_index":
            ctypes.c_int32.from_address(target).value = group.rank
            return
        self._pending[number] = group.start(item.kind, source=source, target=target, **item.options)

    def finish(self, number: int) -> None:
        """Wait for a collective that has begun."""
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending.wait()

    def give_up(self) -> None:
        """Forget what has begun, where a run is broken off."""
        self._pending.clear()
