"""Kernels that change a part of a buffer in place: a slice at run-time positions, or rows that are added to.

Both move rows: runs of the last dimension, vectorised where their elements are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod

from blu.dialects.mlir import arith, func, ir, memref
from blu.dialects.op import attributes_of, operands_of
from blu.dialects.target import CpuTarget
from blu.passes.cpu.kernel import for_range, open_kernel
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.updates import add_scalars, delinearize, find_operation, run_time_starts, wrapped

BYTES_PER_BLOCK = 64 * 1024
MAX_BLOCKS = 64


def emit_slice(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Write the update of a tensor.insert_slice into the buffer; blocks are runs of its rows."""
    insertion = find_operation(kernel, "tensor.insert_slice")
    frame = open_kernel(kernel)
    source = frame.buffers[insertion.operands[0]]
    shape, element = _shape(source), ir.MemRefType(source.type).element_type
    rows, width = prod(shape[:-1]), shape[-1] if shape else 1
    blocks = _num_blocks(rows, width * _bytes(element))
    destination = frame.outputs[0][1]
    lanes = target.lanes(_bytes(element))
    with kernel.location, frame.grid(blocks) as block:
        starts = run_time_starts(frame, insertion)
        with _rows_of_block(block, rows, blocks) as row:
            place = delinearize(row.induction_variable, shape[:-1])
            move_row(source, destination, place, [arith.addi(a, b) for a, b in zip(starts, place, strict=False)],
                     starts[-1] if starts else None, width, lanes, lambda new, _: new)  # fmt: skip


def _shape(buffer: ir.Value) -> list[int]:
    return list(ir.MemRefType(buffer.type).shape)


def _bytes(element: ir.Type) -> int:
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


def emit_scatter_add(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Add each update to its row, in order; blocks are ranges of columns, so that no two blocks touch one element."""
    operation = find_operation(kernel, "blu.scatter_add")
    frame = open_kernel(kernel)
    _, indices, updates = (frame.buffers[value] for value in operands_of(operation))
    axis = attributes_of(operation)["axis"]
    with kernel.location, frame.grid(_has_work(updates)):
        _add_rows(frame.outputs[0][1], indices, updates, axis, target)


def _has_work(updates: ir.Value) -> int:
    return 1 if prod(_shape(updates)) else 0


def _add_rows(destination: ir.Value, indices: ir.Value, updates: ir.Value, axis: int, target: CpuTarget) -> None:
    """For every position of the updates but the last dimension: find the destination's row and add to it."""
    shape, rank = _shape(updates), len(_shape(indices))
    element = ir.MemRefType(updates.type).element_type
    is_last = axis == len(_shape(destination)) - 1
    rows = shape if is_last else shape[:-1]
    with for_range(0, prod(rows)) as row:
        place = delinearize(row.induction_variable, rows)
        chosen = wrapped(memref.load(indices, place[axis : axis + rank]), _shape(destination)[axis])
        where = [*place[:axis], chosen, *place[axis + rank :]]
        if is_last:
            total = add_scalars(memref.load(updates, place), memref.load(destination, where))
            memref.store(total, destination, where)
        else:
            move_row(
                updates, destination, place, where, vectors.index(0), shape[-1], target.lanes(_bytes(element)), add
            )


def add(new: ir.Value, old: ir.Value) -> ir.Value:
    """The sum of vectors; halves are added in f32 and rounded."""
    element = ir.VectorType(new.type).element_type
    if isinstance(element, ir.IntegerType):
        return arith.addi(old, new)
    if element.width >= 32:
        return arith.addf(old, new)
    wide = vectors.vector_type(ir.VectorType(new.type).shape[0], ir.F32Type.get())
    return arith.truncf(new.type, arith.addf(arith.extf(wide, old), arith.extf(wide, new)))
