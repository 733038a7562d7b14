"""Where windows read: rows of phases, with zeros that lines may share, against the definition of a convolution."""

from __future__ import annotations

import random
from itertools import product as combinations

from blu.dialects.ops.convolution.windows import Dimension, Tap, Track, WindowGrid, grid_of


def _dimension(choose: random.Random) -> Dimension:
    """One in which some window fits."""
    while True:
        size, window, low, high = (choose.randint(*ends) for ends in ((0, 6), (1, 5), (-2, 5), (-2, 5)))
        stride, dilation, spread = (choose.choice(values) for values in ((1, 2, 3), (1, 2, 3), (1, 1, 2, 3)))
        found = Dimension(size, window, stride, low, high, dilation, spread)
        if found.extent <= found.padded and found.count:
            return found


def _row(numbers: list[int], sizes: tuple[int, ...]) -> int:
    row = 0
    for number, size in zip(numbers, sizes, strict=True):
        row = row * size + number
    return row


def _numbers(row: int, sizes: tuple[int, ...]) -> list[int]:
    numbers: list[int] = []
    for size in reversed(sizes):
        row, number = divmod(row, size)
        numbers.insert(0, number)
    return [row, *numbers]


def _inside(numbers: list[int], grid: WindowGrid) -> bool:
    return all(0 <= number < own.size for number, own in zip(numbers, grid.dimensions, strict=True))


def _stands_at(grid: WindowGrid, phase: tuple[int, ...], row: int, images: int) -> tuple[int, ...] | None:
    """The element [image, *spatial] that is at a row of a phase; None for a zero."""
    image, *places = _numbers(row, grid.lengths)
    assert image < images, f"row {row} of {images} images of {grid}"
    lines = zip(places, phase, grid.lines, strict=True)
    found = [place * line.stride + own + line.start for place, own, line in lines]
    return (image, *found) if _inside(found, grid) else None


def _is_seen(grid: WindowGrid, image: int, numbers: tuple[int, ...], along: tuple[Track, ...], tap: Tap) -> object:
    """What a place of the window sees by definition."""
    _, *places = _numbers(tap.place, tuple(own.window for own in grid.dimensions))
    tracks = zip(numbers, along, places, strict=True)
    seen = [number * track.stride + dict(track.met)[place] for number, track, place in tracks]
    return (image, *seen) if _inside(seen, grid) else None


def test_what_a_place_of_a_window_reads_is_at_its_row() -> None:
    choose, shared = random.Random(0), 0
    for _ in range(1500):
        batch = choose.choice((1, 2, 5, 30))
        grid = grid_of([_dimension(choose) for _ in range(choose.choice((1, 2, 2)))], batch)
        shared += grid.spare
        for tracks in grid.tracks():
            ends = [sorted({0, count // 2, count - 1}) for count in tracks.counts]
            for image, *numbers in combinations({0, batch - 1}, *ends if all(tracks.counts) else [[]]):
                assert all(number < length for number, length in zip(numbers, grid.lengths, strict=True))
                for tap in tracks.taps:
                    row = _row([image, *numbers], (batch, *grid.lengths)) + tap.row
                    found = _stands_at(grid, tap.phase, row, batch + grid.spare)
                    assert found == _is_seen(grid, image, tuple(numbers), tracks.along, tap), (grid, numbers, tap)
    assert shared > 100
