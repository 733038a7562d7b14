"""The pass that places all intermediates in one arena, by when they are alive."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import LOOP, LOOP_BODY, VIEWS, body_of
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.host.bufferize.times import LifeSpan, spans
from blu.plan.schema import ALIGNMENT

LARGE, LARGE_ALIGNMENT = 1 << 16, 512
"""Bytes from which on a buffer is a whole number of so many: rows of what lies behind an odd one would not begin where
lines of a GPU's cache, and bursts of its memory, do."""
ARENA_BYTES = "blu.arena_bytes"
"""The attribute of a module, or of a loop's body, with the bytes of all intermediate results."""


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Each arena buffer gets an offset; buffers that are never alive together may share memory.

        %0 = plan.buffer {space = "arena", index = 0, offset = -1} : memref<4x8xf32>

    becomes

        %0 = plan.buffer {space = "arena", index = 0, offset = 4096} : memref<4x8xf32>

    and the module gets `blu.arena_bytes`. Larger buffers come first, each at the lowest offset that is free during
    its whole life (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", greedy by size).
    Where that leaves gaps, what is alive when most bytes are comes first, what is needed longest at the bottom: then
    these lie without gaps, and what is freed after them is in one piece.
    """

    level = "memref"

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            if not is_kernel(function) and function.entry_block.operations:
                intervals = _intervals(function)
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


@dataclass
class Interval:
    """A buffer with its size and the first and last op that uses it (directly, through a view, or in a batch)."""

    operation: ir.Operation
    bytes: int
    first: int
    last: int
    offset: int = 0


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
        if best[0] <= max(alive):
            break
    assert best is not None, "there is an order"
    for item, offset in zip(intervals, best[1], strict=True):
        item.offset = offset
    return best[0]


def _orders(intervals: list[Interval], alive: list[int]) -> Iterator[list[Interval]]:
    """In which intervals are placed: the larger first; or what is alive when most bytes are, what is needed longest
    first, and then the larger of the others, or those that are alive when many bytes are."""
    by_size = sorted(intervals, key=lambda item: (-item.bytes, item.first))
    yield by_size
    peak = max(range(len(alive)), key=alive.__getitem__)
    at_peak = sorted((item for item in by_size if item.first <= peak <= item.last), key=lambda item: -item.last)
    others = [item for item in by_size if not item.first <= peak <= item.last]
    yield [*at_peak, *others]
    yield [*at_peak, *sorted(others, key=lambda item: -max(alive[item.first : item.last + 1]))]


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
    for item in intervals:
        changes[item.first] += item.bytes
        changes[item.last + 1] -= item.bytes
    return list(accumulate(changes))


def _intervals(function: func.FuncOp) -> list[Interval]:
    operations = [operation.operation for operation in function.entry_block.operations]
    times = spans(operations)
    found = []
    for operation in operations:
        if operation.name == LOOP:
            found.append(Interval(operation, _arena_of(operation), times[operation].first, times[operation].last))
        if operation.name != "plan.buffer" or ir.StringAttr(operation.attributes["space"]).value != "arena":
            continue
        uses = _uses(operation.results[0], times)
        if uses:
            first, last = min(use.first for use in uses), max(use.last for use in uses)
            found.append(Interval(operation, _bytes(operation.results[0].type), first, last))
        else:
            operation.attributes["offset"] = _i64(0)
    return found


def _arena_of(loop: ir.Operation) -> int:
    """The bytes that a loop's body works in. Bodies stand before what they are called from, so that they are known."""
    functions = loop.parent.operation.parent.regions[0].blocks[0].operations
    body = next(item for item in functions if ir.StringAttr(item.attributes["sym_name"]).value == body_of(loop))
    return ir.IntegerAttr(body.attributes[ARENA_BYTES]).value


def _uses(value: ir.Value, times: dict[ir.Operation, LifeSpan]) -> list[LifeSpan]:
    found = []
    for use in value.uses:
        owner = use.owner.operation
        if owner.name in VIEWS:
            found.extend(_uses(owner.results[0], times))
        else:
            found.append(times[owner])
    return found


def _lowest_gap(interval: Interval, alive: list[Interval]) -> int:
    offset = 0
    for other in sorted(alive, key=lambda item: item.offset):
        if offset + interval.bytes <= other.offset:
            break
        offset = max(offset, other.offset + other.bytes)
    return offset


def _bytes(type_: ir.Type) -> int:
    """Bytes of a memref, rounded up to the alignment (an i1 takes one byte)."""
    memref = ir.MemRefType(type_)
    size = product(memref.shape) * element_bytes(memref.element_type)
    alignment = ALIGNMENT if size < LARGE else LARGE_ALIGNMENT
    return -(-size // alignment) * alignment


def element_bytes(element: ir.Type) -> int:
    """Bytes of an element in memory; an index has 8."""
    width = element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64
    return max(1, width // 8)


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
