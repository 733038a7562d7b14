"""Kernels of rows that add up columns as well: each block has a range of rows, and leaves one sum of it per column.

Where rows are reduced too, a block (or each of its teams of threads) walks over the rows of its range. A thread has the
same columns in every row, so their sums stay in its registers until the end; then teams add up theirs in order. Where
nothing is reduced but columns, threads walk down columns as in any other column sum.

Sums of ranges are added up by another kernel: see SplitColumnSums.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import ceil, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, cp_async
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.rows import rows
from blu.passes.gpu.rows.ahead import Prefetch, RowSource, copied, shared_bytes
from blu.passes.gpu.rows.bodies import GpuBodies, GuardedScope
from blu.passes.gpu.rows.columns import ColumnGrid, spell_out_sums, words_of
from blu.passes.gpu.rows.group import MOST_POINTS, RowGroup, has_folds
from blu.passes.gpu.rows.launch import Launches, open_launch, row_place, team_of
from blu.passes.gpu.rows.schedule import AHEAD, ColumnRangesSchedule, RowRangesSchedule, schedule_of
from blu.passes.gpu.rows.teams import Team, all_of, combine_depth
from blu.passes.gpu.rows.turned import RowStage, SummingThread, TurnedRows
from blu.passes.gpu.rows.walks import RowKernel, RowThread
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.layout import FlatBuffer, collapse, flatten
from blu.passes.kernels.rows.program import RowProgram, analyse
from blu.passes.kernels.rows.scope import Scope
from blu.passes.kernels.rows.space import Access
from blu.passes.loops.fuse.loops import LoopNest, loop_nest


@dataclass(frozen=True)
class RangeSum:
    """The sums over ranges of `length` rows of a value [rows, columns], which go to the memref `target`.

    Rows of a range are neighbours, or dealt out to `ranges` of them, `piece` at a time.
    """

    operation: ir.Operation
    length: int
    target: ir.Value
    piece: int
    ranges: int

    @property
    def is_dealt(self) -> bool:
        """Whether the rows of a range lie apart: then they are counted from 0 on."""
        return self.piece < self.length

    @property
    def value(self) -> ir.Value:
        return self.operation.operands[0]

    @property
    def element(self) -> ir.Type:
        return self.operation.results[0].type.element_type


@dataclass(frozen=True)
class RangeGroup(RowGroup):
    """A group of ops whose sums over ranges of rows are apart. All that it writes is written last."""

    sums: list[RangeSum]

    @cached_property
    def turned(self) -> TurnedRows:
        """Results that are written turned around."""
        return TurnedRows.of(self, self.sums[0].piece)

    @property
    def late(self) -> set[ir.Value]:
        return {value for value, _ in self.frame.outputs}


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel of linalg.generic ops, which may add up ranges of rows, as its schedule says."""
    schedule = schedule_of(kernel)
    if not isinstance(schedule, RowRangesSchedule | ColumnRangesSchedule):
        return rows.emit(kernel, target)
    launches = Launches(kernel, target)
    if isinstance(schedule, RowRangesSchedule):
        _write_rows(launches, schedule)
    else:
        _write_columns(launches, schedule)
    return launches.finish()


def has_ranges(kernel: func.FuncOp) -> bool:
    """Whether a kernel adds up ranges of rows."""
    return any(nest is not None and (nest.range_length or nest.dealt) for nest in _nests(kernel))


def range_length(kernel: func.FuncOp) -> int:
    """How many neighbouring rows these ranges have; 0 if there are none."""
    return max((nest.range_length for nest in _nests(kernel) if nest is not None), default=0)


def has_rows(kernel: func.FuncOp) -> bool:
    """Whether a kernel reduces rows, too."""
    return any(nest is not None and nest.is_row_reduction for nest in _nests(kernel))


def _nests(kernel: func.FuncOp) -> list[LoopNest | None]:
    operations = [item.operation for item in kernel.entry_block.operations]
    return [loop_nest(operation, 0) for operation in operations if operation.name == "linalg.generic"]


def _read(frame: Kernel) -> tuple[Kernel, list[RangeSum], list[ir.Operation]]:
    """A kernel without its sums over ranges, these sums, and all other operations."""
    targets = dict(frame.outputs)
    sums = []
    for operation in frame.operations:
        nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
        if nest is not None and (nest.range_length or nest.dealt):
            rows, length = nest.sizes[0], nest.range_length
            piece, ranges = nest.dealt or (length, ceil(rows / length))
            sums.append(RangeSum(operation, length or rows // ranges, targets[operation.results[0]], piece, ranges))
    own = {item.operation for item in sums}
    zeros = {item.operation.operands[1].owner.operation for item in sums}
    others = [operation for operation in frame.operations if operation not in own | zeros]
    made = {item.operation.results[0] for item in sums}
    outputs = [(value, buffer) for value, buffer in frame.outputs if value not in made]
    return replace(frame, outputs=outputs), sums, others


# Rows and columns


def read_rows(frame: Kernel) -> RangeGroup | None:
    """What walks over rows and adds up their columns; None where it has a form that only loops have."""
    frame, sums, operations = _read(frame)
    program = analyse(operations, lambda value: None)
    if not isinstance(program, RowProgram) or not program.across or not has_folds(program):
        return None
    layout = collapse(program, frame)
    if len(layout.rows) != 1 or len(layout.columns) != 1 or prod(layout.sizes.values()) >= 4 * MOST_POINTS:
        return None
    return RangeGroup(frame, program, layout, sums)


def copied_ahead(group: RangeGroup, schedule: RowRangesSchedule, target: GpuTarget) -> list[RowSource]:
    """The rows that can be copied ahead; none where one of them cannot, or there is no room."""
    kernel = RowKernel.plan(group, schedule.cut(group.width))
    row, column = kernel.layout.rows[0], kernel.layout.columns[0]
    read = {item.value: (row, column) for item in group.sums}
    for node in kernel.program.nodes:
        read |= dict(zip(node.operation.operands, node.accesses, strict=True))
    buffers = group.frame.buffers
    whole = {value: access for value, access in read.items() if value in buffers and {row, column} <= {*access}}
    found = copied(whole, kernel, group.frame)
    return found if shared_bytes(kernel, found) + group.turned.least_bytes(kernel.cut) <= target.shared_bytes else []


def _write_rows(launches: Launches, schedule: RowRangesSchedule) -> None:
    """Blocks for ranges of rows, threads for some columns of each."""
    frame = launches.open("")
    group = read_rows(frame)
    assert group is not None, "ranges of rows of another form than their schedule"
    kernel, sums = RowKernel.plan(group, schedule.cut(group.width)), group.sums
    words = max(words_of(item.element) for item in sums) * schedule.lanes
    bytes_ = 4 * words * schedule.threads if kernel.cut.rows_per_block > 1 else kernel.slot_bytes
    sources = copied_ahead(group, schedule, launches.target) if schedule.reads == AHEAD else []
    begin = shared_bytes(kernel, sources)
    staged = group.turned.staged(kernel.cut, launches.target.shared_bytes - begin)
    if sources or staged:
        bytes_ = max(bytes_, begin + group.turned.bytes(staged))
    blocks = ceil(group.rows / sums[0].length)
    with open_launch(group.frame, kernel, blocks, schedule.threads, bytes_) as (here, bodies, entry):
        share = RangeThread(kernel, sums, bodies, entry, group.frame)
        if staged:
            with entry.cursor.point:
                share.stage = RowStage.at(begin, group.turned, staged, kernel, group.frame, here)
        share.emit(here, sources)


@dataclass
class RangeThread:
    """Emits what one thread does for its block's range of rows."""

    kernel: RowKernel
    sums: list[RangeSum]
    bodies: GpuBodies
    entry: Scope
    frame: GpuKernel
    stage: RowStage | None = None

    def emit(self, here: Thread, sources: list[RowSource]) -> None:
        """Walk over the rows, then write the sums. `sources` are copied to shared memory a row ahead."""
        cut, layout, cursor = self.kernel.cut, self.kernel.layout, self.entry.cursor
        rows, length = layout.sizes[layout.rows[0]], self.sums[0].length
        self._bind()
        with cursor.point:
            thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
            begin = numbers.number(0) if self.sums[0].is_dealt else numbers.multiply(block, length)
            end = numbers.smaller(numbers.add(begin, length), rows) if rows % length else numbers.add(begin, length)
            own = numbers.divide(thread, cut.team)
            number = thread if cut.rows_per_block == 1 else numbers.remainder(thread, cut.team)
            step = numbers.number(cut.rows_per_block)
            zeros = [vectors.constant(self._total_type(item), 0.0) for item in self.sums]
        team = team_of(self.frame, cursor, cut.team, number)
        walk = _Rows(self, team, thread, block, begin, end, own)
        if sources:
            walk.read_ahead(sources)
        chunks = cut.chunks or 0
        totals = cursor.loop(walk.lower, end, step, [zero for zero in zeros for _ in range(chunks)], walk.body)
        if sources:
            with cursor.point:
                cp_async.wait_all()  # what comes next is put in their place
        for place, item in enumerate(self.sums):
            self._write(item, totals[place * chunks : (place + 1) * chunks], block, thread, team)

    def _bind(self) -> None:
        """Flat views of what only sums read."""
        for value in (item.value for item in self.sums):
            if value in self.frame.buffers and value not in self.bodies.inputs:
                memref = self.frame.buffers[value]
                with self.entry.cursor.point:
                    flat = FlatBuffer(flatten(memref), memref.type.element_type, {})
                self.bodies.inputs[value] = (flat, vectors.strides_of(memref))

    @property
    def terms(self) -> list[tuple[ir.Value, Access]]:
        access = (self.kernel.layout.rows[0], self.kernel.layout.columns[0])
        return [(item.value, access) for item in self.sums]

    def _total_type(self, item: RangeSum) -> ir.Type:
        lanes = self.kernel.cut.lanes
        return item.element if lanes == 1 else vectors.vector_type(lanes, item.element)

    def _write(self, item: RangeSum, totals: list[ir.Value], block: ir.Value, thread: ir.Value, team: Team) -> None:
        """Write the sums of the block's range, which its teams have parts of."""
        cut, layout, cursor = self.kernel.cut, self.kernel.layout, self.entry.cursor
        row = row_place(self.kernel, cursor, block, None)
        share = RowThread(self.kernel, self.bodies, self.entry, row, team)
        with item.operation.location, cursor.point:
            steps = dict(zip((layout.rows[0], layout.columns[0]), vectors.strides_of(item.target), strict=True))
            buffer = FlatBuffer(flatten(item.target), item.element, steps)
            first = numbers.is_below(thread, cut.team) if cut.rows_per_block > 1 else None
            shared = shared_pointer(self.frame) if cut.rows_per_block > 1 else None
        for place, total in zip(share.new_places(), totals, strict=True):
            with item.operation.location, cursor.point:
                if cut.rows_per_block > 1:
                    total = combine_depth(shared, thread, total, arith.addf, cut.team, cut.rows_per_block)
                place.present = all_of([place.present, first])
            with item.operation.location:
                self.bodies.put(total, buffer, [self.entry, row, place])


@dataclass
class _Rows:
    """The rows of a thread: from `begin` on, in steps of all rows that a block works on, `own` (i32) among these."""

    share: RangeThread
    team: Team
    thread: ir.Value
    block: ir.Value
    begin: ir.Value
    end: ir.Value
    own: ir.Value
    ahead: Prefetch | None = None

    @property
    def _is_together(self) -> bool:
        """Whether a warp has several rows: then all its threads go as far as the longest way."""
        return self.team.size < WARP

    @cached_property
    def lower(self) -> ir.Value:
        """Where the loop over rows begins."""
        with self.share.entry.cursor.point:
            return self.begin if self._is_together else numbers.add(self.begin, self.own)

    def read_ahead(self, sources: list[RowSource]) -> None:
        """Begin to copy the first row."""
        share, cursor = self.share, self.share.entry.cursor
        with cursor.point:
            shared = shared_pointer(share.frame)
        self.ahead = Prefetch(share.kernel, sources, share.bodies, share.entry, self.thread, shared)
        self._copy(cursor, self.lower)

    def _copy(self, cursor: Cursor, base: ir.Value) -> None:
        row, share = self._row(cursor, base, is_sure=False), self.share
        self.ahead.copy(row, RowThread(share.kernel, share.bodies, share.entry, row, self.team).new_places())

    def _row(self, cursor: Cursor, base: ir.Value, is_sure: bool) -> GuardedScope:
        """The row that the thread has when the loop is at `base`."""
        with cursor.point:
            row = numbers.add(base, self.own) if self._is_together else base
            present = None
            if self._is_together or not is_sure:
                present = numbers.is_below(row, self.end)
                row = arith.select(present, row, self.begin)
            row = self._place(row)
        return row_place(self.share.kernel, cursor, row, present)

    def _place(self, row: ir.Value) -> ir.Value:
        """Where row number `row` of the range is."""
        item = self.share.sums[0]
        if not item.is_dealt:
            return row
        turn, inside = numbers.divide(row, item.piece), numbers.remainder(row, item.piece)
        first = numbers.add(numbers.multiply(turn, item.piece * item.ranges), numbers.multiply(self.block, item.piece))
        return numbers.add(first, inside)

    def body(self, inner: Cursor, base: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """One step of the loop: all walks over a row, its columns added to what has been carried."""
        share, cut = self.share, self.share.kernel.cut

        def fill(places: list[GuardedScope]) -> None:
            self.ahead.fill(places)
            with inner.point:
                following = numbers.add(base, cut.rows_per_block)
            self._copy(inner, following)

        chunks = cut.chunks or 0
        totals = [carried[first : first + chunks] for first in range(0, len(carried), chunks)]
        row = self._row(inner, base, is_sure=True)
        with inner.point:
            place = numbers.add(base, self.own) if self._is_together else base
        thread = SummingThread(
            *(share.kernel, share.bodies, share.entry, row, self.team, share.terms, totals, share.stage, place),
            fill=self.ahead and fill,
        )
        thread.emit()
        if share.stage:
            share.stage.write(inner, base, self._place)
        if share.kernel.slots == 1 and cut.team > WARP:
            with inner.point:
                barrier.sync()  # before the only slot is written again
        return [total for found in totals for total in found]


# Columns alone


def read_columns(frame: Kernel) -> RangeGroup | None:
    """What adds up columns alone, of a kernel whose sums are spelled out; None for a form that only loops have."""
    frame, sums, operations = _read(frame)
    program = analyse(operations, lambda value: None)
    if not isinstance(program, RowProgram) or program.across or not has_folds(program):
        return None
    layout = collapse(program, frame)
    if (
        any(program.levels)
        or any(item.piece < item.length for item in sums)
        or 0 in layout.sizes.values()
        or prod(layout.sizes.values()) >= 4 * MOST_POINTS
    ):
        return None
    return RangeGroup(frame, program, layout, sums)


def _write_columns(launches: Launches, schedule: ColumnRangesSchedule) -> None:
    """Threads for columns, blocks for ranges of rows."""
    results = spell_out_sums(launches.kernel)
    group = read_columns(launches.open(""))
    assert group is not None, "ranges of columns of another form than their schedule"
    kernel = RowKernel.plan(group, schedule.cut(group.width))
    grid = ColumnGrid.of_ranges(kernel, schedule.width, group.sums[0].length)
    found = {results[item.operation]: item.target for item in group.sums}
    rows.write_column_launch(group.frame, kernel, grid, found, True)
