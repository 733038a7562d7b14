"""How the threads of a block rank keys by one of their digits, in the order that they have: stable, without atomics.

Each warp counts its keys of each value. Within a warp, lanes find those of the same value by ballots, a bit at a time.
"""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, math
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, shfl, vote
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import when

BITS = 8
DIGITS = 1 << BITS
THREADS = DIGITS
"""Threads of a block: one for each value of a digit, when these are added up."""
WARPS = THREADS // WARP
COUNTER_BYTES = 4 * WARPS * DIGITS
"""Shared memory for the counts of all warps."""
SUM_BYTES = 4 * WARPS
"""Shared memory for one number of each warp."""


@dataclass
class Ranks:
    """Ranks of `items` keys of each thread; `counters` are the address of counts [WARPS, DIGITS] in shared memory.

    Each warp has neighbouring keys, WARP of them at a time.
    """

    counters: numbers.Number
    thread: ir.Value
    items: int

    def __post_init__(self) -> None:
        self.lane, self.warp = numbers.remainder(self.thread, WARP), numbers.divide(self.thread, WARP)

    def place(self, item: int) -> ir.Value:
        """The place of one of the thread's keys among the block's."""
        begin = numbers.multiply(self.warp, WARP * self.items)
        return numbers.number(numbers.add(begin, numbers.add(self.lane, WARP * item)))

    def clear(self) -> None:
        """Count from nothing; a barrier has to follow."""
        for warp in range(WARPS):
            llvm.store(numbers.number(0), self._counter(warp, self.thread), alignment=4)

    def rank(self, digit: ir.Value, exists: ir.Value) -> ir.Value:
        """How many of the warp's keys before have the digit (i32) of this one, which counts if it `exists`."""
        peers = _peers(digit, exists)
        below_lane = numbers.subtract(arith.shli(numbers.number(1), self.lane), 1)
        rank = math.ctpop(arith.andi(peers, below_lane))
        pointer = self._counter(self.warp, digit)
        before = llvm.load(numbers.i32(), pointer, alignment=4)
        barrier.warp_sync()
        with when(arith.andi(exists, numbers.is_equal(rank, 0))):
            llvm.store(arith.addi(before, math.ctpop(peers)), pointer, alignment=4)
        barrier.warp_sync()
        return arith.addi(before, rank)

    def total(self) -> ir.Value:
        """How many keys of the block have the digit that is the thread's number, after a barrier."""
        total = numbers.number(0)
        for warp in range(WARPS):
            total = arith.addi(total, llvm.load(numbers.i32(), self._counter(warp, self.thread), alignment=4))
        return total

    def begin(self, start: ir.Value) -> None:
        """Say where keys go whose digit is the thread's number: the first warp's to `start`, others' behind them."""
        for warp in range(WARPS):
            pointer = self._counter(warp, self.thread)
            own = llvm.load(numbers.i32(), pointer, alignment=4)
            llvm.store(start, pointer, alignment=4)
            start = arith.addi(start, own)
        barrier.sync()

    def first(self, digit: ir.Value) -> ir.Value:
        """Where the first of the warp's keys with this digit goes."""
        return llvm.load(numbers.i32(), self._counter(self.warp, digit), alignment=4)

    def before(self, value: ir.Value, sums: numbers.Number) -> ir.Value:
        """The sum of the values of all threads before; `sums` is the address of one i32 for each warp."""
        upto = scan_warp(value, self.lane)
        with when(numbers.is_equal(self.lane, WARP - 1)):
            llvm.store(upto, _pointer(numbers.add(sums, numbers.multiply(self.warp, 4))), alignment=4)
        barrier.sync()
        result = arith.subi(upto, value)
        for warp in range(WARPS - 1):
            sum_ = llvm.load(numbers.i32(), _pointer(numbers.add(sums, 4 * warp)), alignment=4)
            counts = numbers.is_below(warp, self.warp)
            result = arith.addi(result, arith.select(counts, sum_, numbers.number(0)))
        return result

    def _counter(self, warp: ir.Value | int, value: ir.Value) -> ir.Value:
        """A pointer to a warp's count of a value."""
        number = numbers.add(numbers.multiply(warp, DIGITS), value)
        return _pointer(numbers.add(self.counters, numbers.multiply(number, 4)))


def _peers(digit: ir.Value, exists: ir.Value) -> ir.Value:
    """The lanes with the same digit, as bits, of those that have any."""
    peers = vote.ballot(exists)
    for bit in range(BITS):
        is_set = numbers.is_equal(arith.andi(digit, numbers.number(1 << bit)), 1 << bit)
        found = vote.ballot(is_set)
        peers = arith.andi(peers, arith.select(is_set, found, arith.xori(found, numbers.number(-1))))
    return peers


def scan_warp(value: ir.Value, lane: ir.Value) -> ir.Value:
    """The sum of the values of all lanes up to each."""
    distance = 1
    while distance < WARP:
        joined = arith.addi(value, shfl.idx(value, numbers.subtract(lane, distance)))
        value = arith.select(numbers.is_below(lane, distance), value, joined)
        distance *= 2
    return value


def resized_to(number: ir.Value, wanted: ir.IntegerType) -> ir.Value:
    """A small i32 in another width."""
    if wanted.width == 32:
        return number
    return arith.extui(wanted, number) if wanted.width > 32 else arith.trunci(wanted, number)


def resized(key: ir.Value) -> ir.Value:
    """The lowest bits of a key as i32."""
    width = key.type.width
    if width == 32:
        return key
    return arith.trunci(numbers.i32(), key) if width > 32 else arith.extui(numbers.i32(), key)


def _pointer(address: numbers.Number) -> ir.Value:
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), numbers.number(address))
