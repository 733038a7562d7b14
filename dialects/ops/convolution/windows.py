"""Where windows of a convolution lie: which element each place of a window reads, for each element of the result.

Along a dimension, element o of the result reads through place k of its window what stands at o * stride + k * dilation
- low among the operand's elements and the `spread - 1` zeros between them. With a spread, places of a window meet
elements for some of the results only: those that are `step` apart, which are treated together as a `Track`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as combinations
from math import gcd

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product

_FEWER = 0.97
"""Of the rows, what is to be left where lines share zeros, since an image more is written."""


@dataclass(frozen=True)
class Dimension:
    """One spatial dimension: `size` elements of the operand, `window` places, `count` elements of the result."""

    size: int
    window: int
    stride: int
    low: int
    high: int
    dilation: int
    spread: int = 1

    @property
    def padded(self) -> int:
        """The operand's elements with zeros between and around them."""
        return max(self.size - 1, -1) * self.spread + 1 + self.low + self.high if self.size else self.low + self.high

    @property
    def extent(self) -> int:
        """How far a window reaches."""
        return (self.window - 1) * self.dilation + 1

    @property
    def count(self) -> int:
        return max((self.padded - self.extent) // self.stride + 1, 0)

    def tracks(self) -> list[Track]:
        step = self.spread // gcd(self.stride, self.spread)
        return [self._track(first, step) for first in range(step)]

    def _track(self, first: int, step: int) -> Track:
        count = -(-max(self.count - first, 0) // step)
        places = [(place, first * self.stride + place * self.dilation - self.low) for place in range(self.window)]
        met = tuple((place, at // self.spread) for place, at in places if at % self.spread == 0)
        return Track(first, step, count, self.stride * step // self.spread, met if count else ())


@dataclass(frozen=True)
class Track:
    """Elements first, first + step, ... of the result along a dimension, `count` in all.

    Number q of them reads through place k, for (k, offset) in `met`, the operand's element q * stride + offset.
    """

    first: int
    step: int
    count: int
    stride: int
    met: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Line:
    """What is read along a dimension, from the operand's element `start` on: `length` times `stride` elements."""

    start: int
    length: int
    stride: int


def line_of(dimension: Dimension, is_shared: bool) -> Line:
    """What all tracks of a dimension read, together. Zeros after a line may be those before the next one."""
    tracks = dimension.tracks()
    starts = [offset for track in tracks for _, offset in track.met]
    ends = [(track.count - 1) * track.stride + offset for track in tracks for _, offset in track.met]
    start, end, stride = min(starts, default=0), max(ends, default=0) + 1, tracks[0].stride
    length = end - start
    if is_shared and start < 0:
        length = min(length, max(end, min(end, dimension.size) - start))
    return Line(start, max(-(-length // stride), *(track.count for track in tracks)), stride)


@dataclass(frozen=True)
class Tap:
    """A place of the window that is met: its number, and where it is read for the first result of a track.

    Elements that are a stride apart are a `phase` of the operand; in it, the place reads `row` rows after the result's.
    """

    place: int
    phase: tuple[int, ...]
    row: int


@dataclass(frozen=True)
class Places:
    """Places of the window along a dimension, evenly spaced: `count` from `first` on, `step` apart.

    The first is read `row` elements after the result's, each other one `row_step` elements after the one before it.
    """

    first: int
    step: int
    count: int
    row: int
    row_step: int


@dataclass(frozen=True)
class TapBlock:
    """Taps of one phase: places along each dimension, in all combinations.

    The first is read `row` rows after the result's, and `steps` are the rows from one to the next along a dimension.
    """

    phase: tuple[int, ...]
    along: tuple[Places, ...]
    row: int
    steps: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(places.count for places in self.along)

    def numbers(self, windows: Sequence[int]) -> list[int]:
        """The places' numbers in a window of these sizes, in order."""
        along = [[own.first + number * own.step for number in range(own.count)] for own in self.along]
        return [_row(place, windows) for place in combinations(*along)]


@dataclass(frozen=True)
class Tracks:
    """A track of each dimension: the elements of the result that meet the same places of the window."""

    along: tuple[Track, ...]
    taps: tuple[Tap, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(track.count for track in self.along)


@dataclass(frozen=True)
class WindowGrid:
    """All windows of a convolution over what they read: each phase is [N, *lengths, C], in rows of C elements.

    Results are numbered as if they filled a phase, so that what a tap reads for them are rows one after the other.
    Where lines share zeros, those of the last image are an image of their own (`spare`).
    """

    dimensions: tuple[Dimension, ...]
    lines: tuple[Line, ...]
    spare: int = 0

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(line.length for line in self.lines)

    @property
    def first_row(self) -> int:
        """The row of the operand's first element."""
        return _row([-line.start for line in self.lines], self.lengths)

    def has_rows_of(self, other: WindowGrid) -> bool:
        """Whether both see rows of the same images without strides: with elements between zeros, as far apart."""
        alike = self.lengths == other.lengths and self.spare == other.spare
        return alike and all(line.stride == 1 and line.start <= 0 for line in (*self.lines, *other.lines))

    def rows_until_last(self, batch: int, counts: Sequence[int]) -> int:
        """How many rows there are up to that of the last result."""
        return (batch - 1) * product(self.lengths) + _row([count - 1 for count in counts], self.lengths) + 1

    def rows_read(self, batch: int) -> int:
        """How many rows there are up to the last that a result reads."""
        reach = ((tracks, max((tap.row for tap in tracks.taps), default=0)) for tracks in self.tracks())
        return max(self.rows_until_last(batch, tracks.counts) + row for tracks, row in reach)

    def tracks(self) -> Iterator[Tracks]:
        for along in combinations(*(dimension.tracks() for dimension in self.dimensions)):
            yield Tracks(along, tuple(self._taps(along)))

    def blocks(self, tracks: Tracks) -> Iterator[TapBlock]:
        """The taps of tracks, a block for each phase."""
        met = [_by_phase(track.met, line) for track, line in zip(tracks.along, self.lines, strict=True)]
        for parts in combinations(*(found.items() for found in met)):
            along = tuple(places for _, places in parts)
            row = _row([places.row for places in along], self.lengths)
            rows = [product(self.lengths[dim + 1 :]) for dim in range(len(along))]
            steps = tuple(places.row_step * each for places, each in zip(along, rows, strict=True))
            yield TapBlock(tuple(phase for phase, _ in parts), along, row, steps)

    def _taps(self, along: tuple[Track, ...]) -> Iterator[Tap]:
        windows = [dimension.window for dimension in self.dimensions]
        for met in combinations(*(track.met for track in along)):
            from_start = [offset - line.start for (_, offset), line in zip(met, self.lines, strict=True)]
            parts = [divmod(at, line.stride) for at, line in zip(from_start, self.lines, strict=True)]
            row = _row([whole for whole, _ in parts], self.lengths)
            yield Tap(_row([place for place, _ in met], windows), tuple(rest for _, rest in parts), row)


def grid_of(dimensions: Sequence[Dimension], batch: int = 0) -> WindowGrid:
    """The windows of a convolution of so many images. Lines share zeros where that makes far fewer rows."""
    apart, shared = ([line_of(dimension, is_shared) for dimension in dimensions] for is_shared in (False, True))
    each, fewer = (product([line.length for line in lines]) for lines in (apart, shared))
    is_empty = not all(dimension.size for dimension in dimensions)
    grid = WindowGrid(tuple(dimensions), tuple(shared), spare=1)
    if is_empty or (batch + 1) * fewer >= _FEWER * batch * each or grid.rows_read(batch) > (batch + 1) * fewer:
        return WindowGrid(tuple(dimensions), tuple(apart))
    return grid


def _by_phase(met: Sequence[tuple[int, int]], line: Line) -> dict[int, Places]:
    """What is met along a dimension, by phase. What is a phase apart is so each time: it is evenly spaced."""
    found: dict[int, list[tuple[int, int]]] = {}
    for place, offset in met:
        whole, phase = divmod(offset - line.start, line.stride)
        found.setdefault(phase, []).append((place, whole))
    return {phase: _evenly(items) for phase, items in found.items()}


def _evenly(items: Sequence[tuple[int, int]]) -> Places:
    """Places, and the rows in which they are read, which are evenly spaced."""
    (first, row), (second, next_row) = items[0], items[min(1, len(items) - 1)]
    step, row_step = max(second - first, 1), max(next_row - row, 1)
    assert all(item == (first + n * step, row + n * row_step) for n, item in enumerate(items)), items
    return Places(first, step, len(items), row, row_step)


def _row(position: Sequence[int], sizes: Sequence[int]) -> int:
    """The number of a position in row-major order."""
    number = 0
    for at, size in zip(position, sizes, strict=True):
        number = number * size + at
    return number
