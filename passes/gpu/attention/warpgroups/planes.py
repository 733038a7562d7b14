"""The launch that writes the parts of operands of f32 (parts.py), and their memory.

A thread splits eight neighbours of a row: it reads 32 bytes, and writes 16 of each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from blu.dialects.core.mlir import arith, func, ir, llvm, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import (
    COPY_BYTES,
    AttentionOperand,
    HeadMatrix,
    further,
    operand_of,
    pointer,
    read_operand,
    split_head,
)
from blu.passes.gpu.attention.warpgroups.parts import SIZE, split_pair
from blu.passes.gpu.kernel import GpuKernel, when
from blu.passes.gpu.numbers import Number

THREADS = 256
PIECE = COPY_BYTES // SIZE


def planes_type(operand: ir.Value, parts: int) -> ir.MemRefType:
    """The memory of the parts of an operand."""
    shape = ir.RankedTensorType(operand.type).shape
    return ir.MemRefType.get([parts, *shape], ir.BF16Type.get())


def emit(kernel: func.FuncOp, location: ir.Location, operands: Sequence[ir.Value]) -> func.FuncOp:
    """The launch for the operands of a kernel, whose planes are the last of its scratch memory, in this order."""
    frame = GpuKernel.open(kernel, name=f"{kernel.name.value}_parts")
    counts = [prod(ir.RankedTensorType(operand.type).shape) // PIECE for operand in operands]
    grid = (-(-max(counts) // THREADS), len(operands))
    with location, frame.launch(grid, THREADS) as here:
        block, own = (numbers.as_number(item) for item in here.block)
        piece = numbers.add(numbers.multiply(block, THREADS), numbers.as_number(here.thread))
        for number, (operand, count) in enumerate(zip(operands, counts, strict=True)):
            is_own = numbers.is_equal(own, number)
            with when(arith.andi(is_own, numbers.is_below(piece, count))):
                planes = frame.scratch[number - len(operands)]
                _split(read_operand(operand, frame), operand_of(planes), piece)
    return frame.replacement


def _split(source: AttentionOperand, target: AttentionOperand, number: ir.Value) -> None:
    """Write the parts of one piece of eight."""
    parts, *heads, rows, columns = target.shape
    pieces = columns // PIECE
    piece, place = numbers.remainder(number, pieces), numbers.divide(number, pieces)
    row, head = numbers.remainder(place, rows), split_head(numbers.divide(place, rows), heads)
    values = _read(source.matrix(head), row, numbers.multiply(piece, PIECE))
    pairs = [split_pair(*values[at : at + 2], parts) for at in range(0, PIECE, 2)]
    for part in range(parts):
        words = vector.from_elements(ir.VectorType.get([4], numbers.i32()), [pair[part] for pair in pairs])
        address = target.matrix([part, *head]).address(row, numbers.multiply(piece, PIECE))
        llvm.store(words, pointer(address), alignment=COPY_BYTES)


def _read(matrix: HeadMatrix, row: Number, column: Number) -> list[ir.Value]:
    """Eight neighbours of a row, 16 bytes at a time where memory lies so."""
    if matrix.constant is not None or not matrix.is_aligned:
        return [matrix.load(row, numbers.add(column, at)) for at in range(PIECE)]
    values: list[ir.Value] = []
    for half in (0, 1):
        place = further(matrix.address(row, column), half, COPY_BYTES)
        loaded = llvm.load(ir.VectorType.get([4], numbers.f32()), pointer(place), alignment=COPY_BYTES)
        values += [vector.extract(loaded, [], [at]) for at in range(4)]
    return values
