"""Rows of queries, keys or values in shared memory, from where fragments for products are read.

A row is followed by 16 bytes of padding, so that it has an odd number of 16-byte pieces: then the eight rows that
`ldmatrix` reads at a time lie in different banks, and all addresses are one register plus a constant. The same holds
for the eight rows of four f32, and the eight columns of four rows, that a warp reads for products of f32.
"""

from __future__ import annotations

from collections.abc import Callable

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import COPY_BYTES, HeadMatrix, further
from blu.passes.gpu.isa import cp_async, shared_memory
from blu.passes.gpu.kernel import when
from blu.passes.gpu.numbers import Number


@dataclass(frozen=True)
class MatrixTile:
    """`rows` rows of `columns` elements of `size` bytes at a shared address, padded with zeros to 16 columns."""

    address: Number
    rows: int
    columns: int
    size: int

    @property
    def pieces(self) -> int:
        """Pieces of 16 bytes in a row, zeros included."""
        return self.steps * self.size

    @property
    def steps(self) -> int:
        """Multiples of 16 columns."""
        return -(-self.columns // 16)

    @property
    def pitch(self) -> int:
        """Bytes from one row to the next."""
        return pitch_of(self.columns, self.size)

    def at(self, offset: Number) -> MatrixTile:
        """The tile, further on by some bytes."""
        return MatrixTile(numbers.add(self.address, offset), self.rows, self.columns, self.size)


def pitch_of(columns: int, size: int) -> int:
    """Bytes from one row to the next: an odd number of 16-byte pieces."""
    return (-(-columns // 16) * size + 1) * COPY_BYTES


def tile_bytes(rows: int, columns: int, size: int) -> int:
    """Bytes of shared memory that a tile takes."""
    return rows * pitch_of(columns, size)


@dataclass(frozen=True)
class MatrixLoader:
    """Copies tiles of one matrix to shared memory with all `threads` of a block."""

    matrix: HeadMatrix
    thread: ir.Value
    threads: int

    @property
    def _piece(self) -> int:
        """Elements in 16 bytes."""
        return COPY_BYTES // self.matrix.size

    def copy(self, tile: MatrixTile, first: Number, end: Number) -> None:
        """Begin to copy rows from `first` on; those from `end` on become 0. Ends before wait_for_copies does."""
        if self.matrix.is_aligned and self.matrix.constant is None:
            self._copy_pieces(tile, first, end)
        else:
            self._copy_elements(tile, first, end)

    def _copy_pieces(self, tile: MatrixTile, first: Number, end: Number) -> None:
        """Each thread copies one piece of every `threads / wide`-th row."""
        wide = 1 << (tile.pieces - 1).bit_length()
        row, piece = numbers.divide(self.thread, wide), numbers.remainder(self.thread, wide)
        step = self.threads // wide
        target = numbers.add(numbers.multiply(row, tile.pitch), numbers.multiply(piece, COPY_BYTES))
        target = numbers.add(tile.address, target)
        source = self.matrix.address(numbers.add(row, first), numbers.multiply(piece, self._piece))
        left = numbers.subtract(end, numbers.add(row, first))
        stored = self.matrix.shape[1] // self._piece

        def copy_rows() -> None:
            for number in range(0, tile.rows, step):
                present = arith.cmpi(arith.CmpIPredicate.sgt, left, numbers.number(number))
                if stored < wide:
                    present = arith.andi(present, numbers.is_below(piece, stored))
                size = arith.select(present, numbers.number(COPY_BYTES), numbers.number(0))
                place = further(source, number, self.matrix.strides[0] * self.matrix.size)
                cp_async.copy(target, number * tile.pitch, place, COPY_BYTES, size)

        conditions = [] if wide == tile.pieces else [numbers.is_below(piece, tile.pieces)]
        if tile.rows % step:
            assert tile.rows < step
            conditions.append(numbers.is_below(row, tile.rows))
        _under(conditions, copy_rows)

    def _copy_elements(self, tile: MatrixTile, first: Number, end: Number) -> None:
        """Element by element, for any strides."""
        rows, columns = self.matrix.shape
        index = ir.IndexType.get()
        begin = arith.index_cast(index, self.thread)
        bounds = [arith.constant(index, value) for value in (tile.rows * tile.pieces, self.threads)]
        loop = scf.ForOp(begin, *bounds)
        with ir.InsertionPoint(loop.body):
            number = numbers.as_number(loop.induction_variable)
            row, piece = numbers.divide(number, tile.pieces), numbers.remainder(number, tile.pieces)
            place = numbers.add(row, first)
            is_row = arith.andi(numbers.is_below(place, end), numbers.is_below(place, rows))
            values = []
            for element in range(self._piece):
                column = numbers.add(numbers.multiply(piece, self._piece), element)
                present = arith.andi(is_row, numbers.is_below(column, columns))
                safe = [arith.select(present, at, numbers.number(0)) for at in (place, column)]
                values.append(self._bits(self.matrix.load(*safe), present))
            target = numbers.add(numbers.multiply(row, tile.pitch), numbers.multiply(piece, COPY_BYTES))
            if self.matrix.size == 2:
                pairs = zip(values[::2], values[1::2], strict=True)
                values = [arith.ori(low, arith.shli(high, numbers.number(16))) for low, high in pairs]
            shared_memory.st(numbers.add(tile.address, target), 0, values)
            scf.yield_([])

    def _bits(self, value: ir.Value, present: ir.Value) -> ir.Value:
        """An element's bits, as i32."""
        bits = arith.bitcast(ir.IntegerType.get_signless(8 * self.matrix.size), value)
        wide = bits if self.matrix.size == 4 else arith.extui(numbers.i32(), bits)
        return arith.select(present, wide, numbers.number(0))


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
