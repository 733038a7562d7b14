"""Rows of queries, keys or values in shared memory, from where fragments for products are read.

A row is followed by 16 bytes of padding where it would else have an even number of 16-byte pieces: then the eight rows
that `ldmatrix` reads at a time lie in different banks, and all addresses are one register plus a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blu.dialects.mlir import arith, ir, scf
from blu.passes.gpu import warp
from blu.passes.gpu.attention_operands import COPY_BYTES, Matrix, further
from blu.passes.gpu.kernel import when
from blu.passes.gpu.warp import Number

PIECE = 8
"""Elements of 16 bits in 16 bytes."""


@dataclass(frozen=True)
class Tile:
    """`rows` rows of `columns` 16-bit elements (padded with zeros to a multiple of 16) at a shared address."""

    address: ir.Value
    rows: int
    columns: int

    @property
    def pieces(self) -> int:
        """Pieces of 16 bytes in a row, zeros included."""
        return -(-self.columns // 16) * 2

    @property
    def steps(self) -> int:
        """Multiples of 16 columns."""
        return self.pieces // 2

    @property
    def pitch(self) -> int:
        """Bytes from one row to the next."""
        return pitch_of(self.columns)

    def at(self, address: Number) -> Tile:
        """The tile, further on by some bytes."""
        return Tile(warp.add(self.address, address), self.rows, self.columns)


def pitch_of(columns: int) -> int:
    """Bytes from one row of 16-bit elements to the next: an odd number of 16-byte pieces."""
    return (-(-columns // 16) * 2 + 1) * COPY_BYTES


def tile_bytes(rows: int, columns: int) -> int:
    """Bytes of shared memory that a tile takes."""
    return rows * pitch_of(columns)


@dataclass(frozen=True)
class Fragments:
    """Reads fragments of a tile; `by_rows`, `by_columns` and `turned` are each lane's addresses of its first ones."""

    tile: Tile
    lane: ir.Value

    def left(self, first_row: Number) -> LeftFragments:
        """Fragments of left factors whose rows are 16 rows of the tile."""
        row = warp.add(warp.remainder(self.lane, 16), first_row)
        place = warp.add(warp.multiply(row, self.tile.pitch), warp.multiply(warp.divide(self.lane, 16), COPY_BYTES))
        return LeftFragments(warp.add(self.tile.address, place))

    def right(self) -> RightFragments:
        """Fragments of right factors, whose columns or rows are rows of the tile."""
        lane, pitch = self.lane, self.tile.pitch
        row = warp.add(warp.remainder(lane, 8), warp.multiply(warp.divide(lane, 16), 8))
        half = warp.remainder(warp.divide(lane, 8), 2)
        by_rows = warp.add(warp.multiply(row, pitch), warp.multiply(half, COPY_BYTES))
        place = warp.multiply(warp.divide(lane, 16), COPY_BYTES)
        turned = warp.add(warp.multiply(warp.remainder(lane, 16), pitch), place)
        return RightFragments(warp.add(self.tile.address, by_rows), warp.add(self.tile.address, turned), pitch)


@dataclass(frozen=True)
class LeftFragments:
    """16 rows of a tile as left factors."""

    address: ir.Value

    def load(self, step: int) -> list[ir.Value]:
        """Columns from 16 * step on."""
        return warp.load_matrices(self.address, step * 32)


@dataclass(frozen=True)
class RightFragments:
    """A tile as right factors: each load gives two fragments, of 8 columns of the product each."""

    by_rows: ir.Value
    turned: ir.Value
    pitch: int

    def at(self, offset: ir.Value) -> RightFragments:
        """The same tile, further on by some bytes."""
        return RightFragments(warp.add(self.by_rows, offset), warp.add(self.turned, offset), self.pitch)

    def as_columns(self, pair: int, step: int) -> tuple[list[ir.Value], list[ir.Value]]:
        """Tile rows 16 * pair.. are columns of the product; tile columns 16 * step.. are summed over."""
        parts = warp.load_matrices(self.by_rows, pair * 16 * self.pitch + step * 32)
        return parts[:2], parts[2:]

    def as_rows(self, pair: int, step: int) -> tuple[list[ir.Value], list[ir.Value]]:
        """Tile columns 16 * pair.. are columns of the product; tile rows 16 * step.. are summed over."""
        parts = warp.load_matrices(self.turned, step * 16 * self.pitch + pair * 32, transposed=True)
        return parts[:2], parts[2:]


@dataclass(frozen=True)
class Loader:
    """Copies tiles of one matrix to shared memory with all `threads` of a block."""

    matrix: Matrix
    thread: ir.Value
    threads: int

    def copy(self, tile: Tile, first: Number, end: Number) -> None:
        """Begin to copy rows from `first` on; those from `end` on become 0. Ends before wait_for_copies does."""
        if self.matrix.is_aligned and self.matrix.constant is None:
            self._copy_pieces(tile, first, end)
        else:
            self._copy_elements(tile, first, end)

    def _copy_pieces(self, tile: Tile, first: Number, end: Number) -> None:
        """Each thread copies one piece of every `threads / wide`-th row."""
        wide = 1 << (tile.pieces - 1).bit_length()
        row, piece = warp.divide(self.thread, wide), warp.remainder(self.thread, wide)
        step = self.threads // wide
        target = warp.add(warp.multiply(row, tile.pitch), warp.multiply(piece, COPY_BYTES))
        target = warp.add(tile.address, target)
        source = self.matrix.address(warp.add(row, first), warp.multiply(piece, PIECE))
        left = warp.subtract(end, warp.add(row, first))
        stored = self.matrix.shape[1] // PIECE

        def copy_rows() -> None:
            for number in range(0, tile.rows, step):
                present = arith.cmpi(arith.CmpIPredicate.sgt, left, warp.number(number))
                if stored < wide:
                    present = arith.andi(present, warp.is_below(piece, stored))
                size = arith.select(present, warp.number(COPY_BYTES), warp.number(0))
                place = further(source, number, self.matrix.strides[0] * self.matrix.size)
                warp.copy_async(target, number * tile.pitch, place, COPY_BYTES, size)

        conditions = [] if wide == tile.pieces else [warp.is_below(piece, tile.pieces)]
        if tile.rows % step:
            assert tile.rows < step
            conditions.append(warp.is_below(row, tile.rows))
        _under(conditions, copy_rows)

    def _copy_elements(self, tile: Tile, first: Number, end: Number) -> None:
        """Element by element, for any strides."""
        rows, columns = self.matrix.shape
        index = ir.IndexType.get()
        begin = arith.index_cast(index, self.thread)
        bounds = [arith.constant(index, value) for value in (tile.rows * tile.pieces, self.threads)]
        loop = scf.ForOp(begin, *bounds)
        with ir.InsertionPoint(loop.body):
            number = warp.as_number(loop.induction_variable)
            row, piece = warp.divide(number, tile.pieces), warp.remainder(number, tile.pieces)
            place = warp.add(row, first)
            is_row = arith.andi(warp.is_below(place, end), warp.is_below(place, rows))
            values = []
            for element in range(PIECE):
                column = warp.add(warp.multiply(piece, PIECE), element)
                present = arith.andi(is_row, warp.is_below(column, columns))
                safe = [arith.select(present, at, warp.number(0)) for at in (place, column)]
                values.append(self._bits(self.matrix.load(*safe), present))
            target = warp.add(warp.multiply(row, tile.pitch), warp.multiply(piece, COPY_BYTES))
            pairs = [
                arith.ori(low, arith.shli(high, warp.number(16)))
                for low, high in zip(values[::2], values[1::2], strict=True)
            ]
            warp.store_shared(warp.add(tile.address, target), 0, pairs)
            scf.yield_([])

    def _bits(self, value: ir.Value, present: ir.Value) -> ir.Value:
        bits = arith.bitcast(ir.IntegerType.get_signless(16), value)
        return arith.select(present, arith.extui(warp.i32(), bits), warp.number(0))


def _under(conditions: list[ir.Value], emit: Callable[[], None]) -> None:
    """Emit where all conditions hold."""
    if not conditions:
        emit()
        return
    condition = conditions[0]
    for other in conditions[1:]:
        condition = arith.andi(condition, other)
    with when(condition):
        emit()
