"""Kernels of rows that add up columns as well: each block has a range of rows, and leaves one sum of it per column.

Where rows are reduced too, a block (or each of its teams of threads) walks over the rows of its range. A thread has the
same columns in every row, so their sums stay in its registers until the end; then teams add up theirs in order. Where
nothing is reduced but columns, threads walk down columns as in any other column sum.

Sums of ranges are added up by another kernel: see SplitColumnSums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from blu.dialects.gpu_target import GpuTarget
from blu.dialects.mlir import arith, func, ir
from blu.passes.cpu.row_layout import Buffer, Layout, collapse, flatten
from blu.passes.cpu.row_plan import Walk
from blu.passes.cpu.row_program import RowProgram, analyse
from blu.passes.cpu.row_scope import Scope
from blu.passes.cpu.row_space import Access
from blu.passes.cpu.rows import spell_out_fills
from blu.passes.fuse.loops import loop_nest
from blu.passes.gpu import loops, rows, warp
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.row_bodies import GpuBodies, Place
from blu.passes.gpu.row_columns import range_grid, words_of
from blu.passes.gpu.row_launch import Launches, open_launch, row_place, team_of
from blu.passes.gpu.row_partials import has_folds
from blu.passes.gpu.row_schedule import RowSchedule, choose_columns, choose_lanes, operands_of, team_of_warp
from blu.passes.gpu.row_teams import SLOT_BYTES, Team, all_of, combine_depth
from blu.passes.gpu.row_walks import RowKernel, RowThread
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.lower_to_linalg.generic import PARALLEL, REDUCTION, constant, fill, generic, projection

BLOCK = 128
"""Threads of a block whose rows are worked on by a part of it."""
WORDS_OF_WARP_ROW = 168
"""Registers that a thread may use for its share of a row and of sums, where a warp has a row."""
WORDS = {256: 80, 512: 80, 1024: 24}
"""The same for blocks that have a row, by their threads."""


@dataclass(frozen=True)
class RangeSum:
    """The sums over ranges of `length` rows of a value [rows, columns], which go to the memref `target`."""

    operation: ir.Operation
    length: int
    target: ir.Value

    @property
    def value(self) -> ir.Value:
        return self.operation.operands[0]

    @property
    def element(self) -> ir.Type:
        return self.operation.results[0].type.element_type


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel of linalg.generic ops, which may add up ranges of rows."""
    operations = [item.operation for item in kernel.entry_block.operations]
    nests = [loop_nest(operation, 0) for operation in operations if operation.name == "linalg.generic"]
    if not any(nest is not None and nest.range_length for nest in nests):
        return rows.emit(kernel, target)
    spell_out_fills(kernel)
    launches = Launches(kernel, target)
    walks_rows = any(nest is not None and nest.is_row_reduction for nest in nests)
    if not (_write_rows if walks_rows else _write_columns)(launches):
        launches.frames[0].replacement.operation.erase()
        return loops.emit(kernel, target)
    return launches.finish()


def _open(launches: Launches) -> tuple[GpuKernel, list[RangeSum], list[ir.Operation]]:
    """A launch without its sums over ranges, these sums, and all other operations."""
    frame = launches.open("")
    targets = dict(frame.outputs)
    sums = []
    for operation in frame.operations:
        nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
        if nest is not None and nest.range_length:
            sums.append(RangeSum(operation, nest.range_length, targets[operation.results[0]]))
    own = {item.operation for item in sums}
    zeros = {item.operation.operands[1].owner.operation for item in sums}
    others = [operation for operation in frame.operations if operation not in own | zeros]
    made = {item.operation.results[0] for item in sums}
    outputs = [(value, buffer) for value, buffer in frame.outputs if value not in made]
    return replace(frame, outputs=outputs), sums, others


# Rows and columns


def _write_rows(launches: Launches) -> bool:
    """Blocks for ranges of rows, threads for some columns of each; whether there is such a kernel."""
    frame, sums, operations = _open(launches)
    program = analyse(operations, lambda value: None)
    if not isinstance(program, RowProgram) or not program.across or not has_folds(program):
        return False
    layout = collapse(program, frame)
    if len(layout.rows) != 1 or len(layout.columns) != 1 or prod(layout.sizes.values()) >= 4 * rows.MOST_POINTS:
        return False
    schedule = _choose(program, layout, frame, len(sums))
    kernel = RowKernel.plan(program, layout, schedule, set())
    words = max(words_of(item.element) for item in sums) * schedule.lanes
    bytes_ = 4 * words * schedule.threads if schedule.rows_per_block > 1 else kernel.slots * SLOT_BYTES
    blocks = ceil(layout.sizes[layout.rows[0]] / sums[0].length)
    with open_launch(frame, kernel, blocks, schedule.threads, bytes_) as (here, bodies, entry):
        _RangeWriter(kernel, sums, bodies, entry, frame).emit(here)
    return True


def _choose(program: RowProgram, layout: Layout, frame: GpuKernel, count: int) -> RowSchedule:
    """How threads share a row, so that inputs and `count` sums stay in registers."""
    operands = operands_of(program, layout, frame)
    width = layout.sizes[layout.columns[0]]
    lanes = choose_lanes(operands, width)
    need = sum(max(operand.size, 4) / 4 for operand in operands if operand.is_input) + count
    team = team_of_warp(width, lanes)
    if ceil(width / (lanes * team)) * lanes * need <= WORDS_OF_WARP_ROW:
        return RowSchedule(BLOCK, team, lanes, 1, ceil(width / (lanes * team)))
    chunks = {threads: ceil(width / (lanes * threads)) for threads in WORDS}
    fitting = [threads for threads, limit in WORDS.items() if chunks[threads] * lanes * need <= limit]
    threads = fitting[0] if fitting else max(WORDS)
    return RowSchedule(threads, threads, lanes, 1, chunks[threads])


@dataclass
class SummingThread(RowThread):
    """A thread's share of a row whose columns are added up: `totals` has for each sum one for each of its vectors."""

    sums: Sequence[tuple[ir.Value, Access]]
    totals: list[list[ir.Value]]

    def read(self, walk: Walk, stacks: Sequence[list[Scope]]) -> None:
        super().read(walk, stacks)
        if self._is_last(walk):
            for scopes in stacks:
                for value, access in self.sums:
                    if value in self.bodies.inputs:
                        self.bodies.read(value, access, scopes)

    def _visit(self, walk: Walk, places: list[Place], totals: list[ir.Value | None]) -> list[ir.Value]:
        found = super()._visit(walk, places, totals)
        if self._is_last(walk):
            for number, place in enumerate(places):
                for (value, access), sums in zip(self.sums, self.totals, strict=True):
                    sums[number] = self._added(value, access, place, sums[number])
        return found

    def _is_last(self, walk: Walk) -> bool:
        """Whether all that is added up is known in a walk, and no other one follows."""
        return walk is [item for item in self.kernel.walks if not item.is_empty][-1]

    def _added(self, value: ir.Value, access: Access, place: Place, total: ir.Value) -> ir.Value:
        scopes = [self.entry, self.row, place]
        with place.cursor.point:
            term = self.bodies.as_vector(self.bodies.read(value, access, scopes), scopes)
            present = all_of([place.present, self.row.present])
            if present is not None:
                term = arith.select(present, term, vectors.constant(term.type, 0.0))
            return arith.addf(total, term)


@dataclass
class _RangeWriter:
    """Emits what one thread does for its block's range of rows."""

    kernel: RowKernel
    sums: list[RangeSum]
    bodies: GpuBodies
    entry: Scope
    frame: GpuKernel

    def emit(self, here: Thread) -> None:
        """Walk over the rows, then write the sums."""
        schedule, layout, cursor = self.kernel.schedule, self.kernel.layout, self.entry.cursor
        count, length = layout.sizes[layout.rows[0]], self.sums[0].length
        self._bind()
        with cursor.point:
            thread, block = warp.as_number(here.thread), warp.as_number(here.block[0])
            begin = warp.multiply(block, length)
            end = warp.add(begin, length)
            end = warp.smaller(end, count) if count % length else end
            own = warp.divide(thread, schedule.team)
            number = thread if schedule.rows_per_block == 1 else warp.remainder(thread, schedule.team)
            # Threads of a warp stay together: where it has several rows, all of them walk as far as the longest way.
            lower = warp.add(begin, own) if schedule.team >= warp.WARP else begin
            zeros = [vectors.constant(self._total_type(item), 0.0) for item in self.sums]
            step = warp.number(schedule.rows_per_block)
        team = team_of(self.frame, cursor, schedule.team, number)
        chunks = schedule.chunks or 0

        def body(inner: Cursor, row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            present = None
            with inner.point:
                if schedule.team < warp.WARP:
                    row = warp.add(row, own)
                    present = warp.is_below(row, end)
                    row = arith.select(present, row, begin)
            totals = [carried[place * chunks : (place + 1) * chunks] for place in range(len(self.sums))]
            place = row_place(self.kernel, inner, row, present)
            SummingThread(self.kernel, self.bodies, self.entry, place, team, self._terms, totals).emit()
            if self.kernel.slots == 1 and schedule.team > warp.WARP:
                with inner.point:
                    warp.wait_for_block()  # before the only slot is written again
            return [total for found in totals for total in found]

        totals = cursor.loop(lower, end, step, [zero for zero in zeros for _ in range(chunks)], body)
        for place, item in enumerate(self.sums):
            self._write(item, totals[place * chunks : (place + 1) * chunks], block, thread, team)

    def _bind(self) -> None:
        """Flat views of what only sums read."""
        for value in (item.value for item in self.sums):
            if value in self.frame.buffers and value not in self.bodies.inputs:
                memref = self.frame.buffers[value]
                with self.entry.cursor.point:
                    flat = Buffer(flatten(memref), memref.type.element_type, {})
                self.bodies.inputs[value] = (flat, vectors.strides_of(memref))

    @property
    def _terms(self) -> list[tuple[ir.Value, Access]]:
        access = (self.kernel.layout.rows[0], self.kernel.layout.columns[0])
        return [(item.value, access) for item in self.sums]

    def _total_type(self, item: RangeSum) -> ir.Type:
        lanes = self.kernel.schedule.lanes
        return item.element if lanes == 1 else vectors.vector_type(lanes, item.element)

    def _write(self, item: RangeSum, totals: list[ir.Value], block: ir.Value, thread: ir.Value, team: Team) -> None:
        """Write the sums of the block's range, which its teams have parts of."""
        schedule, layout, cursor = self.kernel.schedule, self.kernel.layout, self.entry.cursor
        row = row_place(self.kernel, cursor, block, None)
        share = RowThread(self.kernel, self.bodies, self.entry, row, team)
        with item.operation.location, cursor.point:
            steps = dict(zip((layout.rows[0], layout.columns[0]), vectors.strides_of(item.target), strict=True))
            buffer = Buffer(flatten(item.target), item.element, steps)
            first = warp.is_below(thread, schedule.team) if schedule.rows_per_block > 1 else None
            shared = shared_pointer(self.frame) if schedule.rows_per_block > 1 else None
        for place, total in zip(share.new_places(), totals, strict=True):
            with item.operation.location, cursor.point:
                if schedule.rows_per_block > 1:
                    total = combine_depth(shared, thread, total, arith.addf, schedule.team, schedule.rows_per_block)
                place.present = all_of([place.present, first])
            with item.operation.location:
                self.bodies.put(total, buffer, [self.entry, row, place])


# Columns alone


def _write_columns(launches: Launches) -> bool:
    """Threads for columns, blocks for ranges of rows; whether there is such a kernel."""
    results = _spell_out_sums(launches.kernel)
    frame, sums, operations = _open(launches)
    program = analyse(operations, lambda value: None)
    if not isinstance(program, RowProgram) or program.across or not has_folds(program):
        return False
    layout = collapse(program, frame)
    if any(program.levels) or 0 in layout.sizes.values() or prod(layout.sizes.values()) >= 4 * rows.MOST_POINTS:
        return False
    late = {value for value, _ in frame.outputs}
    kernel = RowKernel.plan(program, layout, choose_columns(program, layout, frame), late)
    grid = range_grid(kernel, sums[0].length)
    unrolls = range(1, kernel.schedule.unroll + 1)
    unroll = max([count for count in unrolls if grid.length % (grid.depth * count) == 0], default=1)
    kernel = replace(kernel, schedule=replace(kernel.schedule, unroll=unroll))
    found = {results[item.operation]: item.target for item in sums}
    rows.write_column_launch(frame, kernel, grid, found, True)
    return True


def _spell_out_sums(kernel: func.FuncOp) -> dict[ir.Operation, ir.Value]:
    """Put sums over all rows beside those over ranges: the same to a thread that has one range."""
    found = {}
    for operation in [item.operation for item in kernel.entry_block.operations]:
        nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
        if nest is None or not nest.range_length:
            continue
        element = operation.results[0].type.element_type
        with ir.InsertionPoint(operation), operation.location:
            zeros = fill(constant(element, 0.0), [nest.sizes[1]])
            maps = [projection(2, (0, 1)), projection(2, (1,))]
            add: Callable = lambda term, total: arith.addf(total, term)  # noqa: E731
            (found[operation],) = generic([nest.inputs[0]], [zeros], maps, [REDUCTION, PARALLEL], add)
    return found
