"""Global memory of the machine of machine.py."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from tests.support.ptx.tensors import MAP_BYTES, TensorMap

_GUARD = 1 << 12


class MemoryFaultError(AssertionError):
    """An access outside of all buffers."""


class Memory:
    """Global memory: buffers with unmapped bytes between them. `parameters` are the addresses that a kernel gets: those
    of the buffers and tensor maps, or that of a table of buffers. `maps` has the maps' buffers' bytes, by address.
    An array that is given twice is one buffer."""

    def __init__(self, buffers: Sequence[np.ndarray], in_table: bool = False, maps: Sequence[TensorMap] = ()):
        self.starts, self.ends, total = [], [], _GUARD
        known: dict[int, int] = {}
        table = np.zeros(len(buffers), np.uint64)
        buffers = [*buffers, table] if in_table else [*buffers, *(np.zeros(MAP_BYTES, np.uint8) for _ in maps)]
        for buffer in buffers:
            self.starts.append(known.setdefault(id(buffer), total))
            self.ends.append(self.starts[-1] + buffer.nbytes)
            total = max(total, -(-self.ends[-1] // _GUARD) * _GUARD + _GUARD)
        self._spans = sorted(set(zip(self.starts, self.ends, strict=True)))
        self.bytes = np.full(total, 0xFF, np.uint8)
        self.mapped = np.zeros(total, np.bool_)
        for buffer, start, end in zip(buffers, self.starts, self.ends, strict=True):
            self.bytes[start:end] = np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
            self.mapped[start:end] = True
        self.parameters = self.starts
        if in_table:
            table[:] = self.starts[:-1]
            self.bytes[self.starts[-1] : self.ends[-1]] = table.view(np.uint8)
            self.parameters = self.starts[-1:]
        self.maps: dict[int, tuple[TensorMap, np.ndarray]] = {}
        for map_, address in zip(maps, self.starts[len(self.starts) - len(maps) :], strict=True):
            map_.check()
            self.maps[address] = map_, self.bytes[self.starts[map_.buffer] : self.ends[map_.buffer]]

    def holds(self, first: int, end: int) -> bool:
        """Whether some bytes are all of one buffer."""
        number = bisect_right(self._spans, (first, len(self.bytes))) - 1
        return number >= 0 and end <= self._spans[number][1]

    @property
    def sizes(self) -> list[int]:
        """The bytes of each buffer."""
        return [end - start for start, end in zip(self.starts, self.ends, strict=True)]

    def read_back(self, buffers: Sequence[np.ndarray]) -> None:
        """Copy memory into the arrays it was made from."""
        for buffer, start, end in zip(buffers, self.starts, self.ends, strict=False):
            buffer.reshape(-1).view(np.uint8)[:] = self.bytes[start:end]
