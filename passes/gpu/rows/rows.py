"""Row and pointwise kernels for GPUs: any group of linalg.generic ops over rows and columns.

What the group computes is read as on CPUs (rows/program.py). Pointwise groups give each thread a few vectors; a row
with reductions belongs to a part of a warp, a warp, or a block, and stays in registers if it fits; few long rows and
long columns are shared by several blocks, in several launches. Results are the same bits in every run: the order of all
sums follows from shapes and target alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod

from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.isa import warp
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.lower.fast_math import mark
from blu.passes.gpu.others import loops
from blu.passes.gpu.rows.ahead import try_ahead
from blu.passes.gpu.rows.bodies import GuardedScope
from blu.passes.gpu.rows.columns import THREADS, ColumnGrid, ColumnThread, column_grid, column_points, shared_bytes
from blu.passes.gpu.rows.launch import Launches, open_launch, row_place, team_of
from blu.passes.gpu.rows.partials import has_folds
from blu.passes.gpu.rows.schedule import RowSchedule, choose, choose_columns, choose_sweep
from blu.passes.gpu.rows.slices import SliceThread, nonempty_walks, result_values
from blu.passes.gpu.rows.teams import SLOT_BYTES, Team
from blu.passes.gpu.rows.transposes import SquareThread, find_square
from blu.passes.gpu.rows.walks import RowKernel, RowThread, as_index, split_number
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.fills import spell_out_fills
from blu.passes.kernels.rows.layout import Layout, collapse, flatten, strides
from blu.passes.kernels.rows.program import RowProgram, analyse
from blu.passes.kernels.rows.scope import ROW, LanePosition, Scope

MOST_POINTS = 2**31 - 2**20
"""Vectors of a pointwise kernel and elements of a row are counted in i32, with room for a block beyond the end."""


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel of linalg.generic ops; one that has another form becomes simple loops."""
    spell_out_fills(kernel)
    launches = Launches(kernel, target)
    frame = launches.open("")
    program = analyse(frame.operations, partial(strides, frame))
    layout = collapse(program, frame) if isinstance(program, RowProgram) else None
    if not isinstance(program, RowProgram) or layout is None or not _is_covered(program, layout):
        frame.replacement.operation.erase()
        return loops.emit(kernel, target)
    _choose_writer(program, layout, launches)(launches, program, layout, frame.written_over)
    if _is_of_halves(program, frame):
        mark([item.replacement for item in launches.frames])
    return launches.finish()


def _is_of_halves(program: RowProgram, frame: GpuKernel) -> bool:
    """Whether all floats that are read or written at every column have 16 bits: what is found for rows may be f32."""
    read = {operand for node in program.nodes for operand in node.operation.operands if operand in frame.buffers}
    whole = [value for value in read if len(value.type.shape) == len(program.sizes)]
    wide = [value for value in program.outputs if program.is_wide(value)]
    floats = [value.type.element_type for value in (*whole, *wide) if _is_float(value)]
    return bool(wide) and bool(floats) and all(type_.width == 16 for type_ in floats)


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type.element_type, ir.FloatType)


FEW_ELEMENTS = 16
"""Elements that a thread of a sweep reads at once, below which two such blocks fit on a processor."""


def _is_covered(program: RowProgram, layout: Layout) -> bool:
    """Whether there is a schedule for a group: its reductions are folds, and nothing is empty or too large to count."""
    sizes = list(layout.sizes.values())
    if not has_folds(program) or 0 in sizes or prod(sizes) >= 4 * MOST_POINTS:
        return False
    if prod(layout.sizes[dim] for dim in layout.columns) >= MOST_POINTS:
        return False
    if program.across or not layout.columns:
        return True
    first = all(program.levels[number] == 0 for number in program.reductions)
    return first and not any(program.is_wide(value) for value in program.outputs)


Writer = Callable[[Launches, RowProgram, Layout, set[ir.Value]], None]


def _choose_writer(program: RowProgram, layout: Layout, launches: Launches) -> Writer:
    """What emits the kernel."""
    if not layout.columns:
        return _write_squares if find_square(program, layout, launches.frames[0]) else _write_points
    if not program.across:
        return _write_columns
    return _write_slices if launches.frames[0].scratch else _write_rows


def _write_rows(launches: Launches, program: RowProgram, layout: Layout, late: set[ir.Value]) -> None:
    """A row for each team of threads."""
    (frame,) = launches.frames
    schedule = choose(program, layout, frame)
    kernel = RowKernel.plan(program, layout, schedule, late)
    rows = prod(layout.sizes[dim] for dim in layout.rows)
    if (schedule.hides or schedule.chunks is None) and try_ahead(launches, kernel, rows, late):
        return
    bytes_ = kernel.slots * SLOT_BYTES if schedule.team > warp.WARP else 0
    if schedule.chunks is None and schedule.lanes * schedule.unroll < FEW_ELEMENTS:
        # A second block on a processor, for which there are registers, would drive out of the second-level cache what
        # this one reads again.
        bytes_ = max(bytes_, launches.target.shared_bytes_per_processor // 2)
    blocks = ceil(rows / schedule.rows_per_block)
    with open_launch(frame, kernel, blocks, schedule.threads, bytes_) as (here, bodies, entry):
        row, team = _row_of(kernel, frame, entry.cursor, here, rows)
        RowThread(kernel, bodies, entry, row, team).emit()


def _row_of(kernel: RowKernel, frame: GpuKernel, cursor: Cursor, here: Thread, rows: int) -> tuple[GuardedScope, Team]:
    """The row of this thread, and its place in the team that has it."""
    schedule = kernel.schedule
    with cursor.point:
        thread, block = warp.as_number(here.thread), warp.as_number(here.block[0])
        own, count = warp.divide(thread, schedule.team), schedule.rows_per_block
        row = block if count == 1 else warp.add(warp.multiply(block, count), own)
        present = None
        if rows % count:
            present = warp.is_below(row, rows)
            row = arith.select(present, row, warp.number(0))
        number = thread if count == 1 else warp.remainder(thread, schedule.team)
    return row_place(kernel, cursor, row, present), team_of(frame, cursor, schedule.team, number)


def _write_slices(launches: Launches, program: RowProgram, layout: Layout, late: set[ir.Value]) -> None:
    """A block for each slice of a row, and a launch for each walk over rows."""
    (frame,) = launches.frames
    kernel = RowKernel.plan(program, layout, choose_sweep(program, layout, frame), late)
    rows = prod(layout.sizes[dim] for dim in layout.rows)
    parts = ir.MemRefType(frame.scratch[0].type).shape[0] // rows
    levels = nonempty_walks(kernel)
    last_reduces = bool(kernel.walks[levels[-1]].reductions)
    for place, level in enumerate(levels):
        frame = frame if place == 0 else launches.open(f"_walk{place}")
        ends = level == levels[-1] and not last_reduces
        _write_slice_walk(frame, kernel, (rows, parts), level, ends)
    if last_reduces:
        team = max(warp.WARP, 1 << (parts - 1).bit_length())
        kernel = replace(kernel, schedule=replace(kernel.schedule, threads=team, team=team))
        _write_slice_walk(launches.open("_end"), kernel, (rows, 0), len(kernel.walks) - 1, True, parts)


def _write_slice_walk(
    frame: GpuKernel, kernel: RowKernel, counts: tuple[int, int], level: int, ends: bool, parts: int = 0
) -> None:
    """One launch: of slices, or (if there are none) of rows whose slices are put together."""
    rows, slices = counts
    schedule = kernel.schedule
    with open_launch(frame, kernel, rows * max(slices, 1), schedule.threads, kernel.slots * SLOT_BYTES) as launched:
        here, bodies, entry = launched
        with entry.cursor.point:
            thread, block = warp.as_number(here.thread), warp.as_number(here.block[0])
            number = warp.divide(block, slices) if slices else block
            part = warp.remainder(block, slices) if slices else None
        row, team = row_place(kernel, entry.cursor, number, None), team_of(frame, entry.cursor, schedule.team, thread)
        partials = dict(zip(result_values(kernel), map(flatten, frame.scratch), strict=True))
        share = SliceThread(kernel, bodies, entry, row, team, part, slices or parts, number, partials)
        share.emit_walk(level, ends)


def _write_columns(launches: Launches, program: RowProgram, layout: Layout, late: set[ir.Value]) -> None:
    """Threads for columns, blocks for ranges of rows."""
    (frame,) = launches.frames
    kernel = RowKernel.plan(program, layout, choose_columns(program, layout, frame), late)
    scratch = frame.scratch
    grid = column_grid(kernel, ir.MemRefType(scratch[0].type).shape[0] // column_points(kernel) if scratch else 1)
    write_column_launch(frame, kernel, grid, dict(zip(result_values(kernel), scratch, strict=False)), True)
    if scratch:
        frame = launches.open("_end")
        write_column_launch(frame, kernel, grid, dict(zip(result_values(kernel), frame.scratch, strict=True)), False)


def write_column_launch(
    frame: GpuKernel, kernel: RowKernel, grid: ColumnGrid, found: dict[ir.Value, ir.Value], is_first: bool
) -> None:
    """One launch: of ranges of rows, or of what they have left; `found` are the memrefs for that, by result."""
    lanes, points = kernel.schedule.lanes, column_points(kernel) // kernel.schedule.lanes
    blocks = grid.tiles * (grid.parts if is_first else 1)
    with open_launch(frame, kernel, blocks, THREADS, shared_bytes(kernel)) as (here, bodies, entry):
        cursor = entry.cursor
        with cursor.point:
            thread, block = warp.as_number(here.thread), warp.as_number(here.block[0])
            tile, part = warp.remainder(block, grid.tiles), warp.divide(block, grid.tiles)
            point = warp.add(warp.multiply(tile, grid.width), warp.remainder(thread, grid.width))
            present = None
            if points % grid.width:
                present = warp.is_below(point, points)
                point = arith.select(present, point, warp.number(0))
            row = _point_place(kernel.layout, cursor, point, lanes, present)
            team = Team(THREADS, thread, shared_pointer(frame))
            depth = warp.divide(thread, grid.width)
            partials = {value: flatten(memref) for value, memref in found.items()}
        share = ColumnThread(kernel, bodies, entry, row, team, grid, depth, part, partials, point)
        if is_first:
            share.emit_sums()
        else:
            share.emit_results()


def _write_points(launches: Launches, program: RowProgram, layout: Layout, late: set[ir.Value]) -> None:
    """Vectors of a pointwise kernel: those of the threads of a block are neighbours."""
    (frame,) = launches.frames
    schedule = choose(program, layout, frame)
    kernel = RowKernel.plan(program, layout, schedule, late)
    total = prod(layout.sizes.values()) // schedule.lanes
    per_block = schedule.threads * schedule.unroll
    with open_launch(frame, kernel, ceil(total / per_block), schedule.threads, 0) as (here, bodies, entry):
        places = []
        with entry.cursor.point:
            block, thread = warp.as_number(here.block[0]), warp.as_number(here.thread)
            first = warp.add(warp.multiply(block, per_block), thread)
            for number in range(schedule.unroll):
                point = warp.add(first, number * schedule.threads)
                present = None
                if total % per_block:
                    present = warp.is_below(point, total)
                    point = arith.select(present, point, warp.number(0))
                places.append(_point_place(layout, entry.cursor, point, schedule.lanes, present))
        share = RowThread(kernel, bodies, entry, GuardedScope(frozenset(), entry.cursor), Team(1, thread, None))
        _compute_points(share, [[entry, place] for place in places])


def _write_squares(launches: Launches, program: RowProgram, layout: Layout, late: set[ir.Value]) -> None:
    """Tiles of a pointwise kernel that transposes."""
    (frame,) = launches.frames
    square = find_square(program, layout, frame)
    assert square is not None, "tiles of a kernel that transposes nothing"
    schedule = RowSchedule(THREADS, 1, 1, 1, 1)
    kernel = RowKernel.plan(program, layout, schedule, late)
    bytes_ = 4 * square.words * len(square.sources)
    with open_launch(frame, kernel, square.blocks(layout), THREADS, bytes_) as (here, bodies, entry):
        with entry.cursor.point:
            shared = shared_pointer(frame)
        stacks = SquareThread(square, layout, bodies, entry, shared).places(here)
        share = RowThread(kernel, bodies, entry, GuardedScope(frozenset(), entry.cursor), Team(1, shared, None))
        _compute_points(share, stacks)


def _compute_points(share: RowThread, stacks: Sequence[list[Scope]]) -> None:
    """Read all, compute all, write all."""
    last = share.kernel.walks[-1]
    share.read(last, stacks)
    for scopes in stacks:
        for number in last.nodes:
            share.bodies.inline(share.kernel.program.nodes[number], scopes)
    for scopes in stacks:
        for value, buffer in share.kernel.outputs:
            share.bodies.store(value, buffer, scopes)


def _point_place(layout: Layout, cursor: Cursor, point: ir.Value, lanes: int, present: ir.Value | None) -> GuardedScope:
    """The place of vector number `point`."""
    sizes = {dim: layout.sizes[dim] // (lanes if dim == layout.vector_dim else 1) for dim in layout.rows}
    split = split_number(point, sizes)
    inner = None if layout.vector_dim is None else split.pop(layout.vector_dim, None)
    base = vectors.index(0) if inner is None else as_index(warp.multiply(inner, lanes))
    indices = {dim: as_index(value) for dim, value in split.items()}
    return GuardedScope(frozenset({*sizes, ROW}), cursor, indices, LanePosition(base, 0, lanes, lanes), {}, present)
