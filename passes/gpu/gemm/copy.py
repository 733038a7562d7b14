"""Tiles of a factor in shared memory, and how all threads of a block copy them there.

A tile is made of panels: rows of 128 bytes, cut into eight pieces of 16 bytes. Piece p of row r is stored at place
p XOR r (the low three bits), so that the eight rows which `ldmatrix` reads at a time lie in different banks. A deep
tile (neighbours along k lie side by side in memory) is one panel with a row for each a; the others are panels of 64 (or
32) a with a row for each k.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, memref
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import further, pointer
from blu.passes.gpu.gemm.problem import COPY_BYTES, Factor
from blu.passes.gpu.gemm.schedule import ROW_BYTES, needs_registers
from blu.passes.gpu.gemm.unaligned import AlignedRange, Shift
from blu.passes.gpu.isa import cp_async, cvt, shared_memory
from blu.passes.gpu.numbers import Number

PIECES = ROW_BYTES // COPY_BYTES


@dataclass(frozen=True)
class FactorTile:
    """`extent` rows (or columns of the right factor) x one step of k, in elements of `bytes` bytes."""

    extent: int
    bytes: int
    is_deep: bool

    @property
    def lanes(self) -> int:
        """Elements of a piece."""
        return COPY_BYTES // self.bytes

    @property
    def width(self) -> int:
        """Elements of a row."""
        return ROW_BYTES // self.bytes

    @property
    def depth(self) -> int:
        """Elements along k."""
        return ROW_BYTES // self.bytes

    @property
    def rows(self) -> int:
        """Rows of 128 bytes, of all panels."""
        return self.extent * self.depth // self.width

    @property
    def panel_bytes(self) -> int:
        """Bytes from a panel to the next, where there are several."""
        return self.depth * ROW_BYTES

    @property
    def size(self) -> int:
        return self.rows * ROW_BYTES

    def swizzle(self, piece: Number, row: Number) -> ir.Value:
        """The place of a piece in its row.

        Four-byte elements with rows for k are read one by one, four rows at a time: these are moved two pieces apart.
        """
        turn = numbers.remainder(numbers.number(row), PIECES)
        if self.bytes == 4 and not self.is_deep:
            turn = numbers.multiply(numbers.remainder(numbers.number(row), 4), 2)
        return arith.xori(numbers.number(piece), turn)


@dataclass(frozen=True)
class BlockPosition:
    """Where a block works: the indices of its product (i32), its first row or column, and the thread's number."""

    outer: Sequence[ir.Value]
    first: ir.Value
    thread: ir.Value
    threads: int


class FactorLoader:
    """Copies the tiles of one factor; what does not depend on k is emitted where the loader is made.

    `begin` starts to copy the tile of a step of k (the copies end before a later wait), and gives what is still to be
    stored by `end`.
    """

    def __init__(
        self, factor: Factor, tile: FactorTile, place: BlockPosition, base: int, runs: Sequence[int], instruction: str
    ):
        self.factor, self.tile, self.place, self.runs = factor, tile, place, runs
        self.element = instruction
        self.in_registers = needs_registers(factor)
        self.row = numbers.divide(place.thread, PIECES)
        self.piece = numbers.remainder(place.thread, PIECES)
        swizzled = numbers.multiply(tile.swizzle(self.piece, self.row), COPY_BYTES)
        self.target = numbers.add(numbers.add(numbers.multiply(self.row, ROW_BYTES), swizzled), base)
        self.start = self._start()
        self.present_across = self._present_across()
        self.buffer = AlignedRange.of(factor) if self.is_shifted else None

    @property
    def step(self) -> int:
        """Rows of the tile from a thread's piece to its next."""
        return self.place.threads // PIECES

    @property
    def pieces(self) -> range:
        """The numbers of a thread's pieces."""
        return range(self.tile.rows // self.step)

    @property
    def is_shifted(self) -> bool:
        """Whether pieces are read whole, although they do not begin at multiples of 16 bytes.

        All of a thread's pieces are then equally far from such: they are a multiple of eight rows apart.
        """
        factor = self.factor
        is_shifted = self.in_registers and factor.bytes == 2 and factor.is_dense
        return is_shifted and self.step % 8 == 0 and factor.extent_bytes >= COPY_BYTES

    def begin(self, number: ir.Value, stage: ir.Value) -> list[ir.Value]:
        """Start to copy the tile of the `number`-th step of k to the stage at a shared address."""
        start, left = self._at(number)
        if self.buffer:
            shift = Shift.of(self.buffer, start)
            pieces = [shift.load(self._source(piece, start), self._present(piece, left)) for piece in self.pieces]
            return [value for piece in pieces for value in piece]
        if self.in_registers:
            return [value for piece in self.pieces for value in self._read(piece, start, left)]
        target = numbers.add(stage, self.target)
        for piece in self.pieces:
            self._copy(piece, target, start, left)
        return []

    def end(self, values: Sequence[ir.Value], stage: ir.Value) -> None:
        """Store what `begin` has read."""
        if not self.in_registers:
            return
        target, each = numbers.add(stage, self.target), 4
        for piece in self.pieces:
            shared_memory.st(target, piece * self.step * ROW_BYTES, values[piece * each : (piece + 1) * each])

    def result_types(self) -> list[ir.Type]:
        """The types of what `begin` gives."""
        return [numbers.i32()] * (4 * len(self.pieces)) if self.in_registers else []

    def _start(self) -> ir.Value:
        """The address of the thread's first piece of the first tile along k, i64."""
        factor, tile = self.factor, self.tile
        address = first_address(factor)
        for position, stride in zip(self.place.outer, factor.outer_strides, strict=True):
            address = further(address, position, stride * factor.bytes)
        along = numbers.multiply(self.piece, tile.lanes)
        across, deep = (self.row, along) if tile.is_deep else (along, self.row)
        address = further(address, numbers.add(across, self.place.first), factor.stride * factor.bytes)
        return further(address, deep, factor.depth_stride * factor.bytes)

    def _at(self, number: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """The thread's address in a step of k, and how many k there are from its first piece on (None: enough)."""
        factor, depth = self.factor, self.tile.depth
        steps, address = -(-factor.depth // depth), self.start
        if len(self.runs):
            run, number = numbers.divide(number, steps), numbers.remainder(number, steps)
            for size, stride in zip(reversed(self.runs), reversed(factor.outer_depth_strides), strict=True):
                address = further(address, numbers.remainder(run, size), stride * factor.bytes)
                run = numbers.divide(run, size)
        address = further(address, number, depth * factor.depth_stride * factor.bytes)
        if factor.depth % depth == 0:
            return address, None
        own = numbers.multiply(self.piece, self.tile.lanes) if self.tile.is_deep else self.row
        return address, numbers.subtract(factor.depth, numbers.add(numbers.multiply(number, depth), own))

    def _present_across(self) -> list[ir.Value] | None:
        """For each piece, how many rows or columns there are from its first on (at least 0); None: enough for all."""
        if self.factor.size % self.tile.extent == 0:
            return None
        own = self.row if self.tile.is_deep else numbers.multiply(self.piece, self.tile.lanes)
        left = numbers.subtract(self.factor.size, numbers.add(self.place.first, own))
        return [numbers.subtract(left, self._distance(piece)[0]) for piece in self.pieces]

    def _distance(self, piece: int) -> tuple[int, int]:
        """How far a piece is from the thread's first one: rows or columns, and k."""
        rows = piece * self.step
        if self.tile.is_deep:
            return rows, 0
        return rows // self.tile.depth * self.tile.width, rows % self.tile.depth

    def _source(self, piece: int, start: ir.Value) -> ir.Value:
        across, deep = self._distance(piece)
        size = self.factor.bytes
        return further(further(start, across, self.factor.stride * size), deep, self.factor.depth_stride * size)

    def _present(self, piece: int, left: ir.Value | None) -> ir.Value | None:
        """How many elements of a piece exist, 0 where its row does not; None: all. It may be more than a piece has."""
        across = None if self.present_across is None else self.present_across[piece]
        deep = None if left is None else numbers.subtract(left, self._distance(piece)[1])
        along, other = (deep, across) if self.tile.is_deep else (across, deep)
        if along is None and other is None:
            return None
        along = numbers.number(self.tile.lanes) if along is None else numbers.larger(along, 0)
        if other is None:
            return along
        return arith.select(numbers.is_below(0, other), along, numbers.number(0))

    def _copy(self, piece: int, target: ir.Value, start: ir.Value, left: ir.Value | None) -> None:
        width, offset = self.factor.copy_bytes, piece * self.step * ROW_BYTES
        source, present = self._source(piece, start), self._present(piece, left)
        for part in range(0, COPY_BYTES, width):
            place = further(source, part // self.factor.bytes, self.factor.bytes)
            if present is None:
                cp_async.copy(target, offset + part, place, width)
                continue
            size = numbers.subtract(numbers.multiply(present, self.factor.bytes), part)
            cp_async.copy(target, offset + part, place, width, numbers.larger(numbers.smaller(size, width), 0))

    def _read(self, piece: int, start: ir.Value, left: ir.Value | None) -> list[ir.Value]:
        """A piece as four registers, read element by element, with zeros for what does not exist."""
        source, present = self._source(piece, start), self._present(piece, left)
        stride = self.factor.depth_stride if self.tile.is_deep else self.factor.stride
        values = _load_elements(source, self.factor, stride, self.tile.lanes, present)
        if self.tile.bytes == 4:
            return [arith.bitcast(numbers.i32(), value) for value in values]
        return [cvt.rn_x2(low, high, self.element) for low, high in zip(values[::2], values[1::2], strict=True)]


def _load_elements(
    source: ir.Value, factor: Factor, stride: int, count: int, present: ir.Value | None
) -> list[ir.Value]:
    """`count` elements as f32, those from `present` on (which are not read) as zeros."""
    values = []
    for number in range(count):
        place = further(source, number, stride * factor.bytes)
        values.append(_widened(_load_if(place, factor, present, number), factor.element))
    return values


def _load_if(address: ir.Value, factor: Factor, present: ir.Value | None, number: int) -> ir.Value:
    """An element, or 0 where it does not exist: then the buffer's first one is read instead."""
    size, element = factor.bytes, factor.element
    if present is None:
        return llvm.load(element, pointer(address), alignment=size)
    exists = numbers.is_below(number, present)
    value = llvm.load(element, pointer(arith.select(exists, address, first_address(factor))), alignment=size)
    return arith.select(exists, value, arith.constant(element, ir.FloatAttr.get(element, 0.0)))


def first_address(factor: Factor) -> ir.Value:
    """The address of the factor's first element, i64."""
    index = memref.extract_aligned_pointer_as_index(factor.buffer)
    return further(arith.index_cast(ir.IntegerType.get_signless(64), index), factor.offset, factor.bytes)


def _widened(value: ir.Value, element: ir.Type) -> ir.Value:
    return value if isinstance(element, ir.F32Type) else arith.extf(numbers.f32(), value)
