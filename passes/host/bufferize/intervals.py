"""When which bytes of a host function's buffers are in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import LOOP, PART, VIEWS, body_of
from blu.passes.host.bufferize.times import LifeSpan, spans
from blu.plan.schema import ALIGNMENT

LARGE, LARGE_ALIGNMENT = 1 << 16, 512
"""Bytes from which on a buffer is a whole number of so many: rows of what lies behind an odd one would not begin where
lines of a GPU's cache, and bursts of its memory, do."""
ARENA_BYTES = "blu.arena_bytes"
"""The attribute of a module, or of a loop's body, with the bytes of all intermediate results."""
MOST_PIECES, LEAST_SAVED = 64, 1 / 64
"""Of one buffer. With more, or where less than this share of its bytes times how long they are in use is saved, all of
it is in use from the first to the last use of any: what is read by columns differs in the ends of its rows alone."""


@dataclass(frozen=True)
class Stretch:
    """Bytes `start` to `end` of a buffer, and the first and last op that uses some of them."""

    start: int
    end: int
    first: int
    last: int


@dataclass
class Interval:
    """A buffer with its size and the first and last op that uses it (directly, through a view, or in a batch).

    `pieces` are those of its bytes that are used at other times than others; none where all are used from the first
    to the last.
    """

    operation: ir.Operation
    bytes: int
    first: int
    last: int
    offset: int = 0
    pieces: Sequence[Stretch] = ()

    @property
    def used(self) -> Sequence[Stretch]:
        """Its pieces, or all of it as one."""
        return self.pieces or (Stretch(0, self.bytes, self.first, self.last),)

    def blocks(self, other: Interval) -> Iterator[tuple[int, int]]:
        """Between which offsets another buffer would have bytes in the same place at the same time."""
        for own in self.used:
            for its in other.used:
                if own.first <= its.last and its.first <= own.last:
                    end = self.offset + own.end - its.start
                    yield self.offset + own.start - its.end, aligned(end, alignment_of(other.bytes))


def intervals_of(function: func.FuncOp) -> Iterator[Interval]:
    """Those of the buffers of a function's arena, of nothing where nobody uses one, and of the loops' places in it."""
    operations = [operation.operation for operation in function.entry_block.operations]
    times = spans(operations)
    for operation in operations:
        if operation.name == LOOP:
            yield Interval(operation, _arena_of(operation), times[operation].first, times[operation].last)
        if operation.name != "plan.buffer" or ir.StringAttr(operation.attributes["space"]).value != "arena":
            continue
        if uses := list(_uses(operation.results[0], 0, times)):
            first, last = min(use.first for use in uses), max(use.last for use in uses)
            yield Interval(operation, _bytes(operation.results[0].type), first, last, pieces=_pieces(uses))
        else:
            yield Interval(operation, 0, times[operation].first, times[operation].last)


def _uses(value: ir.Value, start: int, times: dict[ir.Operation, LifeSpan]) -> Iterator[Stretch]:
    """What ops use of memory that begins at byte `start` of a buffer."""
    low, high = _range_of(ir.MemRefType(value.type))
    for use in value.uses:
        owner = use.owner.operation
        if owner.name in VIEWS:
            further = ir.IntegerAttr(owner.attributes["offset"]).value if owner.name == PART else 0
            yield from _uses(owner.results[0], start + further, times)
        else:
            yield Stretch(start + low, start + high, times[owner].first, times[owner].last)


def _range_of(memref: ir.MemRefType) -> tuple[int, int]:
    """The first byte of what a type describes, and the one behind the last."""
    strides, offset = memref.get_strides_and_offset()
    size = element_bytes(memref.element_type)
    if 0 in memref.shape:
        return offset * size, offset * size
    ways = [(extent - 1) * stride for extent, stride in zip(memref.shape, strides, strict=True)]
    low, high = (offset + sum(way for way in ways if (way > 0) == is_up) for is_up in (False, True))
    return low * size, (high + 1) * size


def _pieces(uses: Sequence[Stretch]) -> Sequence[Stretch]:
    """The pieces of a buffer that are used at times of their own; none where there is one."""
    ends = sorted({end for use in uses for end in (use.start, use.end)})
    if len(ends) == 2 or len(ends) > MOST_PIECES:
        return ()
    found: list[Stretch] = []
    for start, end in pairwise(ends):
        inside = [use for use in uses if use.start < end and start < use.end]
        if not inside:
            continue
        first, last = min(use.first for use in inside), max(use.last for use in inside)
        if found and (found[-1].end, found[-1].first, found[-1].last) == (start, first, last):
            start = found.pop().start
        found.append(Stretch(start, end, first, last))
    whole = (ends[-1] - ends[0]) * (max(use.last for use in uses) - min(use.first for use in uses) + 1)
    taken = sum((piece.end - piece.start) * (piece.last - piece.first + 1) for piece in found)
    return found if taken < whole * (1 - LEAST_SAVED) else ()


def _arena_of(loop: ir.Operation) -> int:
    """The bytes that a loop's body works in. Bodies stand before what they are called from, so that they are known."""
    functions = loop.parent.operation.parent.regions[0].blocks[0].operations
    body = next(item for item in functions if ir.StringAttr(item.attributes["sym_name"]).value == body_of(loop))
    return ir.IntegerAttr(body.attributes[ARENA_BYTES]).value


def _bytes(type_: ir.Type) -> int:
    """Bytes of a memref, rounded up to the alignment (an i1 takes one byte)."""
    memref = ir.MemRefType(type_)
    size = product(memref.shape) * element_bytes(memref.element_type)
    return aligned(size, alignment_of(size))


def aligned(size: int, alignment: int) -> int:
    """The least multiple of `alignment` that is no less than a number."""
    return -(-size // alignment) * alignment


def alignment_of(size: int) -> int:
    """What the size, and the place, of a buffer of so many bytes is a multiple of."""
    return ALIGNMENT if size < LARGE else LARGE_ALIGNMENT


def element_bytes(element: ir.Type) -> int:
    """Bytes of an element in memory; an index has 8."""
    width = element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64
    return max(1, width // 8)
