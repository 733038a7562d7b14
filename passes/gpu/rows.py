"""Row and pointwise kernels for GPUs: any group of linalg.generic ops over rows and columns.

What the group computes is read as on CPUs (row_program.py). Pointwise groups give each thread a few vectors; a row with
reductions belongs to a part of a warp, a warp, or a block, and stays in its registers if it fits. Results are the same
bits in every run: the order of all sums follows from shapes alone.
"""

from __future__ import annotations

from functools import partial
from math import ceil, prod

from blu.dialects.gpu_target import GpuTarget
from blu.dialects.mlir import arith, func, ir
from blu.passes.cpu.row_layout import Buffer, Layout, collapse, flatten, strides, tables
from blu.passes.cpu.row_program import RowProgram, analyse
from blu.passes.cpu.row_scope import ROW, Position, Scope
from blu.passes.cpu.rows import spell_out_fills
from blu.passes.gpu import loops, warp
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.row_bodies import GpuBodies, Place
from blu.passes.gpu.row_schedule import choose
from blu.passes.gpu.row_teams import SLOT_BYTES, Team
from blu.passes.gpu.row_walks import RowKernel, RowThread, as_index, split_number
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor

MOST_POINTS = 2**31 - 2**20
"""Vectors of a pointwise kernel and elements of a row are counted in i32, with room for a block beyond the end."""


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel of linalg.generic ops; one that has another form becomes simple loops."""
    spell_out_fills(kernel)
    frame = GpuKernel.open(kernel)
    program = analyse(frame.operations, partial(strides, frame))
    layout = collapse(program, frame) if program else None
    if not program or not _is_covered(program, layout):
        frame.replacement.operation.erase()
        return loops.emit(kernel, target)
    return _emit_rows(frame, program, layout)


def _is_covered(program: RowProgram, layout: Layout) -> bool:
    """Whether there is a schedule for a group: reductions are folds along the lanes, and nothing is empty."""
    folds = all(isinstance(reduction, list) for reduction in program.reductions.values())
    sizes = [layout.sizes[dim] for dim in layout.columns] + [0]
    fits = all(size > 0 for size in layout.sizes.values()) and prod(layout.sizes.values()) < MOST_POINTS * 4
    return folds and fits and prod(sizes[:-1]) < MOST_POINTS and (program.across or not layout.columns)


def _emit_rows(frame: GpuKernel, program: RowProgram, layout: Layout) -> list[func.FuncOp]:
    schedule = choose(program, layout, frame)
    read = set(frame.buffers.values())
    kernel = RowKernel.plan(program, layout, schedule, {value for value, buffer in frame.outputs if buffer in read})
    rows = prod(layout.sizes[dim] for dim in layout.rows)
    per_block = schedule.rows_per_block if layout.columns else schedule.threads * schedule.unroll * schedule.lanes
    slots = kernel.slots if schedule.team > warp.WARP else 0
    shared_bytes = slots * SLOT_BYTES
    with frame.function.location, frame.launch((ceil(rows / per_block),), schedule.threads, shared_bytes) as here:
        cursor = Cursor(frame.replacement.body.blocks[0])
        entry = Scope(frozenset(), cursor)
        bodies = GpuBodies(program, layout, entry)
        bind_memrefs(kernel, bodies, frame, cursor)
        if layout.columns:
            row, team = _row_of(kernel, frame, cursor, here, rows)
            RowThread(kernel, bodies, entry, row, team).emit()
        else:
            _emit_points(kernel, bodies, entry, here, rows)
    return frame.finish()


def _row_of(kernel: RowKernel, frame: GpuKernel, cursor: Cursor, here: Thread, rows: int) -> tuple[Place, Team]:
    """The row of this thread, and its place in the team that has it."""
    schedule = kernel.schedule
    sizes = {dim: kernel.layout.sizes[dim] for dim in kernel.layout.rows}
    with cursor.point:
        thread, block = warp.as_number(here.thread), warp.as_number(here.block[0])
        own, count = warp.divide(thread, schedule.team), schedule.rows_per_block
        row = block if count == 1 else warp.add(warp.multiply(block, count), own)
        present = None
        if rows % count:
            present = warp.is_below(row, rows)
            row = arith.select(present, row, warp.number(0))
        indices = {dim: as_index(value) for dim, value in split_number(row, sizes).items()}
        shared = shared_pointer(frame) if schedule.team > warp.WARP else None
        number = thread if count == 1 else warp.remainder(thread, schedule.team)
        team = Team(schedule.team, number, shared)
    return Place(frozenset({*sizes, ROW}), cursor, indices, None, {}, present), team


def _emit_points(kernel: RowKernel, bodies: GpuBodies, entry: Scope, here: Thread, points: int) -> None:
    """Vectors of a pointwise kernel: those of the threads of a block are neighbours."""
    schedule, layout = kernel.schedule, kernel.layout
    total = points // schedule.lanes
    places = []
    with entry.cursor.point:
        block, thread = warp.as_number(here.block[0]), warp.as_number(here.thread)
        first = warp.add(warp.multiply(block, schedule.threads * schedule.unroll), thread)
        for number in range(schedule.unroll):
            point = warp.add(first, number * schedule.threads)
            present = None
            if total % (schedule.threads * schedule.unroll):
                present = warp.is_below(point, total)
                point = arith.select(present, point, warp.number(0))
            places.append(_point_place(layout, entry.cursor, point, schedule.lanes, present))
    last = kernel.walks[-1]
    stacks = [[entry, place] for place in places]
    row = RowThread(kernel, bodies, entry, Place(frozenset(), entry.cursor), Team(1, thread, None))
    row.read(last, stacks)
    for scopes in stacks:
        for number in last.nodes:
            bodies.inline(kernel.program.nodes[number], scopes)
    for scopes in stacks:
        for value, buffer in kernel.outputs:
            bodies.store(value, buffer, scopes)


def _point_place(layout: Layout, cursor: Cursor, point: ir.Value, lanes: int, present: ir.Value | None) -> Place:
    """The place of vector number `point`."""
    sizes = {dim: layout.sizes[dim] // (lanes if dim == layout.vector_dim else 1) for dim in layout.rows}
    split = split_number(point, sizes)
    inner = split.pop(layout.vector_dim, None)
    base = vectors.index(0) if inner is None else as_index(warp.multiply(inner, lanes))
    indices = {dim: as_index(value) for dim, value in split.items()}
    return Place(frozenset({*sizes, ROW}), cursor, indices, Position(base, 0, lanes, lanes), {}, present)


def bind_memrefs(kernel: RowKernel, bodies: GpuBodies, frame: GpuKernel, cursor: Cursor) -> None:
    """Flat views of all memrefs, at the kernel's start."""
    used = {operand for node in kernel.program.nodes for operand in node.operation.operands} | tables(kernel.program)
    with cursor.point:
        for value, memref in frame.buffers.items():
            if value in used:
                flat = Buffer(flatten(memref), memref.type.element_type, {})
                bodies.inputs[value] = (flat, vectors.strides_of(memref))
        for value, memref in frame.outputs:
            steps = kernel.layout.strides(kernel.program.access_of(value), vectors.strides_of(memref))
            kernel.outputs.append((value, Buffer(flatten(memref), memref.type.element_type, steps)))
