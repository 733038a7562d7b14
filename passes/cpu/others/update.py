"""Kernels that change a slice of a buffer in place, at positions known at run time.

They move rows: runs of the last dimension, vectorised where their elements are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod

from blu.dialects.core.mlir import arith, func, ir, memref
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.kernel import for_range, open_kernel
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.updates import (
    delinearize,
    find_operation,
    run_time_starts,
)

BYTES_PER_BLOCK = 64 * 1024
MAX_BLOCKS = 64


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Write the update of a tensor.insert_slice into the buffer; blocks are runs of its rows."""
    insertion = find_operation(kernel, "tensor.insert_slice")
    frame = open_kernel(kernel)
    source = frame.buffers[insertion.operands[0]]
    shape, element = shape_of(source), ir.MemRefType(source.type).element_type
    rows, width = prod(shape[:-1]), shape[-1] if shape else 1
    blocks = _num_blocks(rows, width * bytes_of(element))
    destination = frame.outputs[0][1]
    lanes = target.lanes(bytes_of(element))
    with kernel.location, frame.grid(blocks) as block:
        starts = run_time_starts(frame, insertion)
        with _rows_of_block(block, rows, blocks) as row:
            place = delinearize(row.induction_variable, shape[:-1])
            move_row(source, destination, place, [arith.addi(a, b) for a, b in zip(starts, place, strict=False)],
                     starts[-1] if starts else None, width, lanes, lambda new, _: new)  # fmt: skip


def shape_of(buffer: ir.Value) -> list[int]:
    """Sizes of a buffer."""
    return list(ir.MemRefType(buffer.type).shape)


def bytes_of(element: ir.Type) -> int:
    """Bytes of an element in memory."""
    return max(1, element.width // 8)


def _num_blocks(rows: int, row_bytes: int) -> int:
    if not rows or not row_bytes:
        return 0
    return max(1, min(rows, MAX_BLOCKS, rows * row_bytes // BYTES_PER_BLOCK))


def _rows_of_block(block: ir.Value, rows: int, blocks: int):
    share = vectors.index(ceil(rows / blocks))
    begin = arith.minui(arith.muli(block, share), vectors.index(rows))
    end = arith.minui(arith.addi(begin, share), vectors.index(rows))
    return for_range(begin, end)


def move_row(
    source: ir.Value,
    destination: ir.Value,
    read: Sequence[ir.Value],
    write: Sequence[ir.Value],
    column: ir.Value | None,
    width: int,
    lanes: int,
    combine: Callable[[ir.Value, ir.Value], ir.Value],
) -> None:
    """Combine one row of `source` with the row of `destination` that begins at `column` (0-d: one element)."""
    if column is None:
        memref.store(combine(memref.load(source, []), memref.load(destination, [])), destination, [])
        return

    def step(at: ir.Value, count: int) -> None:
        target = [*write, arith.addi(column, at)]
        new, old = (vectors.load(*where, lanes, count) for where in ((source, [*read, at]), (destination, target)))
        vectors.store(combine(new, old), destination, target, count)

    whole = width - width % lanes
    if whole:
        with for_range(0, whole, lanes) as loop:
            step(loop.induction_variable, lanes)
    if width % lanes:
        step(vectors.index(whole), width % lanes)
