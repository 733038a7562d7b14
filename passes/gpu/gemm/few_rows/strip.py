"""What the warps of a block multiply of a strip of columns, and where the results of its lanes lie (see strips.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import further, pointer
from blu.passes.gpu.gemm.few_rows.prologue import Combine, DepthPlace, MadeRows, Prologue
from blu.passes.gpu.gemm.output import PADDING, Staged
from blu.passes.gpu.gemm.problem import COPY_BYTES, Factor, Product
from blu.passes.gpu.gemm.schedule import StripsSchedule
from blu.passes.gpu.isa import barrier, mma, prmt, shared_memory, shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import repeat, when

TILE_COLUMNS, TILE_ROWS = 16, 8
"""Of an instruction."""
_AHEAD = 64
"""Registers of a thread for what it reads of the matrix before it multiplies, and of the other factor."""

Words = list[ir.Value]
"""Registers, of two neighbours each."""
Sums = list[list[ir.Value]]
"""Fragments, by rows and then by columns."""


@dataclass(frozen=True)
class StripLane:
    """What a lane works on: addresses of the factors, the first column of its block, its warp and its place in it.

    `group` is the row of an instruction that it has, and the next but 7, and the column; `turn` says which k.
    """

    left: ir.Value
    right: ir.Value
    column: ir.Value
    warp: ir.Value
    group: ir.Value
    turn: ir.Value

    @classmethod
    def of(cls, left: ir.Value, right: ir.Value, column: ir.Value, thread: ir.Value) -> StripLane:
        lane = numbers.remainder(thread, WARP)
        return cls(
            left, right, column, numbers.divide(thread, WARP), numbers.divide(lane, 4), numbers.remainder(lane, 4)
        )


@dataclass(frozen=True)
class Strip:
    """Emits what the warps of a block multiply. `own` k side by side are a lane's in each step of a warp."""

    product: Product
    schedule: StripsSchedule
    own = 4

    @property
    def tiles(self) -> int:
        """Of 16 columns."""
        return self.schedule.columns // TILE_COLUMNS

    @property
    def row_tiles(self) -> int:
        """Of 8 rows."""
        return ceil(self.product.rows / TILE_ROWS)

    @property
    def part_bytes(self) -> int:
        """Shared memory of a warp's sums."""
        return self.row_tiles * TILE_ROWS * (self.schedule.columns + PADDING) * 4

    @property
    def span(self) -> int:
        """k of a step of a warp."""
        return 4 * self.own

    @cached_property
    def rounds(self) -> tuple[int, int]:
        """How often a warp reads ahead, and how many steps each time."""
        steps = ceil(self.product.depth / (self.span * self.schedule.warps))
        rounds = ceil(steps * self.own * self.tiles / _AHEAD)
        return rounds, ceil(steps / rounds)

    @property
    def is_whole(self) -> bool:
        """Whether all steps of all warps have k."""
        rounds, ahead = self.rounds
        return rounds * ahead * self.schedule.warps * self.span == self.product.depth

    @property
    def slot_bytes(self) -> int:
        """Shared memory of a number of each row, from each warp."""
        return self.row_tiles * TILE_ROWS * self.schedule.warps * 4

    def zeros(self) -> Sums:
        """Sums of nothing."""
        return [[numbers.real(0.0)] * 4 for _ in range(self.row_tiles * self.tiles)]

    def read(self, lane: StripLane) -> list[list[Words]]:
        """What a lane reads of the matrix in the first round."""
        return [self._right(lane, step) for step in range(self.rounds[1])]

    def sums(self, lane: StripLane, read: list[list[Words]]) -> Sums:
        """The sums of a warp, which has `read` this."""
        rounds, ahead = self.rounds
        sums = self._round(lane, 0, read, self.zeros())
        if rounds == 1:
            return sums

        def body(first: ir.Value, carried: Words) -> Words:
            read = [self._right(lane, numbers.add(first, step)) for step in range(ahead)]
            return _flat(self._round(lane, first, read, _fragments(carried)))

        return _fragments(repeat(ahead, rounds * ahead, ahead, _flat(sums), body))

    def _round(self, lane: StripLane, first: numbers.Number, read: Sequence[list[Words]], sums: Sums) -> Sums:
        """Add the products of some steps; of the left factor, as much as has room is read before."""
        together = max(1, 2 * _AHEAD // (self.row_tiles * self.own))
        for start in range(0, len(read), together):
            steps = range(start, min(start + together, len(read)))
            left = [self._left(lane, numbers.add(first, step)) for step in steps]
            sums = self.multiply(read[start : steps.stop], left, sums)
        return sums

    def multiply(self, right: Sequence[list[Words]], left: Sequence[list[Words]], sums: Sums) -> Sums:
        """Add the products of what a lane has of both factors in some steps."""
        for columns, rows in zip(right, left, strict=True):
            sums = self._step(self._tiles(columns), rows, sums)
        return sums

    def make_rows(self, lane: StripLane, prologue: Prologue, slots: Callable[[], numbers.Number]) -> list[list[Words]]:
        """What a lane has of the left factor, which the block makes; `slots` gives shared memory for its sums."""
        index, last = ir.IndexType.get(), self.product.rows - 1
        rows = [arith.index_cast(index, numbers.smaller(numbers.add(lane.group, tile * TILE_ROWS), last))
                for tile in range(self.row_tiles)]  # fmt: skip
        depths = [self._depth(lane, step) for step in range(self.rounds[1])]
        places = [DepthPlace(arith.index_cast(index, k), is_there) for k, is_there in depths]
        own = MadeRows(prologue, rows, places, self.own, _Meeting(self, lane, slots))
        own.read()
        return [
            [_kept(_pairs(own.left(tile, step)), place.is_there) for tile in range(self.row_tiles)]
            for step, place in enumerate(places)
        ]

    def _step(self, columns: Sequence[list[Words]], rows: Sequence[Words], sums: Sums) -> Sums:
        """Add the products of one step; `columns` has the instruction's left fragments of each tile."""
        found = []
        for number, total in enumerate(sums):
            row, tile = divmod(number, self.tiles)
            for half, fragment in enumerate(columns[tile]):
                total = mma.m16n8k16(
                    total, fragment, rows[row][2 * half : 2 * half + 2], str(self.product.left.element)
                )
            found.append(total)
        return found

    def _right(self, lane: StripLane, step: numbers.Number) -> list[Words]:
        """What a lane reads of the matrix in a step."""
        raise NotImplementedError

    def _tiles(self, read: list[Words]) -> list[list[Words]]:
        """The fragments of each tile of columns from that, one for each instruction along k."""
        raise NotImplementedError

    def _columns(self, lane: StripLane, tile: int) -> tuple[numbers.Number, numbers.Number]:
        """The columns of a strip that are a lane's rows of an instruction."""
        raise NotImplementedError

    def _depth(self, lane: StripLane, step: numbers.Number) -> tuple[ir.Value, ir.Value | None]:
        """The first k of a lane in a step, and whether that is there where it may not be; then it is the last one."""
        warp = numbers.add(numbers.multiply(step, self.schedule.warps), lane.warp)
        turn = numbers.multiply(lane.turn, self.own)
        k = numbers.number(numbers.add(numbers.multiply(warp, self.span), turn))
        if self.is_whole:
            return k, None
        return numbers.smaller(k, self.product.depth - self.own), numbers.is_below(k, self.product.depth)

    def _left(self, lane: StripLane, step: numbers.Number) -> list[Words]:
        """A lane's k of a step of its row in each tile of 8; 0 where there is none."""
        left, (k, is_there), found = self.product.left, self._depth(lane, step), []
        for tile in range(self.row_tiles):
            row, exists = numbers.add(lane.group, tile * TILE_ROWS), is_there
            if (tile + 1) * TILE_ROWS > self.product.rows:
                in_time = numbers.is_below(row, self.product.rows)
                exists = in_time if exists is None else arith.andi(exists, in_time)
                row = numbers.smaller(row, self.product.rows - 1)
            start = further(further(lane.left, row, left.stride * left.bytes), k, left.depth_stride * left.bytes)
            found.append(_kept(_words(start, left, left.depth_stride, self.own // 2), exists))
        return found

    def leave(self, sums: Sums, thread: ir.Value, base: ir.Value) -> None:
        """Write a warp's sums to its part of shared memory, at an address."""
        lane = StripLane.of(base, base, base, thread)
        address = numbers.number(numbers.add(base, numbers.multiply(lane.warp, self.part_bytes)))
        part = Staged(address, self.row_tiles * TILE_ROWS, self.schedule.columns)
        row = numbers.multiply(lane.turn, 2)
        for number, values in enumerate(sums):
            down, tile = divmod(number, self.tiles)
            for half, column in enumerate(self._columns(lane, tile)):
                start = part.at(row, column)
                for place in range(2):
                    offset = (down * TILE_ROWS + place) * part.pitch
                    shared_memory.st(start, offset, [values[2 * half + place]])


@dataclass
class _Meeting:
    """Adds up what the lanes of a block have of each row: those of a warp, then the warps, in order.

    Each time it takes other shared memory.
    """

    strip: Strip
    lane: StripLane
    slots: Callable[[], numbers.Number]
    count: int = 0

    def __call__(self, values: list[ir.Value], combine: Combine) -> list[ir.Value]:
        warps, each = self.strip.schedule.warps, self.strip.schedule.warps * 4
        start = numbers.number(numbers.add(self.slots(), self.count * self.strip.slot_bytes))
        start = numbers.number(numbers.add(start, numbers.multiply(self.lane.group, each)))
        self.count += 1
        for distance in (1, 2):
            values = [combine(value, shfl.bfly(value, distance)) for value in values]
        with when(numbers.is_equal(self.lane.turn, 0)):
            own = numbers.number(numbers.add(start, numbers.multiply(self.lane.warp, 4)))
            for tile, value in enumerate(values):
                shared_memory.st(own, tile * TILE_ROWS * each, [value])
        barrier.sync()
        totals = []
        for tile in range(len(values)):
            offsets = [tile * TILE_ROWS * each + 4 * part for part in range(0, warps, 4)]
            words = [word for offset in offsets for word in shared_memory.ld(start, offset, 4, numbers.f32())]
            totals.append(reduce(combine, words))
        return totals


class TurnedStrip(Strip):
    """Neighbours along the columns lie side by side: a lane reads some of each of its k, and pairs them."""

    @property
    def side(self) -> int:
        """Columns that a lane reads at once."""
        return self.schedule.columns // TILE_ROWS

    def _right(self, lane: StripLane, step: numbers.Number) -> list[Words]:
        right, (k, is_there) = self.product.right, self._depth(lane, step)
        column = numbers.add(lane.column, numbers.multiply(lane.group, self.side))
        column = numbers.smaller(column, self.product.columns - self.side)
        start = further(lane.right, column, right.bytes)
        pitch = right.depth_stride * right.bytes
        start = further(start, k, pitch)
        return [_kept(_words(further(start, number, pitch), right, 1, self.side // 2), is_there)
                for number in range(self.own)]  # fmt: skip

    def _tiles(self, read: list[Words]) -> list[list[Words]]:
        found = []
        for first, second, third, fourth in zip(*read, strict=True):
            halves = (prmt.low_halves, prmt.high_halves)
            found.append([[pair(*words) for words in ((first, second), (third, fourth)) for pair in halves]])
        return found

    def _columns(self, lane: StripLane, tile: int) -> tuple[numbers.Number, numbers.Number]:
        first = numbers.add(numbers.multiply(lane.group, self.side), 2 * tile)
        return first, numbers.add(first, 1)


class DeepStrip(Strip):
    """Neighbours along k lie side by side: a lane reads 16 bytes of a column, for two instructions."""

    own = 8

    def _right(self, lane: StripLane, step: numbers.Number) -> list[Words]:
        right, (k, is_there), found = self.product.right, self._depth(lane, step), []
        for tile in range(self.tiles):
            for own in self._columns(lane, tile):
                column = numbers.smaller(numbers.add(lane.column, own), self.product.columns - 1)
                start = further(lane.right, column, right.stride * right.bytes)
                start = further(start, k, right.depth_stride * right.bytes)
                found.append(_kept(_words(start, right, right.depth_stride, self.own // 2), is_there))
        return found

    def _tiles(self, read: list[Words]) -> list[list[Words]]:
        found = []
        for tile in range(self.tiles):
            upper, lower = read[2 * tile : 2 * tile + 2]
            found.append([[upper[half], lower[half], upper[half + 1], lower[half + 1]] for half in (0, 2)])
        return found

    def _columns(self, lane: StripLane, tile: int) -> tuple[numbers.Number, numbers.Number]:
        first = numbers.add(lane.group, tile * TILE_COLUMNS)
        return first, numbers.add(first, TILE_ROWS)


def _fragments(values: Words) -> Sums:
    return [values[place : place + 4] for place in range(0, len(values), 4)]


def _pairs(values: ir.Value) -> Words:
    """A vector of halves, two in a word."""
    count = ir.VectorType(values.type).shape[0] // 2
    words = vector.bitcast(ir.VectorType.get([count], numbers.i32()), values)
    return [vector.extract(words, [], [place]) for place in range(count)]


def _flat(sums: Sums) -> Words:
    return [value for values in sums for value in values]


def _kept(words: Words, condition: ir.Value | None) -> Words:
    """The words, or 0 where a condition is given that does not hold."""
    if condition is None:
        return words
    return [arith.select(condition, word, numbers.number(0)) for word in words]


def _words(address: ir.Value, factor: Factor, stride: int, count: int) -> Words:
    """Pairs of neighbours from an address on, `stride` elements apart, as much at a time as lies side by side."""
    size = min(COPY_BYTES, count * 4, factor.copy_bytes)
    if stride != 1 or size < 4:
        halves = [_half(further(address, place, stride * factor.bytes), factor) for place in range(2 * count)]
        return [prmt.low_halves(*halves[place : place + 2]) for place in range(0, 2 * count, 2)]
    lanes, found = size // 4, []
    for first in range(0, count, lanes):
        place = pointer(further(address, first, 4))
        loaded = llvm.load(ir.VectorType.get([lanes], numbers.i32()), place, alignment=size)
        found += [llvm.extractelement(loaded, numbers.number(lane)) for lane in range(lanes)]
    return found


def _half(address: ir.Value, factor: Factor) -> ir.Value:
    """An element in the low half of a register."""
    loaded = llvm.load(ir.IntegerType.get_signless(16), pointer(address), alignment=factor.bytes)
    return arith.extui(numbers.i32(), loaded)
