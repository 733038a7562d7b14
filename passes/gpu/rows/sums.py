"""Kernels of rows that add up columns as well: each block has a range of rows, and leaves one sum of it per column.

Where rows are reduced too, a block (or each of its teams of threads) walks over the rows of its range. A thread has the
same columns in every row, so their sums stay in its registers until the end; then teams add up theirs in order. Where
nothing is reduced but columns, threads walk down columns as in any other column sum.

Sums of ranges are added up by another kernel: see SplitColumnSums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, gcd, prod

from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.isa import barrier, cp_async, warp
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.others import loops
from blu.passes.gpu.rows import rows
from blu.passes.gpu.rows.bodies import WIDEST, GpuBodies, GuardedScope
from blu.passes.gpu.rows.columns import range_grid, words_of
from blu.passes.gpu.rows.launch import Launches, open_launch, row_place, team_of
from blu.passes.gpu.rows.partials import has_folds
from blu.passes.gpu.rows.prefetch import Prefetch, RowSource, copied, shared_bytes
from blu.passes.gpu.rows.schedule import RowSchedule, choose_columns, operands_of, team_of_warp
from blu.passes.gpu.rows.teams import Team, all_of, combine_depth
from blu.passes.gpu.rows.walks import RowKernel, RowThread
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.fills import spell_out_fills
from blu.passes.kernels.rows.layout import FlatBuffer, Layout, collapse, flatten
from blu.passes.kernels.rows.plan import ColumnWalk
from blu.passes.kernels.rows.program import RowProgram, analyse
from blu.passes.kernels.rows.scope import Scope
from blu.passes.kernels.rows.space import Access
from blu.passes.loops.fuse.loops import loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, REDUCTION, constant, fill, generic, projection

BLOCK = 256
"""Threads of a block whose rows are worked on by a part of it: as many as a processor has registers for."""
WORDS_OF_WARP_ROW = 192
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
    bytes_ = 4 * words * schedule.threads if schedule.rows_per_block > 1 else kernel.slot_bytes
    sources = _find_sources(kernel, frame, sums, launches.target)
    if sources:
        bytes_ = max(bytes_, shared_bytes(kernel, sources))
    blocks = ceil(layout.sizes[layout.rows[0]] / sums[0].length)
    with open_launch(frame, kernel, blocks, schedule.threads, bytes_) as (here, bodies, entry):
        RangeThread(kernel, sums, bodies, entry, frame).emit(here, sources)
    return True


def _find_sources(kernel: RowKernel, frame: GpuKernel, sums: list[RangeSum], target: GpuTarget) -> list[RowSource]:
    """The rows to copy ahead, where warps have rows; none where they cannot be copied, or there is no room."""
    if kernel.schedule.team > warp.WARP:
        return []  # other blocks read while this one's threads wait for each other
    row, column = kernel.layout.rows[0], kernel.layout.columns[0]
    read = {item.value: (row, column) for item in sums}
    for node in kernel.program.nodes:
        read |= dict(zip(node.operation.operands, node.accesses, strict=True))
    whole = {value: access for value, access in read.items() if value in frame.buffers and {row, column} <= {*access}}
    found = copied(whole, kernel, frame)
    return found if shared_bytes(kernel, found) <= target.shared_bytes else []


def _choose(program: RowProgram, layout: Layout, frame: GpuKernel, count: int) -> RowSchedule:
    """How threads share a row, so that inputs and `count` sums stay in registers."""
    operands = operands_of(program, layout, frame)
    width = layout.sizes[layout.columns[0]]
    # Inputs, of which most is read, come in whole vectors: narrower outputs may be written in parts of them.
    lanes = gcd(WIDEST // max((operand.size for operand in operands if operand.is_input), default=WIDEST), width)
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
    numbers: dict[int, int] = field(default_factory=dict)

    def new_places(self) -> list[GuardedScope]:
        places = super().new_places()
        self.numbers = {id(place): number for number, place in enumerate(places)}
        return places

    def _visit_some(
        self, walk: ColumnWalk, places: list[GuardedScope], totals: list[ir.Value | None]
    ) -> list[ir.Value]:
        found = super()._visit_some(walk, places, totals)
        # The last walk knows all that is added up.
        if walk is [item for item in self.kernel.walks if not item.is_empty][-1]:
            for place in places:
                for (value, access), sums in zip(self.sums, self.totals, strict=True):
                    number = self.numbers[id(place)]
                    sums[number] = self._added(value, access, place, sums[number])
        return found

    def _added(self, value: ir.Value, access: Access, place: GuardedScope, total: ir.Value) -> ir.Value:
        scopes = [self.entry, self.row, place]
        with place.cursor.point:
            term = self.bodies.as_vector(self.bodies.read(value, access, scopes), scopes)
            present = all_of([place.present, self.row.present])
            if present is not None:
                term = arith.select(present, term, vectors.constant(term.type, 0.0))
            return arith.addf(total, term)


@dataclass
class RangeThread:
    """Emits what one thread does for its block's range of rows."""

    kernel: RowKernel
    sums: list[RangeSum]
    bodies: GpuBodies
    entry: Scope
    frame: GpuKernel

    def emit(self, here: Thread, sources: list[RowSource]) -> None:
        """Walk over the rows, then write the sums. `sources` are copied to shared memory a row ahead."""
        schedule, layout, cursor = self.kernel.schedule, self.kernel.layout, self.entry.cursor
        rows, length = layout.sizes[layout.rows[0]], self.sums[0].length
        self._bind()
        with cursor.point:
            thread, block = warp.as_number(here.thread), warp.as_number(here.block[0])
            begin = warp.multiply(block, length)
            end = warp.smaller(warp.add(begin, length), rows) if rows % length else warp.add(begin, length)
            own = warp.divide(thread, schedule.team)
            number = thread if schedule.rows_per_block == 1 else warp.remainder(thread, schedule.team)
            step = warp.number(schedule.rows_per_block)
            zeros = [vectors.constant(self._total_type(item), 0.0) for item in self.sums]
        team = team_of(self.frame, cursor, schedule.team, number)
        walk = _Rows(self, team, thread, begin, end, own)
        if sources:
            walk.read_ahead(sources)
        chunks = schedule.chunks or 0
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
        lanes = self.kernel.schedule.lanes
        return item.element if lanes == 1 else vectors.vector_type(lanes, item.element)

    def _write(self, item: RangeSum, totals: list[ir.Value], block: ir.Value, thread: ir.Value, team: Team) -> None:
        """Write the sums of the block's range, which its teams have parts of."""
        schedule, layout, cursor = self.kernel.schedule, self.kernel.layout, self.entry.cursor
        row = row_place(self.kernel, cursor, block, None)
        share = RowThread(self.kernel, self.bodies, self.entry, row, team)
        with item.operation.location, cursor.point:
            steps = dict(zip((layout.rows[0], layout.columns[0]), vectors.strides_of(item.target), strict=True))
            buffer = FlatBuffer(flatten(item.target), item.element, steps)
            first = warp.is_below(thread, schedule.team) if schedule.rows_per_block > 1 else None
            shared = shared_pointer(self.frame) if schedule.rows_per_block > 1 else None
        for place, total in zip(share.new_places(), totals, strict=True):
            with item.operation.location, cursor.point:
                if schedule.rows_per_block > 1:
                    total = combine_depth(shared, thread, total, arith.addf, schedule.team, schedule.rows_per_block)
                place.present = all_of([place.present, first])
            with item.operation.location:
                self.bodies.put(total, buffer, [self.entry, row, place])


@dataclass
class _Rows:
    """The rows of a thread: from `begin` on, in steps of all rows that a block works on, `own` (i32) among these."""

    share: RangeThread
    team: Team
    thread: ir.Value
    begin: ir.Value
    end: ir.Value
    own: ir.Value
    ahead: Prefetch | None = None

    @property
    def _is_together(self) -> bool:
        """Whether a warp has several rows: then all its threads go as far as the longest way."""
        return self.team.size < warp.WARP

    @cached_property
    def lower(self) -> ir.Value:
        """Where the loop over rows begins."""
        with self.share.entry.cursor.point:
            return self.begin if self._is_together else warp.add(self.begin, self.own)

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
            row = warp.add(base, self.own) if self._is_together else base
            present = None
            if self._is_together or not is_sure:
                present = warp.is_below(row, self.end)
                row = arith.select(present, row, self.begin)
        return row_place(self.share.kernel, cursor, row, present)

    def body(self, inner: Cursor, base: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """One step of the loop: all walks over a row, its columns added to what has been carried."""
        share, schedule = self.share, self.share.kernel.schedule

        def fill(places: list[GuardedScope]) -> None:
            self.ahead.fill(places)
            with inner.point:
                following = warp.add(base, schedule.rows_per_block)
            self._copy(inner, following)

        chunks = schedule.chunks or 0
        totals = [carried[first : first + chunks] for first in range(0, len(carried), chunks)]
        row = self._row(inner, base, is_sure=True)
        thread = SummingThread(
            share.kernel, share.bodies, share.entry, row, self.team, share.terms, totals, fill=self.ahead and fill
        )
        thread.emit()
        if share.kernel.slots == 1 and schedule.team > warp.WARP:
            with inner.point:
                barrier.sync()  # before the only slot is written again
        return [total for found in totals for total in found]


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
