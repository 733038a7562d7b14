"""Kernels that sort the keys of each row by one byte after the other, from the lowest: stable, without atomics.

A byte takes three launches. Blocks count the keys of their tile by its value; a warp for each value adds up what the
tiles before each have; blocks then place their tile's keys: behind all of a lower value, behind those of the same value
in tiles before, and in their own tile behind those of warps and lanes before. They come in order in shared memory
first, since memory takes a key that lies alone as slowly as a sector. Within a warp, lanes find those of the same value
by ballots, a bit at a time. So a key's place depends on keys alone, and all runs give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, llvm, memref
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, repeat, when
from blu.passes.gpu.others.ranks import (
    BITS,
    COUNTER_BYTES,
    DIGITS,
    SUM_BYTES,
    THREADS,
    WARPS,
    Ranks,
    resized,
    scan_warp,
)
from blu.passes.gpu.others.tiles import SortedKeys
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels import lanes as vectors

ITEMS = 8
"""Keys of a thread."""
TILE = THREADS * ITEMS
MOST_COUNTS = 16
"""Tiles whose counts a lane has read before it adds them up."""

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
        counters = shared.take(COUNTER_BYTES)
        with self.frame.launch((self.sort.rows * self.sort.tiles,), THREADS, shared.bytes) as here:
            row, tile = vectors.split(here.block[0], self.sort.tiles)
            block = _Tile(self, numbers.add(shared_address(self.frame), counters), row, tile, here.thread)
            block.rank(block.read())
            memref.store(block.ranks.total(), self.memory[2], [row, here.thread, tile])

    def add_up(self) -> None:
        """Each warp takes a value: what tiles before have, for each tile, and what all have."""
        values, tiles = self.sort.rows * DIGITS, self.sort.tiles
        with self.frame.launch((values // WARPS,), THREADS) as here:
            warp, lane = vectors.split(here.thread, WARP)
            row, value = vectors.split(arith.addi(arith.muli(here.block[0], vectors.index(WARPS)), warp), DIGITS)
            each = min(MOST_COUNTS, ceil(tiles / WARP))
            first = numbers.multiply(numbers.as_number(lane), each)

            def body(begin: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                places = [numbers.number(numbers.add(numbers.add(begin, first), number)) for number in range(each)]
                counts = [self._count(row, value, place) for place in places]
                upto = [counts[0]]
                for count in counts[1:]:
                    upto.append(arith.addi(upto[-1], count))
                lanes = scan_warp(upto[-1], numbers.as_number(lane))
                before = arith.addi(carried[0], arith.subi(lanes, upto[-1]))
                for place, count, sum_ in zip(places, counts, upto, strict=True):
                    with when(numbers.is_below(place, tiles)):
                        memref.store(
                            arith.addi(before, arith.subi(sum_, count)), self.memory[2], [row, value, _index(place)]
                        )
                return [arith.addi(carried[0], shfl.idx(lanes, WARP - 1))]

            (total,) = repeat(0, tiles, WARP * each, [numbers.number(0)], body)
            with when(numbers.is_equal(numbers.as_number(lane), 0)):
                memref.store(total, self.memory[2], [row, value, vectors.index(tiles)])

    def _count(self, row: ir.Value, value: ir.Value, tile: ir.Value) -> ir.Value:
        """How many keys of a tile have a value; 0 beyond the last tile."""
        tiles = self.sort.tiles
        found = memref.load(self.memory[2], [row, value, _index(numbers.smaller(tile, tiles - 1))])
        return arith.select(numbers.is_below(tile, tiles), found, numbers.number(0))

    def place(self) -> None:
        """Put the keys of a tile where they go: in order within the tile first, so that neighbours go side by side."""
        shared = SharedMemory()
        counters, sums, more = (shared.take(size) for size in (COUNTER_BYTES, SUM_BYTES, SUM_BYTES))
        offsets = shared.take(4 * DIGITS)
        held = SortedKeys(self.frame, self.sort.element, *(shared.take(TILE * size) for size in (self.key_bytes, 4)))
        with self.frame.launch((self.sort.rows * self.sort.tiles,), THREADS, shared.bytes) as here:
            row, tile = vectors.split(here.block[0], self.sort.tiles)
            base = shared_address(self.frame)
            block = _Tile(self, numbers.add(base, counters), row, tile, here.thread)
            keys, positions = block.read(), block.positions()
            ranks = block.rank(keys)
            in_all, before = (
                memref.load(self.memory[2], [row, here.thread, number])
                for number in (vectors.index(self.sort.tiles), tile)
            )
            start = arith.addi(block.ranks.before(in_all, numbers.add(base, sums)), before)
            own = block.ranks.before(block.ranks.total(), numbers.add(base, more))
            _store(numbers.add(base, offsets), numbers.as_number(here.thread), arith.subi(start, own))
            block.ranks.begin(own)
            block.hold(held, base, zip(keys, positions, ranks, strict=True))
            barrier.sync()
            for item in range(ITEMS):
                self._put(block, held, numbers.add(base, offsets), item)

    def _put(self, block: _Tile, held: SortedKeys, offsets: ir.Value, item: int) -> None:
        """Write one of the tile's keys, which are in order."""
        keys, positions, _ = self.memory
        base, number = shared_address(self.frame), numbers.number(numbers.add(block.ranks.thread, THREADS * item))
        with when(numbers.is_below(number, block.count)):
            key, position = held.key(base, number), held.position(base, number)
            place = arith.addi(_load(offsets, self.digit_of(key)), number)
            if self.sort.write is not None and self.is_highest:
                self.sort.write(self.frame, block.row, place, position)
                return
            where = [vectors.index(self.digit % 2), block.row, _index(place)]
            memref.store(key, keys, where)
            memref.store(position, positions, where)

    @property
    def key_bytes(self) -> int:
        return self.sort.element.width // 8

    @property
    def is_highest(self) -> bool:
        """Whether no digit comes after this one."""
        return self.digit == self.sort.passes - 1

    def key(self, row: ir.Value, place: ir.Value) -> ir.Value:
        """The key at a place (i32) before this pass."""
        return self._before(self.memory[0], row, place) if self.digit else self.sort.read(self.frame, row, place)

    def position(self, row: ir.Value, place: ir.Value) -> ir.Value:
        """Where in its row the key at a place is from."""
        return self._before(self.memory[1], row, place) if self.digit else place

    def _before(self, memory: ir.Value, row: ir.Value, place: ir.Value) -> ir.Value:
        return memref.load(memory, [vectors.index((self.digit - 1) % 2), row, _index(place)])

    def digit_of(self, key: ir.Value) -> ir.Value:
        """The digit of a key that this pass is about, as i32; signs are flipped, so that negative keys come first."""
        shift = arith.constant(key.type, ir.IntegerAttr.get(key.type, BITS * self.digit))
        digit = arith.andi(resized(arith.shrui(key, shift)), numbers.number(DIGITS - 1))
        if not (self.sort.is_signed and self.is_highest):
            return digit
        return arith.xori(digit, numbers.number(1 << (self.sort.bits - 1) % BITS))


@dataclass
class _Tile:
    """What a block has of a row."""

    step: _Pass
    counters: numbers.Number
    row: ir.Value
    tile: ir.Value
    thread: ir.Value

    def __post_init__(self) -> None:
        self.ranks = Ranks(self.counters, numbers.as_number(self.thread), ITEMS)

    @property
    def count(self) -> ir.Value:
        """How many keys there are."""
        begin = numbers.multiply(numbers.as_number(self.tile), TILE)
        return numbers.smaller(numbers.subtract(self.step.sort.width, begin), TILE)

    def number(self, item: int) -> ir.Value:
        """The place of one of the thread's keys; at and beyond the width there is none."""
        begin = numbers.multiply(numbers.as_number(self.tile), TILE)
        return numbers.number(numbers.add(begin, self.ranks.place(item)))

    def read(self) -> list[ir.Value]:
        """The thread's keys. All are on their way before the first is waited for."""
        return [self.step.key(self.row, self._existing(item)) for item in range(ITEMS)]

    def positions(self) -> list[ir.Value]:
        """Where they are from."""
        return [self.step.position(self.row, self._existing(item)) for item in range(ITEMS)]

    def _existing(self, item: int) -> ir.Value:
        return numbers.smaller(self.number(item), self.step.sort.width - 1)

    def _exists(self, item: int) -> ir.Value:
        return numbers.is_below(self.number(item), self.step.sort.width)

    def rank(self, keys: list[ir.Value]) -> list[ir.Value]:
        """How many of its warp's keys with the same digit come before each of the thread's; fills the counters."""
        self.ranks.clear()
        barrier.sync()
        ranks = [self.ranks.rank(self.step.digit_of(key), self._exists(item)) for item, key in enumerate(keys)]
        barrier.sync()
        return ranks

    def hold(self, held: SortedKeys, base: ir.Value, ranked: Iterable[tuple[ir.Value, ir.Value, ir.Value]]) -> None:
        """Put keys and positions in order in shared memory, by what comes before each in its warp."""
        for item, (key, position, rank) in enumerate(ranked):
            with when(self._exists(item)):
                held.store(base, arith.addi(self.ranks.first(self.step.digit_of(key)), rank), key, position)


def _load(table: ir.Value, number: ir.Value) -> ir.Value:
    """One of the i32 numbers of a table in shared memory."""
    return llvm.load(numbers.i32(), _pointer(table, number), alignment=4)


def _store(table: ir.Value, number: ir.Value, value: ir.Value) -> None:
    llvm.store(value, _pointer(table, number), alignment=4)


def _pointer(table: ir.Value, number: ir.Value) -> ir.Value:
    address = numbers.add(table, numbers.multiply(number, 4))
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), numbers.number(address))


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)
