"""Row and pointwise kernels for GPUs: any group of linalg.generic ops over rows and columns.

What the group computes is read as on CPUs (rows/program.py). Pointwise groups give each thread a few vectors; a row
with reductions belongs to a part of a warp, a warp, or a block, and stays in registers if it fits; few long rows and
long columns are shared by several blocks, in several launches. Results are the same bits in every run: the order of all
sums follows from shapes and target alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, prod
from typing import Any

from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.lower.fast_math import mark
from blu.passes.gpu.others import loops
from blu.passes.gpu.others.loops import LoopsSchedule
from blu.passes.gpu.rows.ahead import write_ahead
from blu.passes.gpu.rows.bodies import GuardedScope
from blu.passes.gpu.rows.columns import ColumnGrid, ColumnThread, column_points, shared_bytes
from blu.passes.gpu.rows.group import RowGroup, read_group
from blu.passes.gpu.rows.launch import Launches, open_launch, row_place, team_of
from blu.passes.gpu.rows.schedule import (
    ColumnsSchedule,
    PointsSchedule,
    RowCut,
    RowsAheadSchedule,
    RowsSchedule,
    SlicesSchedule,
    SquaresSchedule,
    SweepSchedule,
    schedule_of,
)
from blu.passes.gpu.rows.slices import SliceThread, nonempty_walks, result_values
from blu.passes.gpu.rows.teams import SLOT_BYTES, Team
from blu.passes.gpu.rows.transposes import THREADS, SquareThread, find_square
from blu.passes.gpu.rows.walks import RowKernel, RowThread, as_index, split_number
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.layout import Layout, flatten
from blu.passes.kernels.rows.program import RowProgram
from blu.passes.kernels.rows.scope import ROW, LanePosition, Scope
from blu.passes.kernels.schedules import Schedule, refused


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel of linalg.generic ops, as its schedule says. PassError where it says nothing, or not yet how."""
    schedule = schedule_of(kernel)
    if isinstance(schedule, LoopsSchedule):
        return loops.emit(kernel, target)
    if type(schedule) not in _WRITERS:
        message = f"the schedule of kernel '{kernel.name.value}' is of kind '{schedule.kind}', which does not say how"
        raise refused(kernel, message, "blu-fit-schedules decides, before blu-emit-gpu-kernels.")
    launches = Launches(kernel, target)
    frame = launches.open("")
    group = read_group(frame)
    assert group is not None, f"{kernel.name.value} is of another form than its schedule"
    _WRITERS[type(schedule)](launches, group, schedule)
    if _is_of_halves(group.program, frame):
        mark([item.replacement for item in launches.frames])
    return launches.finish()


def _is_of_halves(program: RowProgram, frame: GpuKernel) -> bool:
    """Whether all floats that are read or written at every column have 16 bits: what reductions find may be f32."""
    read = {operand for node in program.nodes for operand in node.operation.operands if operand in frame.buffers}
    whole = [value for value in read if len(value.type.shape) == len(program.sizes)]
    wide = [value for value in program.outputs if program.is_wide(value)]
    written = wide if program.reductions else program.outputs
    floats = [value.type.element_type for value in (*whole, *written) if _is_float(value)]
    return bool(wide) and bool(floats) and all(type_.width == 16 for type_ in floats)


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type.element_type, ir.FloatType)


def _write_rows(launches: Launches, group: RowGroup, schedule: RowsSchedule | SweepSchedule) -> None:
    """A row for each team of threads."""
    (frame,) = launches.frames
    kernel, rows = RowKernel.plan(group, schedule.cut(group.width)), group.rows
    cut = kernel.cut
    bytes_ = kernel.slots * SLOT_BYTES if cut.team > WARP else 0
    if isinstance(schedule, SweepSchedule) and schedule.per_processor == 1:
        bytes_ = max(bytes_, launches.target.shared_bytes_per_processor // 2)
    blocks = ceil(rows / cut.rows_per_block)
    with open_launch(frame, kernel, blocks, cut.threads, bytes_) as (here, bodies, entry):
        row, team = _row_of(kernel, frame, entry.cursor, here, rows)
        RowThread(kernel, bodies, entry, row, team).emit()


def _row_of(kernel: RowKernel, frame: GpuKernel, cursor: Cursor, here: Thread, rows: int) -> tuple[GuardedScope, Team]:
    """The row of this thread, and its place in the team that has it."""
    cut = kernel.cut
    with cursor.point:
        thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
        own, count = numbers.divide(thread, cut.team), cut.rows_per_block
        row = block if count == 1 else numbers.add(numbers.multiply(block, count), own)
        present = None
        if rows % count:
            present = numbers.is_below(row, rows)
            row = arith.select(present, row, numbers.number(0))
        number = thread if count == 1 else numbers.remainder(thread, cut.team)
    return row_place(kernel, cursor, row, present), team_of(frame, cursor, cut.team, number)


def _write_slices(launches: Launches, group: RowGroup, schedule: SlicesSchedule) -> None:
    """A block for each slice of a row, and a launch for each walk over rows."""
    (frame,) = launches.frames
    kernel, rows, parts = RowKernel.plan(group, schedule.cut(group.width)), group.rows, schedule.split
    levels = nonempty_walks(kernel)
    last_reduces = bool(kernel.walks[levels[-1]].reductions)
    for place, level in enumerate(levels):
        frame = frame if place == 0 else launches.open(f"_walk{place}")
        ends = level == levels[-1] and not last_reduces
        _write_slice_walk(frame, kernel, (rows, parts), level, ends)
    if last_reduces:
        team = max(WARP, 1 << (parts - 1).bit_length())
        kernel = replace(kernel, cut=replace(kernel.cut, threads=team, team=team))
        _write_slice_walk(launches.open("_end"), kernel, (rows, 0), len(kernel.walks) - 1, True, parts)


def _write_slice_walk(
    frame: GpuKernel, kernel: RowKernel, counts: tuple[int, int], level: int, ends: bool, parts: int = 0
) -> None:
    """One launch: of slices, or (if there are none) of rows whose slices are put together."""
    rows, slices = counts
    cut = kernel.cut
    with open_launch(frame, kernel, rows * max(slices, 1), cut.threads, kernel.slots * SLOT_BYTES) as launched:
        here, bodies, entry = launched
        with entry.cursor.point:
            thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
            number = numbers.divide(block, slices) if slices else block
            part = numbers.remainder(block, slices) if slices else None
        row, team = row_place(kernel, entry.cursor, number, None), team_of(frame, entry.cursor, cut.team, thread)
        partials = dict(zip(result_values(kernel), map(flatten, frame.scratch), strict=True))
        share = SliceThread(kernel, bodies, entry, row, team, part, slices or parts, number, partials)
        share.emit_walk(level, ends)


def _write_columns(launches: Launches, group: RowGroup, schedule: ColumnsSchedule) -> None:
    """Threads for columns, blocks for ranges of rows."""
    (frame,) = launches.frames
    kernel = RowKernel.plan(group, schedule.cut(group.width))
    scratch = frame.scratch if schedule.split > 1 else []
    grid = ColumnGrid.of(kernel, schedule.width, schedule.split * schedule.cluster)
    write_column_launch(frame, kernel, grid, dict(zip(result_values(kernel), scratch, strict=False)), True)
    if scratch:
        frame = launches.open("_end")
        write_column_launch(frame, kernel, grid, dict(zip(result_values(kernel), frame.scratch, strict=True)), False)


def write_column_launch(
    frame: GpuKernel, kernel: RowKernel, grid: ColumnGrid, found: dict[ir.Value, ir.Value], is_first: bool
) -> None:
    """One launch: of ranges of rows, or of what they have left; `found` are the memrefs for that, by result."""
    lanes, points = kernel.cut.lanes, column_points(kernel) // kernel.cut.lanes
    blocks = grid.tiles * (grid.parts if is_first else 1)
    bytes_, cluster = shared_bytes(kernel, grid.width), kernel.cut.cluster
    with open_launch(frame, kernel, blocks, kernel.cut.threads, bytes_) as (here, bodies, entry):
        cursor = entry.cursor
        with cursor.point:
            thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
            tile, part = numbers.remainder(block, grid.tiles), numbers.divide(block, grid.tiles)
            if cluster > 1:
                tile, part = numbers.divide(block, cluster), numbers.remainder(block, cluster)
            point = numbers.add(numbers.multiply(tile, grid.width), numbers.remainder(thread, grid.width))
            present = None
            if points % grid.width:
                present = numbers.is_below(point, points)
                point = arith.select(present, point, numbers.number(0))
            row = _point_place(kernel.layout, cursor, point, lanes, present)
            team = Team(kernel.cut.threads, thread, shared_pointer(frame))
            depth = numbers.divide(thread, grid.width)
            partials = {value: flatten(memref) for value, memref in found.items()}
        share = ColumnThread(kernel, bodies, entry, row, team, grid, depth, part, partials, point)
        if is_first:
            share.emit_sums()
        else:
            share.emit_results()


def _write_points(launches: Launches, group: RowGroup, schedule: PointsSchedule) -> None:
    """Vectors of a pointwise kernel: those of the threads of a block are neighbours."""
    (frame,) = launches.frames
    layout, kernel = group.layout, RowKernel.plan(group, schedule.cut(1))
    total = prod(layout.sizes.values()) // schedule.lanes
    per_block = schedule.threads * schedule.unroll
    with open_launch(frame, kernel, ceil(total / per_block), schedule.threads, 0) as (here, bodies, entry):
        places = []
        with entry.cursor.point:
            block, thread = numbers.as_number(here.block[0]), numbers.as_number(here.thread)
            first = numbers.add(numbers.multiply(block, per_block), thread)
            for number in range(schedule.unroll):
                point = numbers.add(first, number * schedule.threads)
                present = None
                if total % per_block:
                    present = numbers.is_below(point, total)
                    point = arith.select(present, point, numbers.number(0))
                places.append(_point_place(layout, entry.cursor, point, schedule.lanes, present))
        share = RowThread(kernel, bodies, entry, GuardedScope(frozenset(), entry.cursor), Team(1, thread, None))
        _compute_points(share, [[entry, place] for place in places])


def _write_squares(launches: Launches, group: RowGroup, schedule: SquaresSchedule) -> None:
    """Tiles of a pointwise kernel that transposes."""
    (frame,) = launches.frames
    layout, square = group.layout, find_square(group.program, group.layout, frame)
    assert square is not None, "tiles of a kernel that transposes nothing"
    square = replace(square, side=schedule.side)
    kernel = RowKernel.plan(group, RowCut(THREADS, 1, 1, 1, 1))
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
    base = vectors.index(0) if inner is None else as_index(numbers.multiply(inner, lanes))
    indices = {dim: as_index(value) for dim, value in split.items()}
    return GuardedScope(frozenset({*sizes, ROW}), cursor, indices, LanePosition(base, 0, lanes, lanes), {}, present)


_WRITERS: dict[type[Schedule], Callable[[Launches, RowGroup, Any], None]] = {
    RowsSchedule: _write_rows,
    SweepSchedule: _write_rows,
    RowsAheadSchedule: write_ahead,
    SlicesSchedule: _write_slices,
    ColumnsSchedule: _write_columns,
    PointsSchedule: _write_points,
    SquaresSchedule: _write_squares,
}
