"""Where buffers of the interpreter's memory really are: some overlap, of which each has a copy there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

PAGE_BITS = 12
"""Buffers begin at multiples of pages of so many bits in the interpreter's memory, and share none."""
_ALIGNMENT = 16

Spans = np.ndarray
"""Bytes of memory as [spans, 2]: the first one of each span, and the first one behind it. Sorted, and apart."""


@dataclass(frozen=True)
class _Piece:
    """Buffers that overlap, or one: from the address `real` on, and as watched bytes from `begin` on."""

    real: int
    begin: int
    size: int


class Layout:
    """Watched bytes, one for each byte of buffers, however many of them it is in.

    Buffer i is at `real[i]`, has `sizes[i]` bytes, and begins at `starts[i]` in the interpreter's memory.
    """

    def __init__(self, starts: Sequence[int], real: Sequence[int], sizes: Sequence[int]):
        self._pieces: list[_Piece] = []
        self._shift = np.zeros((max(starts, default=0) + max(sizes, default=0) >> PAGE_BITS) + 2, np.int64)
        self.size, piece_of = 0, {}
        for number in sorted(range(len(real)), key=real.__getitem__):
            begin = self._place(real[number], sizes[number])
            piece_of[starts[number]] = len(self._pieces) - 1
            pages = slice(starts[number] >> PAGE_BITS, (starts[number] + sizes[number] >> PAGE_BITS) + 1)
            self._shift[pages] = begin - starts[number]
        self._starts = sorted(piece_of)
        self._piece_of = [piece_of[start] for start in self._starts]

    @property
    def pieces(self) -> range:
        """The numbers of parts of memory none of which overlaps another one."""
        return range(len(self._pieces))

    def piece_of(self, first: np.ndarray) -> int | None:
        """In which of these all of some places in the interpreter's memory are, if they are in one buffer."""
        least, last = int(np.minimum.reduce(first)), int(np.maximum.reduce(first))
        number = bisect_right(self._starts, least) - 1
        is_one = number + 1 == len(self._starts) or last < self._starts[number + 1]
        return self._piece_of[number] if is_one else None

    def _place(self, real: int, size: int) -> int:
        """The watched byte at which a buffer begins, which is not before those so far."""
        last = self._pieces[-1] if self._pieces else None
        if last is None or real >= last.real + last.size:
            begin = -(-self.size // _ALIGNMENT) * _ALIGNMENT + real % _ALIGNMENT
            self._pieces.append(_Piece(real, begin, size))
        else:
            begin = last.begin + real - last.real
            self._pieces[-1] = _Piece(last.real, last.begin, max(last.size, real - last.real + size))
        self.size = max(self.size, begin + size)
        return begin

    @property
    def unit(self) -> int:
        """The most bytes at a time that all buffers begin at multiples of."""
        return int(np.gcd.reduce([_ALIGNMENT, *(piece.begin for piece in self._pieces)]))

    def watched(self, first: np.ndarray) -> np.ndarray:
        """The watched bytes of places in the interpreter's memory."""
        return first + self._shift[first >> PAGE_BITS]

    def real(self, watched: int) -> int:
        """The address of a watched byte."""
        piece = next(piece for piece in reversed(self._pieces) if piece.begin <= watched)
        return piece.real + watched - piece.begin

    def spans(self, chosen: np.ndarray, unit: int) -> Spans:
        """Where the chosen ones of the watched units really are."""
        return np.concatenate([np.zeros((0, 2), np.int64), *self._spans(chosen, unit)])

    def _spans(self, chosen: np.ndarray, unit: int) -> Iterator[Spans]:
        for piece in self._pieces:
            own = chosen[piece.begin // unit : -(-(piece.begin + piece.size) // unit)]
            edges = np.flatnonzero(np.diff(np.concatenate([[False], own, [False]]).astype(np.int8)))
            yield edges.reshape(-1, 2) * unit + piece.real


def overlap(left: Spans, right: Spans) -> tuple[int, int] | None:
    """The first bytes that are in both, as one span; None if there is none."""
    if not len(left) or not len(right):
        return None
    # The last span of `right` that begins before each one of `left` ends.
    before = np.searchsorted(right[:, 0], left[:, 1]) - 1
    first = np.maximum(left[:, 0], right[before, 0])
    end = np.minimum(left[:, 1], right[before, 1])
    both = np.flatnonzero((before >= 0) & (first < end))
    return (int(first[both[0]]), int(end[both[0]])) if len(both) else None
