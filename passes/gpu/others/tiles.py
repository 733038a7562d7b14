"""How a block sorts a tile of keys in shared memory: by merging runs of one key in pairs, or by one byte after another.

Short rows share a tile whose runs are merged; a longer row, or a piece of one, has a block to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.kernel import GpuKernel, when
from blu.passes.gpu.others.ranks import BITS, DIGITS, THREADS, Ranks, resized, resized_to
from blu.passes.gpu.others.schedule import MERGING, MergeSchedule
from blu.passes.gpu.shared import SharedMemory, shared_address


def comes_before(other: ir.Value, key: ir.Value, equal_counts: ir.Value) -> ir.Value:
    """Whether another key is smaller, or is equal where that counts."""
    smaller = arith.cmpi(arith.CmpIPredicate.slt, other, key)
    equal = arith.cmpi(arith.CmpIPredicate.eq, other, key)
    return arith.ori(smaller, arith.andi(equal, equal_counts))


def counted(longer: ir.Value, count: ir.Value, length: ir.Value, is_before: ir.Value) -> ir.Value:
    """`longer` where the last of so many keys is there and comes before, else `count`."""
    kept = arith.select(is_before, longer, count)
    return arith.select(numbers.is_below(length, longer), count, kept)


@dataclass(frozen=True)
class SortedKeys:
    """Keys and positions in shared memory, from the offsets `keys` and `places` on."""

    frame: GpuKernel
    element: ir.IntegerType
    keys: int
    places: int

    def key(self, base: ir.Value, number: ir.Value) -> ir.Value:
        """A key."""
        pointer, size = self.at(base, number)
        return llvm.load(self.element, pointer, alignment=size)

    def position(self, base: ir.Value, number: ir.Value) -> ir.Value:
        """Its position in the row."""
        pointer, size = self.at(base, number, of_places=True)
        return llvm.load(numbers.i32(), pointer, alignment=size)

    def store(self, base: ir.Value, number: ir.Value, key: ir.Value, position: ir.Value) -> None:
        """Put both somewhere."""
        for value, of_places in ((key, False), (position, True)):
            pointer, size = self.at(base, number, of_places)
            llvm.store(value, pointer, alignment=size)

    def at(self, base: ir.Value, number: ir.Value, of_places: bool = False) -> tuple[ir.Value, int]:
        """A pointer to an element, and its bytes."""
        size = 4 if of_places else self.element.width // 8
        begin = numbers.add(base, self.places if of_places else self.keys)
        address = numbers.add(begin, numbers.multiply(number, size))
        return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), address), size


@dataclass(frozen=True)
class Tile(SortedKeys):
    """Those of rows of up to `width` each; twice where runs are merged."""

    width: int
    schedule: MergeSchedule

    @classmethod
    def take(
        cls, frame: GpuKernel, shared: SharedMemory, element: ir.IntegerType, width: int, schedule: MergeSchedule
    ) -> Tile:
        """So much of shared memory."""
        room = 2 * schedule.tile if schedule.by == MERGING else width
        keys, places = (shared.take(room * size) for size in (element.width // 8, 4))
        return cls(frame, element, keys, places, width, schedule)


@dataclass
class TileSort:
    """Sorting a tile of `count` keys: one row, or (`has_rows`) several of `length` each, which is the tile's width."""

    tile: Tile
    thread: ir.Value
    count: ir.Value
    length: ir.Value
    has_rows: bool

    def __post_init__(self) -> None:
        self.base = shared_address(self.tile.frame)

    def load(self, read: Callable[[ir.Value, ir.Value], ir.Value], start: ir.Value | int) -> None:
        """Fill the first half: `read(row, place)` gives a key, whose position is `start + place`."""
        with self._elements() as number:
            row, place = self._split(number)
            self._store(number, read(row, place), numbers.number(numbers.add(start, place)))
        barrier.sync()

    def run(self) -> ir.Value:
        """Merge until each row is one run; which half holds it (0 or 1)."""
        passes = (self.tile.width - 1).bit_length()
        loop = scf.ForOp(numbers.number(0), numbers.number(passes), numbers.number(1))
        with ir.InsertionPoint(loop.body):
            level = loop.induction_variable
            half = arith.andi(level, numbers.number(1))
            with self._elements() as number:
                size = self.tile.schedule.tile
                self._merge(
                    number, level, numbers.multiply(half, size), numbers.multiply(numbers.subtract(1, half), size)
                )
            barrier.sync()
            scf.yield_([])
        return numbers.number(passes % 2)

    def each(self, half: ir.Value, most: int, write: Callable) -> None:
        """`write(row, place, key, position)` for the first `most` places of each row."""
        with self._elements() as number:
            row, place = self._split(number)
            where = numbers.add(number, numbers.multiply(half, self.tile.schedule.tile))
            with when(numbers.is_below(place, most)):
                write(row, place, self._key(where), self._place(where))

    @contextmanager
    def _elements(self) -> Iterator[ir.Value]:
        """Emit a loop over what this thread has of the tile."""
        loop = scf.ForOp(self.thread, self.count, numbers.number(self.tile.schedule.tile_threads))
        with ir.InsertionPoint(loop.body):
            yield loop.induction_variable
            scf.yield_([])

    def _split(self, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The row of the tile that an element is in, and its place there."""
        if not self.has_rows:
            return numbers.number(0), number
        return numbers.divide(number, self.tile.width), numbers.remainder(number, self.tile.width)

    def _merge(self, number: ir.Value, level: ir.Value, source: ir.Value, target: ir.Value) -> None:
        """Place one key of two runs of 2 ** level keys that become one."""
        _, place = self._split(number)
        row = numbers.subtract(number, place)
        one = numbers.number(1)
        size = arith.shli(one, level)
        run = numbers.subtract(place, numbers.remainder(place, size))
        other = arith.xori(run, size)
        is_second = numbers.is_below(other, run)
        length = numbers.larger(numbers.smaller(numbers.subtract(self.length, other), size), 0)
        key, position = (read(numbers.add(source, number)) for read in (self._key, self._place))
        found = self._search(key, is_second, numbers.add(numbers.add(source, row), other), length, level)
        begin = numbers.smaller(run, other)
        where = numbers.add(numbers.add(row, begin), numbers.add(numbers.subtract(place, run), found))
        self._store(numbers.add(target, where), key, position)

    def _search(
        self, key: ir.Value, equal_counts: ir.Value, start: ir.Value, length: ir.Value, level: ir.Value
    ) -> ir.Value:
        """The same as _count_before, for runs of up to 2 ** level keys."""
        last = numbers.subtract(numbers.larger(length, 1), 1)
        end = 2 * self.tile.schedule.tile - 1
        bound = numbers.smaller(start, end)
        loop = scf.ForOp(numbers.number(0), numbers.add(level, 1), numbers.number(1), [numbers.number(0)])
        with ir.InsertionPoint(loop.body):
            count = loop.inner_iter_args[0]
            step = arith.shli(numbers.number(1), numbers.subtract(level, loop.induction_variable))
            longer = numbers.add(count, step)
            place = numbers.smaller(numbers.add(bound, numbers.smaller(numbers.subtract(longer, 1), last)), end)
            is_before = comes_before(self._key(place), key, equal_counts)
            scf.yield_([counted(longer, count, length, is_before)])
        return loop.results[0]

    def _key(self, number: ir.Value) -> ir.Value:
        return self.tile.key(self.base, number)

    def _place(self, number: ir.Value) -> ir.Value:
        return self.tile.position(self.base, number)

    def _store(self, number: ir.Value, key: ir.Value, position: ir.Value) -> None:
        self.tile.store(self.base, number, key, position)


@dataclass
class ByteSort(TileSort):
    """Sorting a tile of one row by one byte of its keys after the other, from the lowest, where they are.

    `counters` and `sums` are offsets of shared memory for ranks.
    """

    counters: int
    sums: int

    def load(self, read: Callable[[ir.Value, ir.Value], ir.Value], start: ir.Value | int) -> None:
        """The same; all of a thread's keys are on their way before the first is waited for."""
        places = [numbers.number(numbers.add(self.thread, THREADS * item)) for item in range(self._items)]
        keys = [read(numbers.number(0), self._existing(place)) for place in places]
        for place, key in zip(places, keys, strict=True):
            with when(numbers.is_below(place, self.count)):
                self._store(place, key, numbers.number(numbers.add(start, place)))
        barrier.sync()

    def run(self) -> ir.Value:
        """Sort by all bytes; the first half holds the keys."""
        ranks = Ranks(numbers.add(self.base, self.counters), self.thread, self._items)
        loop = scf.ForOp(numbers.number(0), numbers.number(self._passes), numbers.number(1))
        with ir.InsertionPoint(loop.body):
            self._pass(ranks, loop.induction_variable)
            scf.yield_([])
        return numbers.number(0)

    @property
    def _items(self) -> int:
        return ceil(self.tile.width / THREADS)

    @property
    def _passes(self) -> int:
        return self.tile.element.width // BITS

    def _existing(self, place: ir.Value) -> ir.Value:
        return numbers.smaller(place, numbers.subtract(self.count, 1))

    def _pass(self, ranks: Ranks, number: ir.Value) -> None:
        """Sort by one byte."""
        ranks.clear()
        places = [ranks.place(item) for item in range(self._items)]
        held = [(self._key(self._existing(place)), self._place(self._existing(place))) for place in places]
        digits = [self._digit(key, number) for key, _ in held]
        exist = [numbers.is_below(place, self.count) for place in places]
        barrier.sync()
        found = [ranks.rank(digit, exists) for digit, exists in zip(digits, exist, strict=True)]
        barrier.sync()
        ranks.begin(ranks.before(ranks.total(), numbers.add(self.base, self.sums)))
        for (key, position), digit, exists, rank in zip(held, digits, exist, found, strict=True):
            with when(exists):
                self._store(arith.addi(ranks.first(digit), rank), key, position)
        barrier.sync()

    def _digit(self, key: ir.Value, number: ir.Value) -> ir.Value:
        """One byte of a key; the highest has the sign, which is flipped, so that negative keys come first."""
        shift = resized_to(arith.muli(number, numbers.number(BITS)), key.type)
        digit = arith.andi(resized(arith.shrui(key, shift)), numbers.number(DIGITS - 1))
        sign = arith.select(numbers.is_equal(number, self._passes - 1), numbers.number(DIGITS // 2), numbers.number(0))
        return arith.xori(digit, sign)
