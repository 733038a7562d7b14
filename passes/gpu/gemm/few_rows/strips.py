"""Up to 32 rows times a matrix, as when several sequences are decoded: tensor cores, fed straight from global memory.

A block computes a strip of columns, whose k its warps share out. What is computed is the transposed product: columns
are the 16 rows of an instruction, and rows are its 8 columns, so that there is little to fill up. Since k may be summed
in any order, a lane takes k that lie side by side. What it has to read of the matrix comes first in the kernel, as much
as registers hold, before anything of the other factor: where launches overlap, that is read before the kernel waits
(overlap_launches.py). The warps' sums are added in shared memory, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from blu.dialects.core.mlir import arith, ir, llvm
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import further, pointer
from blu.passes.gpu.gemm.few_rows.rows import start_of
from blu.passes.gpu.gemm.output import PADDING, Output, Staged, choose_lanes, epilogue_sink
from blu.passes.gpu.gemm.problem import COPY_BYTES, Factor, Product
from blu.passes.gpu.gemm.schedule import StripsSchedule
from blu.passes.gpu.isa import barrier, mma, prmt, shared_memory
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, repeat
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.contraction import Contraction
from blu.passes.kernels.epilogue import Epilogue

MOST_ROWS = 32
COLUMNS, WARPS = (16, 32, 64), (8, 16)
"""Columns of a strip, and warps of a block, that there may be."""
_TILE_COLUMNS, _TILE_ROWS, _TILE_DEPTH = 16, 8, 16
"""Of an instruction."""
_ALIGNED = 8
"""Columns and k come in multiples of so many."""
_DEEPEST = 1 << 12
"""k for which no other blocks are needed to share it, where strips have few processors at work."""
_AHEAD = 64
"""Registers of a thread for what it reads of the matrix before it multiplies, and of the other factor."""
_THREADS = 512
"""Of all blocks on a processor, each of which may have 128 registers."""

Words = list[ir.Value]
"""Registers, of two neighbours each."""
Sums = list[list[ir.Value]]
"""Fragments, by rows and then by columns."""


def takes(contraction: Contraction, rows: int, columns: int, depth: int, outer: int, target: GpuTarget) -> bool:
    """Whether a product of halves is one of strips, by its sizes: tiles would leave processors without work."""
    is_aligned = not (columns % _ALIGNED or depth % _ALIGNED)
    is_few = outer * ceil(columns / COLUMNS[-1]) < target.processors
    is_short = depth <= _DEEPEST or 2 * outer * ceil(columns / COLUMNS[0]) >= target.processors
    is_one_run = all(contraction.size(dim) == 1 for dim in contraction.outer_depth)
    return 0 < rows <= MOST_ROWS and depth > 0 and is_short and is_aligned and is_few and is_one_run


def suits(product: Product) -> bool:
    """Whether there is such a kernel: a few rows of halves, and a matrix of which two lie in a word."""
    left, right = product.left, product.right
    elements = {str(left.element), str(right.element)}
    if product.rows > MOST_ROWS or product.runs > 1 or product.is_degenerate or elements not in ({"bf16"}, {"f16"}):
        return False
    return right.is_dense and right.copy_bytes >= 4 and not (product.columns % _ALIGNED or product.depth % _ALIGNED)


def widths(product: Product) -> list[int]:
    """How many columns a strip may have: a lane reads those that lie side by side at once."""
    right = product.right
    return [columns for columns in COLUMNS if right.is_deep or columns // 4 <= right.copy_bytes]


def choose_schedule(product: Product, target: GpuTarget) -> StripsSchedule:
    """The strips of which a processor reads least, both factors counted; of those the widest."""

    def read(schedule: StripsSchedule) -> tuple[int, int]:
        blocks = product.outer * ceil(product.columns / schedule.columns)
        rows = ceil(product.rows / _TILE_ROWS) * _TILE_ROWS
        return ceil(blocks / target.processors) * (schedule.columns + rows), -schedule.columns

    possible = [StripsSchedule(columns, warps_for(product.depth)) for columns in widths(product)]
    fitting = (schedule for schedule in possible if shared_bytes(product.rows, schedule) <= target.shared_bytes)
    return min(fitting, key=read)


def warps_for(depth: int) -> int:
    """Those of a block, by how long k is."""
    return WARPS[0] if depth <= 1024 else WARPS[1]


def shared_bytes(rows: int, schedule: StripsSchedule) -> int:
    """Shared memory of a block for the sums of its warps."""
    return schedule.warps * ceil(rows / _TILE_ROWS) * _TILE_ROWS * (schedule.columns + PADDING) * 4


def emit(frame: GpuKernel, product: Product, epilogue: Epilogue, schedule: StripsSchedule, target: GpuTarget) -> None:
    """Fill the kernel's replacement."""
    strip = (_Deep if product.right.is_deep else _Turned)(product, schedule)
    shared, threads = SharedMemory(), schedule.warps * WARP
    parts = shared.take(schedule.warps * strip.part_bytes, alignment=COPY_BYTES)
    across = ceil(product.columns / schedule.columns)
    blocks = across * product.outer
    each = max(1, min(ceil(blocks / target.processors), _THREADS // threads))
    with (
        product.contraction.operation.location,
        frame.launch((blocks,), threads, shared.bytes, per_processor=each, is_small=True) as here,
    ):
        thread, number = numbers.as_number(here.thread), numbers.as_number(here.block[0])
        column = numbers.number(numbers.multiply(numbers.remainder(number, across), schedule.columns))
        point = product.outer_point(numbers.divide(number, across))
        outer = [point[dim] for dim in product.contraction.outer]
        left, right = (start_of(factor, outer) for factor in (product.left, product.right))
        sums = strip.sums(_Lane.of(left, right, column, thread))
        base = numbers.number(numbers.add(shared_address(frame), parts))
        strip.leave(sums, thread, base)
        barrier.sync()
        lanes = min(4, choose_lanes(epilogue, [operand for _, operand in epilogue.outputs]))
        staged = _Parts(base, product.rows, schedule.columns, PADDING, schedule.warps, strip.part_bytes)
        Output(product, epilogue_sink(epilogue), lanes, 1, thread, threads).write_edge(
            staged, point, numbers.number(0), column
        )


@dataclass(frozen=True)
class _Parts(Staged):
    """Sums of `parts` warps, each `part_bytes` behind the one before: what is read is the sum of all."""

    parts: int = 1
    part_bytes: int = 0

    def load(self, row: ir.Value, column: ir.Value, lanes: int) -> ir.Value:
        total = super().load(row, column, lanes)
        for part in range(1, self.parts):
            later = Staged(numbers.add(self.address, part * self.part_bytes), self.rows, self.columns, self.padding)
            total = arith.addf(total, later.load(row, column, lanes))
        return total


@dataclass(frozen=True)
class _Lane:
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
    def of(cls, left: ir.Value, right: ir.Value, column: ir.Value, thread: ir.Value) -> _Lane:
        lane = numbers.remainder(thread, WARP)
        return cls(
            left, right, column, numbers.divide(thread, WARP), numbers.divide(lane, 4), numbers.remainder(lane, 4)
        )


@dataclass(frozen=True)
class _Strip:
    """Emits what the warps of a block multiply. `own` k side by side are a lane's in each step of a warp."""

    product: Product
    schedule: StripsSchedule
    own = 4

    @property
    def tiles(self) -> int:
        """Of 16 columns."""
        return self.schedule.columns // _TILE_COLUMNS

    @property
    def row_tiles(self) -> int:
        """Of 8 rows."""
        return ceil(self.product.rows / _TILE_ROWS)

    @property
    def part_bytes(self) -> int:
        """Shared memory of a warp's sums."""
        return self.row_tiles * _TILE_ROWS * (self.schedule.columns + PADDING) * 4

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

    def sums(self, lane: _Lane) -> Sums:
        """The sums of a warp."""
        rounds, ahead = self.rounds
        read = [self._right(lane, step) for step in range(ahead)]
        zeros = [[numbers.real(0.0)] * 4 for _ in range(self.row_tiles * self.tiles)]
        sums = self._multiply(lane, 0, read, zeros)
        if rounds == 1:
            return sums

        def body(first: ir.Value, carried: Words) -> Words:
            read = [self._right(lane, numbers.add(first, step)) for step in range(ahead)]
            return _flat(self._multiply(lane, first, read, _fragments(carried)))

        return _fragments(repeat(ahead, rounds * ahead, ahead, _flat(sums), body))

    def _multiply(self, lane: _Lane, first: numbers.Number, read: Sequence[list[Words]], sums: Sums) -> Sums:
        """Add the products of some steps; of the left factor, as much as has room is read before."""
        together = max(1, 2 * _AHEAD // (self.row_tiles * self.own))
        for start in range(0, len(read), together):
            steps = range(start, min(start + together, len(read)))
            left = [self._left(lane, numbers.add(first, step)) for step in steps]
            for step, rows in zip(steps, left, strict=True):
                sums = self._step(self._tiles(read[step]), rows, sums)
        return sums

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

    def _right(self, lane: _Lane, step: numbers.Number) -> list[Words]:
        """What a lane reads of the matrix in a step."""
        raise NotImplementedError

    def _tiles(self, read: list[Words]) -> list[list[Words]]:
        """The fragments of each tile of columns from that, one for each instruction along k."""
        raise NotImplementedError

    def _columns(self, lane: _Lane, tile: int) -> tuple[numbers.Number, numbers.Number]:
        """The columns of a strip that are a lane's rows of an instruction."""
        raise NotImplementedError

    def _depth(self, lane: _Lane, step: numbers.Number) -> tuple[ir.Value, ir.Value | None]:
        """The first k of a lane in a step, and whether that is there where it may not be; then it is the last one."""
        warp = numbers.add(numbers.multiply(step, self.schedule.warps), lane.warp)
        turn = numbers.multiply(lane.turn, self.own)
        k = numbers.number(numbers.add(numbers.multiply(warp, self.span), turn))
        if self.is_whole:
            return k, None
        return numbers.smaller(k, self.product.depth - self.own), numbers.is_below(k, self.product.depth)

    def _left(self, lane: _Lane, step: numbers.Number) -> list[Words]:
        """A lane's k of a step of its row in each tile of 8; 0 where there is none."""
        left, (k, is_there), found = self.product.left, self._depth(lane, step), []
        for tile in range(self.row_tiles):
            row, exists = numbers.add(lane.group, tile * _TILE_ROWS), is_there
            if (tile + 1) * _TILE_ROWS > self.product.rows:
                in_time = numbers.is_below(row, self.product.rows)
                exists = in_time if exists is None else arith.andi(exists, in_time)
                row = numbers.smaller(row, self.product.rows - 1)
            start = further(further(lane.left, row, left.stride * left.bytes), k, left.depth_stride * left.bytes)
            found.append(_kept(_words(start, left, left.depth_stride, self.own // 2), exists))
        return found

    def leave(self, sums: Sums, thread: ir.Value, base: ir.Value) -> None:
        """Write a warp's sums to its part of shared memory, at an address."""
        lane = _Lane.of(base, base, base, thread)
        address = numbers.number(numbers.add(base, numbers.multiply(lane.warp, self.part_bytes)))
        part = Staged(address, self.row_tiles * _TILE_ROWS, self.schedule.columns)
        row = numbers.multiply(lane.turn, 2)
        for number, values in enumerate(sums):
            down, tile = divmod(number, self.tiles)
            for half, column in enumerate(self._columns(lane, tile)):
                start = part.at(row, column)
                for place in range(2):
                    offset = (down * _TILE_ROWS + place) * part.pitch
                    shared_memory.st(start, offset, [values[2 * half + place]])


class _Turned(_Strip):
    """Neighbours along the columns lie side by side: a lane reads some of each of its k, and pairs them."""

    @property
    def side(self) -> int:
        """Columns that a lane reads at once."""
        return self.schedule.columns // _TILE_ROWS

    def _right(self, lane: _Lane, step: numbers.Number) -> list[Words]:
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

    def _columns(self, lane: _Lane, tile: int) -> tuple[numbers.Number, numbers.Number]:
        first = numbers.add(numbers.multiply(lane.group, self.side), 2 * tile)
        return first, numbers.add(first, 1)


class _Deep(_Strip):
    """Neighbours along k lie side by side: a lane reads 16 bytes of a column, for two instructions."""

    own = 8

    def _right(self, lane: _Lane, step: numbers.Number) -> list[Words]:
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

    def _columns(self, lane: _Lane, tile: int) -> tuple[numbers.Number, numbers.Number]:
        first = numbers.add(lane.group, tile * _TILE_COLUMNS)
        return first, numbers.add(first, _TILE_ROWS)


def _fragments(values: Words) -> Sums:
    return [values[place : place + 4] for place in range(0, len(values), 4)]


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
