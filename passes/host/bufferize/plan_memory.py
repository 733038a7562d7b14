"""The pass that places all intermediates in one arena, by when they are alive."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import LOOP, LOOP_BODY
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.host.bufferize.intervals import ARENA_BYTES, Interval, intervals_of

GAPS = 1 / 65536
"""What gaps may take of what is alive at once, before other places are tried."""


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Each arena buffer gets an offset; bytes that are never in use together may be in the same place.

        %0 = plan.buffer {space = "arena", index = 0, offset = -1} : memref<4x8xf32>

    becomes

        %0 = plan.buffer {space = "arena", index = 0, offset = 4096} : memref<4x8xf32>

    and the module gets `blu.arena_bytes`. Larger buffers come first, each at the lowest offset that is free during
    its whole life (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", greedy by size).
    Where that leaves gaps, what is alive when most bytes are comes first, what is needed longest at the bottom: then
    these lie without gaps, and what is freed after them is in one piece.

    Parts of a buffer have lives of their own. Rows that are read for the last time make room while others are still
    needed, and rows that nobody has written yet take none: a head that is computed some rows at a time puts gradients
    of its rows where the rows were.
    """

    level = "memref"

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            if not is_kernel(function) and function.entry_block.operations:
                intervals = list(intervals_of(function))
                total = assign_offsets(intervals)
                if total >= 1 << 63:
                    self.fail(
                        function,
                        f"the intermediate results take {total} bytes, more than can be addressed",
                        advice="Use smaller shapes.",
                    )
                for interval in intervals:
                    name = "arena" if interval.operation.name == LOOP else "offset"
                    interval.operation.attributes[name] = _i64(interval.offset)
                holder = function if LOOP_BODY in function.attributes else module
                holder.operation.attributes[ARENA_BYTES] = _i64(total)
                self.count("arena bytes", total)


class Timeline:
    """Intervals by when they are alive, so that asking for those alive together looks at few others.

    A tree over the positions keeps each interval at the few nodes that make up its range; those that are alive at a
    position are on the path from there to the root.
    """

    def __init__(self, length: int):
        self.length = length
        self.starting: list[list[Interval]] = [[] for _ in range(length)]
        self.nodes: list[list[Interval]] = [[] for _ in range(2 * length)]

    def add(self, interval: Interval) -> None:
        self.starting[interval.first].append(interval)
        left, right = interval.first + self.length, interval.last + 1 + self.length
        while left < right:
            if left % 2:
                self.nodes[left].append(interval)
                left += 1
            if right % 2:
                right -= 1
                self.nodes[right].append(interval)
            left, right = left // 2, right // 2

    def alive_during(self, interval: Interval) -> list[Interval]:
        """Intervals that are alive at its start, and those that start later while it is."""
        found: list[Interval] = []
        node = interval.first + self.length
        while node:
            found.extend(self.nodes[node])
            node //= 2
        for position in range(interval.first + 1, interval.last + 1):
            found.extend(self.starting[position])
        return found


def assign_offsets(intervals: list[Interval]) -> int:
    """Give each interval its offset; the bytes of all."""
    alive = _alive(intervals)
    best: tuple[int, list[int]] | None = None
    for order in _orders(intervals, alive):
        total = _place(order)
        if best is None or total < best[0]:
            best = total, [item.offset for item in intervals]
        if best[0] <= max(alive) * (1 + GAPS):
            break
    assert best is not None, "there is an order"
    for item, offset in zip(intervals, best[1], strict=True):
        item.offset = offset
    return best[0]


def _orders(intervals: list[Interval], alive: list[int]) -> Iterator[list[Interval]]:
    """In which intervals are placed. The larger first; else what is alive when most bytes are comes before the others:
    what is needed longest first, and of the others the larger, or those that are alive when many bytes are; or the
    larger first of both. Last, what takes the most bytes times how long it takes them first.
    """
    by_size = sorted(intervals, key=lambda item: (-item.bytes, item.first))
    yield by_size
    peak = max(range(len(alive)), key=alive.__getitem__)
    at_peak = sorted((item for item in by_size if item.first <= peak <= item.last), key=lambda item: -item.last)
    others = [item for item in by_size if not item.first <= peak <= item.last]
    yield [*at_peak, *others]
    yield [*at_peak, *sorted(others, key=lambda item: -max(alive[item.first : item.last + 1]))]
    yield [*sorted(at_peak, key=lambda item: -item.bytes), *others]
    yield sorted(intervals, key=lambda item: -item.bytes * (item.last - item.first + 1))


def _place(intervals: list[Interval]) -> int:
    """Give each interval the lowest offset that those before leave free; the bytes of all."""
    placed = Timeline(max((item.last for item in intervals), default=0) + 1)
    for interval in intervals:
        interval.offset = _lowest_gap(interval, placed.alive_during(interval))
        placed.add(interval)
    return max((item.offset + item.bytes for item in intervals), default=0)


def _alive(intervals: list[Interval]) -> list[int]:
    """The bytes that are alive at each position."""
    changes = [0] * (max((item.last for item in intervals), default=0) + 2)
    for piece in (piece for item in intervals for piece in item.used):
        changes[piece.first] += piece.end - piece.start
        changes[piece.last + 1] -= piece.end - piece.start
    return list(accumulate(changes))


def _lowest_gap(interval: Interval, alive: list[Interval]) -> int:
    offset, size = 0, interval.bytes
    plain = [] if interval.pieces else [item for item in alive if not item.pieces]
    blocked = [(item.offset - size, item.offset + item.bytes) for item in plain]
    if len(plain) < len(alive):
        blocked += [place for item in alive if item.pieces or interval.pieces for place in item.blocks(interval)]
    for start, end in sorted(blocked):
        if offset <= start:
            break
        offset = max(offset, end)
    return offset


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
