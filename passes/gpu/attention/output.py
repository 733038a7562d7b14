"""Sums of a warp written to global memory, rounded."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

from blu.dialects.core.mlir import arith, ir, llvm, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import COPY_BYTES, AttentionOperand, HeadMatrix, further, pointer
from blu.passes.gpu.attention.scores import STRIP, KeySpan, RowNumbers, Sums
from blu.passes.gpu.attention.tiles import MatrixTile
from blu.passes.gpu.isa import barrier, cvt, shared_memory
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import when
from blu.passes.gpu.numbers import Number

PIECE = 8
"""Columns of a block of sums, and elements of 16 bits in 16 bytes."""


def write_rows(sums: Sums, span: KeySpan, output: HeadMatrix) -> None:
    """Write the rows of a warp, each thread two neighbours at a time where memory lies so, else one."""
    rows, columns = output.shape
    pairs = output.is_aligned and columns % PIECE == 0
    for strip, half in span.rows:
        row = span.row(strip, half)
        with when(numbers.is_below(row, rows)):
            base = output.address(row, span.column)
            for number, block in enumerate(sums[strip]):
                values = block[2 * half : 2 * half + 2]
                if pairs and PIECE * number < columns:
                    place = further(base, PIECE * number, output.size)
                    llvm.store(_rounded(values, output.element), pointer(place), alignment=2 * output.size)
                elif not pairs:
                    _write_elements(values, row, numbers.add(span.column, PIECE * number), output)


def write_tile(sums: Sums, span: KeySpan, stage: MatrixTile, own_row: ir.Value, output: HeadMatrix) -> None:
    """Write the rows of a warp as 16-bit floats, by way of its own rows of `stage`: 16 bytes a thread.

    What is in these rows must have been read. Memory that does not take 16 bytes at a time is written as write_rows
    does.
    """
    if not output.is_aligned or output.size != 2:
        write_rows(sums, span, output)
        return
    barrier.warp_sync()
    row = numbers.add(own_row, numbers.divide(span.lane, 4))
    address = numbers.add(
        stage.address, numbers.add(numbers.multiply(row, stage.pitch), numbers.multiply(span.column, 2))
    )
    for strip, half in span.rows:
        for number, block in enumerate(sums[strip]):
            pair = cvt.rn_x2(block[2 * half], block[2 * half + 1], str(output.element))
            shared_memory.st(address, (strip * STRIP + half * 8) * stage.pitch + number * COPY_BYTES, [pair])
    barrier.warp_sync()
    _copy_pieces(span, stage, own_row, output)


def write_sums(rows: RowNumbers, span: KeySpan, head: Sequence[Number], output: AttentionOperand) -> None:
    """Write a warp's rows as attention_piece has them: logarithms to base e, and -inf twice if there is no weight."""
    matrix = output.matrix(head)
    factor, none, hidden = numbers.real(log(2)), numbers.real(inf), numbers.real(-inf)
    for (strip, half), largest, logarithm in zip(span.rows, rows.largest, rows.logarithms, strict=True):
        row = span.row(strip, half)
        is_first = numbers.is_below(numbers.remainder(span.lane, 4), 1)
        with when(arith.andi(is_first, numbers.is_below(row, matrix.shape[0]))):
            is_none = arith.cmpf(arith.CmpFPredicate.OEQ, logarithm, none)
            for place, value in enumerate((largest, arith.mulf(logarithm, factor))):
                matrix.store(arith.select(is_none, hidden, value), row, place)


def _copy_pieces(span: KeySpan, stage: MatrixTile, own_row: ir.Value, output: HeadMatrix) -> None:
    """Each lane copies pieces of 16 bytes of the warp's rows."""
    pieces, rows = output.shape[1] // PIECE, span.strips * STRIP
    wide = 1 << (pieces - 1).bit_length()
    row, piece = numbers.divide(span.lane, wide), numbers.remainder(span.lane, wide)
    source = numbers.add(numbers.multiply(numbers.add(own_row, row), stage.pitch), numbers.multiply(piece, COPY_BYTES))
    source = numbers.add(stage.address, source)
    base = output.address(numbers.add(span.first_row, row), numbers.multiply(piece, PIECE))
    for number in range(0, rows, WARP // wide):
        present = numbers.is_below(numbers.add(span.first_row, numbers.add(row, number)), output.shape[0])
        if wide != pieces:
            present = arith.andi(present, numbers.is_below(piece, pieces))
        if number + WARP // wide > rows:  # the other rows are another warp's
            present = arith.andi(present, numbers.is_below(row, rows - number))
        with when(present):
            values = shared_memory.ld(source, number * stage.pitch, 4, numbers.i32())
            packed = vector.from_elements(ir.VectorType.get([4], numbers.i32()), values)
            place = further(base, number, output.strides[0] * output.size)
            llvm.store(packed, pointer(place), alignment=COPY_BYTES)


def _rounded(values: list[ir.Value], element: ir.Type) -> ir.Value:
    """Two f32 in an element type, as one value to store."""
    if isinstance(element, ir.F32Type):
        return vector.from_elements(ir.VectorType.get([2], element), values)
    return cvt.rn_x2(values[0], values[1], str(element))


def _write_elements(values: list[ir.Value], row: ir.Value, column: ir.Value, output: HeadMatrix) -> None:
    for at, value in enumerate(values):
        place = numbers.add(column, at)
        with when(numbers.is_below(place, output.shape[1])):
            output.store(value, row, place)
