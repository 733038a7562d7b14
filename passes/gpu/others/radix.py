"""Kernels that sort the keys of each row by one byte after the other, from the lowest: stable, without atomics.

A byte takes three launches. Blocks count the keys of their tile by its value; a warp for each value adds up what the
tiles before each have; blocks then place their tile's keys: behind all of a lower value, behind those of the same value
in tiles before, and in their own tile behind those of warps and lanes before. Within a warp, lanes find those of the
same value by ballots, a bit at a time. So a key's place depends on keys alone, and all runs give the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from blu.dialects.core.mlir import arith, func, ir, llvm, math, memref
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, shfl, vote
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, repeat, when
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels import lanes as vectors

BITS = 8
DIGITS = 1 << BITS
THREADS = DIGITS
"""Threads of a block: one for each value of a digit, when these are added up."""
ITEMS = 8
"""Keys of a thread: each warp has neighbouring ones, WARP of them at a time."""
TILE = THREADS * ITEMS
_WARPS = THREADS // WARP

Read = Callable[[GpuKernel, ir.Value, ir.Value], ir.Value]
Write = Callable[[GpuKernel, ir.Value, ir.Value, ir.Value], None]


@dataclass(frozen=True)
class RadixSort:
    """Keys [rows, width] of which the lowest `bits` count; `read(frame, row, place)` gives one.

    `is_signed` says that the highest of these bits is a sign. The launches work in three pieces of memory, the last of
    a kernel's: keys and positions, twice, and counts. `write(frame, row, place, position)` takes what the last launch
    finds; without one that is left in the memory.
    """

    rows: int
    width: int
    element: ir.IntegerType
    bits: int
    read: Read
    write: Write | None = None
    is_signed: bool = False

    @property
    def passes(self) -> int:
        """How many digits keys have."""
        return max(1, ceil(self.bits / BITS))

    @property
    def half(self) -> int:
        """The half of the memory that has sorted keys, and their positions, after all launches."""
        return (self.passes - 1) % 2

    @property
    def tiles(self) -> int:
        """Blocks of a row."""
        return ceil(self.width / TILE)

    @property
    def scratch(self) -> list[ir.MemRefType]:
        """Keys, positions, and how many keys of each value are in tiles before; behind the last tile, in all."""
        twice = [ir.MemRefType.get([2, self.rows, self.width], type_) for type_ in (self.element, numbers.i32())]
        return [*twice, ir.MemRefType.get([self.rows, DIGITS, self.tiles + 1], numbers.i32())]

    def emit(self, kernel: func.FuncOp) -> list[GpuKernel]:
        """The launches, in order."""
        launches: list[GpuKernel] = []
        for digit in range(self.passes):
            for step in (_Pass.count, _Pass.add_up, _Pass.place):
                writes = self.write is not None and digit == self.passes - 1 and step is _Pass.place
                name = kernel.name.value if writes else f"{kernel.name.value}_{step.__name__}_{digit}"
                frame = GpuKernel.open(kernel, name=name)
                step(_Pass(self, frame, digit))
                launches.append(frame)
        return launches


@dataclass(frozen=True)
class _Pass:
    """One of the launches for a digit."""

    sort: RadixSort
    frame: GpuKernel
    digit: int

    @property
    def memory(self) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Keys, positions, counts."""
        keys, positions, counts = self.frame.scratch[-3:]
        return keys, positions, counts

    def count(self) -> None:
        """Count the keys of a tile."""
        shared = SharedMemory()
        counters = shared.take(4 * _WARPS * DIGITS)
        with self.frame.launch((self.sort.rows * self.sort.tiles,), THREADS, shared.bytes) as here:
            row, tile = vectors.split(here.block[0], self.sort.tiles)
            block = _Tile(self, numbers.add(shared_address(self.frame), counters), row, tile, here.thread)
            block.rank()
            total = numbers.number(0)
            for warp in range(_WARPS):
                total = arith.addi(total, llvm.load(numbers.i32(), block.counter(warp, block.thread), alignment=4))
            memref.store(total, self.memory[2], [row, here.thread, tile])

    def add_up(self) -> None:
        """Each warp takes a value: what tiles before have, for each tile, and what all have."""
        values, tiles = self.sort.rows * DIGITS, self.sort.tiles
        with self.frame.launch((values // _WARPS,), THREADS) as here:
            warp, lane = vectors.split(here.thread, WARP)
            row, value = vectors.split(arith.addi(arith.muli(here.block[0], vectors.index(_WARPS)), warp), DIGITS)
            lane = numbers.as_number(lane)

            def body(first: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                tile = numbers.number(numbers.add(first, lane))
                where = [row, value, _index(numbers.smaller(tile, tiles - 1))]
                own = arith.select(numbers.is_below(tile, tiles), memref.load(self.memory[2], where), numbers.number(0))
                upto = _scan_warp(own, lane)
                barrier.warp_sync()
                with when(numbers.is_below(tile, tiles)):
                    memref.store(arith.addi(carried[0], arith.subi(upto, own)), self.memory[2], where)
                return [arith.addi(carried[0], shfl.idx(upto, WARP - 1))]

            (total,) = repeat(0, tiles, WARP, [numbers.number(0)], body)
            with when(numbers.is_equal(lane, 0)):
                memref.store(total, self.memory[2], [row, value, vectors.index(tiles)])

    def place(self) -> None:
        """Put the keys of a tile where they go."""
        shared = SharedMemory()
        counters, sums = shared.take(4 * _WARPS * DIGITS), shared.take(4 * _WARPS)
        with self.frame.launch((self.sort.rows * self.sort.tiles,), THREADS, shared.bytes) as here:
            row, tile = vectors.split(here.block[0], self.sort.tiles)
            base = shared_address(self.frame)
            block = _Tile(self, numbers.add(base, counters), row, tile, here.thread)
            ranked = block.rank()
            in_all, before = (
                memref.load(self.memory[2], [row, here.thread, number])
                for number in (vectors.index(self.sort.tiles), tile)
            )
            start = arith.addi(block.before(in_all, numbers.add(base, sums)), before)
            for warp in range(_WARPS):
                pointer = block.counter(warp, block.thread)
                own = llvm.load(numbers.i32(), pointer, alignment=4)
                llvm.store(start, pointer, alignment=4)
                start = arith.addi(start, own)
            barrier.sync()
            for item, (key, rank) in enumerate(ranked):
                self._put(block, block.number(item), key, rank)

    def _put(self, block: _Tile, number: ir.Value, key: ir.Value, rank: ir.Value) -> None:
        keys, positions, _ = self.memory
        with when(numbers.is_below(number, self.sort.width)):
            first = llvm.load(numbers.i32(), block.counter(block.warp, self.digit_of(key)), alignment=4)
            place = arith.addi(first, rank)
            position = self._before(positions, block.row, number) if self.digit else number
            if self.sort.write is not None and self.is_highest:
                self.sort.write(self.frame, block.row, place, position)
                return
            where = [vectors.index(self.digit % 2), block.row, _index(place)]
            memref.store(key, keys, where)
            memref.store(position, positions, where)

    @property
    def is_highest(self) -> bool:
        """Whether no digit comes after this one."""
        return self.digit == self.sort.passes - 1

    def key(self, row: ir.Value, place: ir.Value) -> ir.Value:
        """The key at a place (i32) before this pass."""
        return self._before(self.memory[0], row, place) if self.digit else self.sort.read(self.frame, row, place)

    def _before(self, memory: ir.Value, row: ir.Value, place: ir.Value) -> ir.Value:
        return memref.load(memory, [vectors.index((self.digit - 1) % 2), row, _index(place)])

    def digit_of(self, key: ir.Value) -> ir.Value:
        """The digit of a key that this pass is about, as i32; signs are flipped, so that negative keys come first."""
        shift = arith.constant(key.type, ir.IntegerAttr.get(key.type, BITS * self.digit))
        digit = arith.andi(_resized(arith.shrui(key, shift)), numbers.number(DIGITS - 1))
        if not (self.sort.is_signed and self.is_highest):
            return digit
        return arith.xori(digit, numbers.number(1 << (self.sort.bits - 1) % BITS))


@dataclass
class _Tile:
    """What a block has of a row; `counters` are the address of counts [_WARPS, DIGITS] in shared memory."""

    step: _Pass
    counters: numbers.Number
    row: ir.Value
    tile: ir.Value
    thread: ir.Value

    def __post_init__(self) -> None:
        self.thread = numbers.as_number(self.thread)
        self.lane, self.warp = numbers.remainder(self.thread, WARP), numbers.divide(self.thread, WARP)

    def number(self, item: int) -> ir.Value:
        """The place of one of the thread's keys; at and beyond the width there is none."""
        begin = numbers.multiply(numbers.as_number(self.tile), TILE)
        offset = numbers.add(numbers.multiply(self.warp, WARP * ITEMS), numbers.add(self.lane, WARP * item))
        return numbers.number(numbers.add(begin, offset))

    def counter(self, warp: ir.Value | int, value: ir.Value) -> ir.Value:
        """A pointer to a warp's count of a value."""
        number = numbers.add(numbers.multiply(warp, DIGITS), value)
        return _pointer(numbers.add(self.counters, numbers.multiply(number, 4)))

    def rank(self) -> list[tuple[ir.Value, ir.Value]]:
        """The thread's keys, and how many of its warp's with the same digit come before each; fills the counters."""
        for warp in range(_WARPS):
            llvm.store(numbers.number(0), self.counter(warp, self.thread), alignment=4)
        # All keys are on their way before the first is waited for.
        keys = [
            self.step.key(self.row, numbers.smaller(self.number(item), self.step.sort.width - 1))
            for item in range(ITEMS)
        ]
        barrier.sync()
        ranked = [(key, self._rank(self.number(item), key)) for item, key in enumerate(keys)]
        barrier.sync()
        return ranked

    def _rank(self, number: ir.Value, key: ir.Value) -> ir.Value:
        exists, digit = numbers.is_below(number, self.step.sort.width), self.step.digit_of(key)
        peers = _peers(digit, exists)
        below_lane = numbers.subtract(arith.shli(numbers.number(1), self.lane), 1)
        rank = math.ctpop(arith.andi(peers, below_lane))
        pointer = self.counter(self.warp, digit)
        before = llvm.load(numbers.i32(), pointer, alignment=4)
        barrier.warp_sync()
        with when(arith.andi(exists, numbers.is_equal(rank, 0))):
            llvm.store(arith.addi(before, math.ctpop(peers)), pointer, alignment=4)
        barrier.warp_sync()
        return arith.addi(before, rank)

    def before(self, value: ir.Value, sums: numbers.Number) -> ir.Value:
        """The sum of the values of all threads before; `sums` is the address of one i32 for each warp."""
        upto = _scan_warp(value, self.lane)
        with when(numbers.is_equal(self.lane, WARP - 1)):
            llvm.store(upto, _pointer(numbers.add(sums, numbers.multiply(self.warp, 4))), alignment=4)
        barrier.sync()
        result = arith.subi(upto, value)
        for warp in range(_WARPS - 1):
            sum_ = llvm.load(numbers.i32(), _pointer(numbers.add(sums, 4 * warp)), alignment=4)
            counts = numbers.is_below(warp, self.warp)
            result = arith.addi(result, arith.select(counts, sum_, numbers.number(0)))
        return result


def _peers(digit: ir.Value, exists: ir.Value) -> ir.Value:
    """The lanes with the same digit, as bits, of those that have any."""
    peers = vote.ballot(exists)
    for bit in range(BITS):
        is_set = numbers.is_equal(arith.andi(digit, numbers.number(1 << bit)), 1 << bit)
        found = vote.ballot(is_set)
        peers = arith.andi(peers, arith.select(is_set, found, arith.xori(found, numbers.number(-1))))
    return peers


def _scan_warp(value: ir.Value, lane: ir.Value) -> ir.Value:
    """The sum of the values of all lanes up to each."""
    distance = 1
    while distance < WARP:
        joined = arith.addi(value, shfl.idx(value, numbers.subtract(lane, distance)))
        value = arith.select(numbers.is_below(lane, distance), value, joined)
        distance *= 2
    return value


def _resized(key: ir.Value) -> ir.Value:
    """The lowest bits of a key as i32."""
    width = key.type.width
    if width == 32:
        return key
    return arith.trunci(numbers.i32(), key) if width > 32 else arith.extui(numbers.i32(), key)


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)


def _pointer(address: numbers.Number) -> ir.Value:
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), numbers.number(address))
