"""Loops of a row kernel over the vector dimension, in groups of positions, with what is left at the end."""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.core.mlir import arith, ir
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.scope import LanePosition

# For each position of a group, what it carries from one group to the next.
Lists = list[list[ir.Value]]
Visit = Callable[[Cursor, list[LanePosition], Lists], Lists]
Number = Callable[[int], ir.Value]


def join(lists: Lists) -> list[ir.Value]:
    """All values of the lists in a row."""
    return [value for values in lists for value in values]


def split(values: list[ir.Value], like: Lists) -> Lists:
    """The inverse of `join`: lists of the lengths of those in `like`."""
    left = list(values)
    return [[left.pop(0) for _ in part] for part in like]


def sweep(
    number: Number, cursor: Cursor, size: int, lanes: int, count: int, accumulators: Lists, visit: Visit
) -> Lists:
    """All of [0, size): a loop over groups of `count` positions, then what is left, unrolled."""
    step = count * lanes
    main = size - size % step

    def body(inner: Cursor, base: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        positions = [LanePosition(base, place * lanes, lanes, lanes) for place in range(count)]
        return join(visit(inner, positions, split(carried, accumulators)))

    if main:
        joined = cursor.loop(number(0), number(main), number(step), join(accumulators), body)
        accumulators = split(joined, accumulators)
    starts = range(main, size, lanes)
    rest = [LanePosition(number(main), start - main, lanes, min(lanes, size - start)) for start in starts]
    return visit(cursor, rest, accumulators) if rest else accumulators


def sweep_piece(number: Number, cursor: Cursor, bounds: tuple, size: int, lanes: int, count: int, visit: Visit) -> None:
    """[low, high) of a dimension of `size` elements; low is a multiple of all steps: only the last piece has ends."""
    low, high = bounds
    start = 0
    for step in sorted({count * lanes, lanes, 1}, reverse=True):
        stop = size - size % step
        if step == 1:
            step, stop = lanes, size
        if stop == start:
            continue
        filled = min(lanes, size - start)

        def body(
            inner: Cursor, base: ir.Value, carried: list[ir.Value], step: int = step, filled: int = filled
        ) -> list[ir.Value]:
            places = range(max(1, step // lanes))
            visit(inner, [LanePosition(base, place * lanes, lanes, filled) for place in places], [[]] * len(places))
            return carried

        with cursor.point:
            first = arith.maxui(low, number(start)) if start else low
            last = arith.minui(high, number(stop)) if stop != size else high
        cursor.loop(first, last, number(step), [], body)
        start = stop
