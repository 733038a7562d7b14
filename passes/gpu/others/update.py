"""Kernels that change a part of a buffer in place: a slice at run-time positions, or a few rows that are added to."""

from __future__ import annotations

from math import ceil, prod

from blu.dialects.core.mlir import arith, func, ir, memref, scf
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.kernel import GpuKernel, Thread, below, when
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.updates import add_terms, delinearize, find_operation, rounded, run_time_starts, wrapped

THREADS = 256
# Threads that each walk all updates of their column: few to a block, so that they are on many processors.
COLUMN_THREADS = 32


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Each thread writes one element of the update of a tensor.insert_slice into the buffer."""
    insertion = find_operation(kernel, "tensor.insert_slice")
    frame = GpuKernel.open(kernel)
    source, destination = frame.buffers[insertion.operands[0]], frame.outputs[0][1]
    shape = list(ir.MemRefType(source.type).shape)
    with kernel.location, frame.launch((_blocks(prod(shape), THREADS),), THREADS) as here:
        point = _point(here, THREADS)
        with when(below(point, prod(shape))):
            starts = run_time_starts(frame, insertion)
            place = delinearize(point, shape)
            where = [arith.addi(start, index) for start, index in zip(starts, place, strict=True)]
            memref.store(memref.load(source, place), destination, where)
    return frame.finish()


def add_columns(kernel: func.FuncOp) -> list[func.FuncOp]:
    """Replace a kernel around a blu.scatter_add of few updates: each thread adds those of one column, in order."""
    operation = find_operation(kernel, "blu.scatter_add")
    frame = GpuKernel.open(kernel)
    _, indices, updates = (frame.buffers[value] for value in operands_of(operation))
    axis = attributes_of(operation)["axis"]
    chosen, shape = list(ir.MemRefType(indices.type).shape), list(ir.MemRefType(updates.type).shape)
    columns = [*shape[:axis], *shape[axis + len(chosen) :]]
    grid = (_blocks(prod(columns), COLUMN_THREADS),)
    with kernel.location, frame.launch(grid, COLUMN_THREADS) as here:
        point = _point(here, COLUMN_THREADS)
        if prod(shape):
            with when(below(point, prod(columns))):
                _add_column(frame.outputs[0][1], indices, updates, axis, delinearize(point, columns))
    return frame.finish()


def _add_column(destination: ir.Value, indices: ir.Value, updates: ir.Value, axis: int, column: list[ir.Value]) -> None:
    chosen = list(ir.MemRefType(indices.type).shape)
    size = ir.MemRefType(destination.type).shape[axis]
    loop = scf.ForOp(vectors.index(0), vectors.index(prod(chosen)), vectors.index(1))
    with ir.InsertionPoint(loop.body):
        place = delinearize(loop.induction_variable, chosen)
        row = wrapped(memref.load(indices, place), size)
        where = [*column[:axis], row, *column[axis:]]
        new = memref.load(updates, [*column[:axis], *place, *column[axis:]])
        total = add_terms(memref.load(destination, where), new)
        memref.store(rounded(total, new.type), destination, where)
        scf.yield_([])


def _point(here: Thread, threads: int) -> ir.Value:
    return arith.addi(arith.muli(here.block[0], vectors.index(threads)), here.thread)


def _blocks(points: int, threads: int) -> int:
    return max(1, ceil(points / threads))
