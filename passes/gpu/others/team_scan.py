"""A scan by the threads of a warp or of a block: in registers, by shuffles, then through shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir, llvm, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, when
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.scan_body import ScanBody

THREADS = 256
ITEMS = 4
"""Neighbours that each thread takes at a time."""
_SLOT = 8
"""Bytes of shared memory for a value."""

Values = list[ir.Value]
Read = Callable[[ir.Value], Values]
Write = Callable[[ir.Value, Values], None]


@dataclass
class TeamScan:
    """A scan of places of a row by `threads` threads, which all come to `walk` together.

    What lies beyond the end belongs to the last threads, and values only move from lower threads to higher ones, so
    that nothing has to stand in for what is missing.
    """

    frame: GpuKernel
    body: ScanBody
    shared: SharedMemory
    threads: int
    slots: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.warps > 1:
            self.slots = [self.shared.take(_SLOT * self.warps) for _ in self.body.types]

    @property
    def warps(self) -> int:
        return self.threads // WARP

    def stand(self, thread: ir.Value) -> None:
        """Say which thread of the block this is, once the kernel's code has begun."""
        number = numbers.as_number(thread)
        self.thread = numbers.remainder(number, self.threads)
        self.lane, self.warp = numbers.remainder(number, WARP), numbers.divide(self.thread, WARP)

    def walk(self, begin: ir.Value, end: ir.Value, carry: Values, read: Read, write: Write | None = None) -> Values:
        """Go on from `carry` through the places from `begin` to `end`; what that comes to, in all threads.

        `read(place)` gives what a place brings, `write(place, totals)` takes what it has come to.
        """
        loop = scf.ForOp(begin, end, vectors.index(self.tile), carry)
        with ir.InsertionPoint(loop.body):
            here, before = loop.induction_variable, list(loop.inner_iter_args)
            scf.yield_(self.read_tile(here, end, read).go_on(before, write))
        return list(loop.results)

    @property
    def tile(self) -> int:
        """Places that all threads take at a time."""
        return self.threads * ITEMS

    def read_tile(self, here: ir.Value, end: ir.Value, read: Read) -> _Tile:
        """The places from `here` to `end`, a tile of them at most, of which there is one; all are asked for."""
        count = numbers.smaller(numbers.as_number(arith.subi(end, here)), self.tile)
        last = numbers.subtract(count, 1)
        # Beyond the end the last place is read again.
        places = [arith.addi(here, _index(numbers.smaller(self.number(item), last))) for item in range(ITEMS)]
        return _Tile(self, here, count, [read(place) for place in places])

    def in_thread(self, count: ir.Value, terms: list[Values]) -> list[Values]:
        """What the thread's neighbours come to one after the other, of a tile of `count`."""
        totals = terms[:1]
        for item, term in enumerate(terms[1:], 1):
            joined = self.body.combine(totals[-1], term)
            totals.append(_choose(numbers.is_below(self.number(item), count), joined, totals[-1]))
        return totals

    def number(self, item: int) -> ir.Value:
        """Which of the team's elements one of the thread's is."""
        return numbers.number(numbers.add(numbers.multiply(self.thread, ITEMS), item))

    def in_warp(self, values: Values) -> Values:
        """What all threads of the warp up to each come to."""
        distance = 1
        while distance < WARP:
            below = [from_lane(value, numbers.subtract(self.lane, distance)) for value in values]
            joined = self.body.combine(below, values)
            values = _choose(numbers.is_below(distance - 1, self.lane), joined, values)
            distance *= 2
        return values

    def in_team(self, across: Values, carry: Values, last: ir.Value) -> tuple[Values, Values]:
        """What comes before this warp, and what the team comes to; `last` is the last thread that has anything."""
        if self.warps == 1:
            return carry, self.body.combine(carry, [from_lane(value, last) for value in across])
        last_warp, last_lane = numbers.divide(last, WARP), numbers.remainder(last, WARP)
        end = arith.select(numbers.is_equal(self.warp, last_warp), last_lane, numbers.number(WARP - 1))
        barrier.sync()  # until all have read what was there before
        with when(numbers.is_equal(self.lane, end)):
            self._store(across)
        barrier.sync()
        prefix, total = carry, carry
        for number in range(self.warps):
            joined = self.body.combine(total, self._load(number))
            total = _choose(numbers.is_below(last_warp, number), total, joined)
            prefix = _choose(numbers.is_below(number, self.warp), total, prefix)
        return prefix, total

    def _store(self, values: Values) -> None:
        for value, slot in zip(values, self.slots, strict=True):
            address = numbers.add(numbers.add(shared_address(self.frame), slot), numbers.multiply(self.warp, _SLOT))
            llvm.store(value, _pointer(address), alignment=_alignment(value.type))

    def _load(self, number: int) -> Values:
        places = [numbers.add(shared_address(self.frame), slot + _SLOT * number) for slot in self.slots]
        typed = zip(self.body.types, places, strict=True)
        return [llvm.load(type_, _pointer(place), alignment=_alignment(type_)) for type_, place in typed]

    def before_thread(self, across: Values, prefix: Values) -> Values:
        """What comes before a thread, of what comes before its warp and what the threads below it come to."""
        below = [from_lane(value, numbers.subtract(self.lane, 1)) for value in across]
        return _choose(numbers.is_equal(self.lane, 0), prefix, self.body.combine(prefix, below))

    def write(self, here: ir.Value, count: ir.Value, prefix: Values, totals: list[Values], write: Write) -> None:
        for item, total in enumerate(totals):
            number = self.number(item)
            with when(numbers.is_below(number, count)):
                write(arith.addi(here, _index(number)), self.body.combine(prefix, total))


@dataclass(frozen=True)
class _Tile:
    """What a thread has read of a tile of `count` (i32) places that begins at `here`."""

    team: TeamScan
    here: ir.Value
    count: ir.Value
    terms: list[Values]

    def go_on(self, carry: Values, write: Write | None = None) -> Values:
        """Go on from `carry` through the tile; what that comes to, in all threads."""
        team = self.team
        totals = team.in_thread(self.count, self.terms)
        across = team.in_warp(totals[-1])
        last = numbers.divide(numbers.subtract(self.count, 1), ITEMS)  # the last thread that has anything
        prefix, after = team.in_team(across, carry, last)
        if write:
            team.write(self.here, self.count, team.before_thread(across, prefix), totals, write)
        return after


def from_lane(value: ir.Value, lane: ir.Value) -> ir.Value:
    """The value of another lane of the warp (of lane % 32), of any type up to 64 bits."""
    width = value.type.width
    if isinstance(value.type, ir.FloatType) and width != 32:
        bits = arith.bitcast(ir.IntegerType.get_signless(width), value)
        return arith.bitcast(value.type, from_lane(bits, lane))
    if width < 32:
        return arith.trunci(value.type, from_lane(arith.extui(numbers.i32(), value), lane))
    if width == 64:
        half = arith.constant(value.type, ir.IntegerAttr.get(value.type, 32))
        low = from_lane(arith.trunci(numbers.i32(), value), lane)
        high = from_lane(arith.trunci(numbers.i32(), arith.shrui(value, half)), lane)
        return arith.ori(arith.shli(arith.extui(value.type, high), half), arith.extui(value.type, low))
    return shfl.idx(value, lane)


def _choose(condition: ir.Value, yes: Sequence[ir.Value], no: Sequence[ir.Value]) -> Values:
    return [arith.select(condition, left, right) for left, right in zip(yes, no, strict=True)]


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)


def _pointer(address: ir.Value) -> ir.Value:
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), address)


def _alignment(type_: ir.Type) -> int:
    return max(8, type_.width) // 8
