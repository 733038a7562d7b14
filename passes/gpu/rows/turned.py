"""Rows that are written turned around: a block collects some of them in shared memory, then writes pieces of columns.

    t[column, row] = y[row, column]

A thread has four or more neighbours of a row, which lie far apart in `t`. So a block puts 8 to 32 rows side by side in
shared memory, and its threads then take four rows of a column each: those of 32 rows make up 128 bytes of `t`. The
groups of four elements of a row are exchanged with others by `row // 4`, so that neither way meets in a bank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir, llvm, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.kernel import GpuKernel, Thread, repeat, when
from blu.passes.gpu.rows.bodies import GpuBodies, GuardedScope, alignment_of
from blu.passes.gpu.rows.group import RowGroup
from blu.passes.gpu.rows.schedule import RowCut
from blu.passes.gpu.rows.teams import all_of, element_pointer
from blu.passes.gpu.rows.walks import RowKernel, RowThread, as_index
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.layout import FlatBuffer
from blu.passes.kernels.rows.plan import ColumnWalk
from blu.passes.kernels.rows.scope import Scope
from blu.passes.kernels.rows.space import Access

STAGED_ROWS = (32, 16, 8)
"""Rows that a block may have in shared memory: more make longer pieces of columns."""
PIECE = 16
"""Rows that a block gets at a time."""
GROUP = 4
"""Elements of a row that are put there at once, and rows of a column that a thread writes at once."""
BANKS = 32
FEWEST_COLUMNS, MOST_COLUMNS = 64, 2048
"""Of rows that may be turned around: fewer than 16 are worked on at the same time, and 8 of two results fit."""


def can_turn(rows: int, columns: int, length: int) -> bool:
    """Whether rows of f32 of which a block has `length` can be written turned around fast."""
    is_fit = FEWEST_COLUMNS <= columns <= MOST_COLUMNS and columns % BANKS == 0
    return is_fit and rows % length == 0 and length % PIECE == 0


@dataclass(frozen=True)
class TurnedRows:
    """The results of a group that lie turned around, and how many rows of each a block collects.

    It gets `length` rows that are neighbours at a time.
    """

    values: tuple[ir.Value, ...]
    width: int
    length: int

    @classmethod
    def of(cls, group: RowGroup, length: int) -> TurnedRows:
        """Those of a group of one dimension of rows and one of columns."""
        found, values = [], [value for value, _ in group.frame.outputs]
        for value, memref in group.frame.outputs:
            type_, steps = ir.MemRefType(memref.type), vectors.strides_of(memref)
            strides = group.layout.strides(group.program.access_of(value), steps)
            row, column = (strides.get(dims[0]) for dims in (group.layout.rows, group.layout.columns))
            is_turned = row == 1 and column is not None and column > 1 and values.count(value) == 1
            flat = FlatBuffer(memref, type_.element_type, strides)
            if is_turned and type_.element_type == ir.F32Type.get() and _is_aligned(flat, group.layout.rows[0]):
                found.append(value)
        fits = group.rows % length == 0 and group.width % BANKS == 0
        return cls(tuple(found) if fits else (), group.width, length)

    def bytes(self, rows: int) -> int:
        """Shared memory for so many rows of each."""
        return 4 * rows * self.width * len(self.values)

    def staged(self, cut: RowCut, room: int) -> int:
        """How many rows are collected in so many bytes of shared memory; 0 if there is nothing, or no room."""
        fitting = (rows for rows in STAGED_ROWS if rows % cut.rows_per_block == 0 == self.length % rows)
        is_possible = self.values and cut.lanes % GROUP == 0
        return next((rows for rows in fitting if is_possible and self.bytes(rows) <= room), 0)

    def least_bytes(self, cut: RowCut) -> int:
        """What has to be left for them."""
        fitting = [rows for rows in STAGED_ROWS if self.staged(cut, self.bytes(rows)) == rows]
        return self.bytes(min(fitting, default=0))


def _is_aligned(flat: FlatBuffer, row: int) -> bool:
    return alignment_of(flat, GROUP, row) == 4 * GROUP


@dataclass(frozen=True)
class RowStage:
    """Emits what one thread (`thread`, an i32) does with the rows in shared memory, which begin at `shared`."""

    turned: TurnedRows
    rows: int
    kernel: RowKernel
    thread: ir.Value
    shared: ir.Value

    @classmethod
    def at(
        cls, begin: int, turned: TurnedRows, rows: int, kernel: RowKernel, frame: GpuKernel, here: Thread
    ) -> RowStage:
        """That from byte `begin` of shared memory on, at the current insertion point."""
        shared = element_pointer(shared_pointer(frame), numbers.number(begin), ir.IntegerType.get_signless(8))
        return cls(turned, rows, kernel, numbers.as_number(here.thread), shared)

    def put(self, value: ir.Value, bodies: GpuBodies, scopes: Sequence[Scope], row: ir.Value) -> None:
        """Put a vector of a result at its place in row `row` (i32)."""
        scope, number = scopes[-1], self.turned.values.index(value)
        with scope.cursor.point:
            lanes = bodies.as_vector(bodies.lookup(value, scopes), scopes)
            column = numbers.add(numbers.as_number(scope.position.base), scope.position.offset)
            present = scope.present if isinstance(scope, GuardedScope) else None
            with nullcontext() if present is None else when(present):
                self._put_vector(number, lanes, row, column)

    def _put_vector(self, number: int, lanes: ir.Value, row: ir.Value, column: ir.Value) -> None:
        slot = numbers.remainder(row, self.rows)
        turn = numbers.multiply(numbers.divide(slot, GROUP), BANKS // self.rows)
        first, four = numbers.divide(column, GROUP), vectors.vector_type(GROUP, numbers.f32())
        for part in range(self.kernel.cut.lanes // GROUP):
            group = arith.xori(numbers.add(first, part), turn)
            place = self._place(number, slot, numbers.multiply(group, GROUP))
            picked = vector.extract_strided_slice(four, lanes, [part * GROUP], [GROUP], [1])
            llvm.store(picked, place, alignment=4 * GROUP)

    def _place(self, number: int, slot: ir.Value, column: ir.Value) -> ir.Value:
        row = numbers.add(slot, number * self.rows)
        index = numbers.add(numbers.multiply(row, self.turned.width), column)
        return element_pointer(self.shared, index, numbers.f32())

    def write(self, cursor: Cursor, base: ir.Value, place_of: Callable[[ir.Value], ir.Value]) -> None:
        """Write all rows once the block has come to the last ones; `base` (i32) is one of those that it is at, of which
        `place_of` says where it lies."""
        step = self.kernel.cut.rows_per_block
        with cursor.point:
            place = numbers.remainder(base, self.rows)
            first = place_of(numbers.subtract(base, place))
            if step == self.rows:
                self._write_all(first)
                return
            with when(arith.cmpi(arith.CmpIPredicate.uge, place, numbers.number(self.rows - step))):
                self._write_all(first)

    def _write_all(self, first: ir.Value) -> None:
        barrier.sync()
        across = self.rows // GROUP
        quad, column = numbers.remainder(self.thread, across), numbers.divide(self.thread, across)
        step = self.kernel.cut.threads // across
        whole = self.turned.width // step * step
        found = dict(self.kernel.outputs)
        buffers = [found[value] for value in self.turned.values]

        def piece(base: ir.Value) -> None:
            for number, buffer in enumerate(buffers):
                self._write_piece(number, buffer, (first, quad), numbers.add(base, column))

        if whole:
            repeat(0, whole, step, [], lambda base, carried: [piece(base)][:0])
        if whole < self.turned.width:
            with when(numbers.is_below(column, self.turned.width - whole)):
                piece(numbers.number(whole))
        barrier.sync()  # before other rows are put there

    def _write_piece(self, number: int, buffer: FlatBuffer, rows: tuple[ir.Value, ir.Value], column: ir.Value) -> None:
        """Four rows of a column."""
        first, quad = rows
        turn = numbers.multiply(quad, BANKS // self.rows)
        group = arith.xori(numbers.divide(column, GROUP), turn)
        place = numbers.add(numbers.multiply(group, GROUP), numbers.remainder(column, GROUP))
        top = numbers.multiply(quad, GROUP)
        words = [
            llvm.load(numbers.f32(), self._place(number, numbers.add(top, row), place), alignment=4)
            for row in range(GROUP)
        ]
        step = buffer.strides[self.kernel.layout.columns[0]]
        index = arith.addi(arith.muli(as_index(column), vectors.index(step)), as_index(numbers.add(first, top)))
        value = vector.from_elements(vectors.vector_type(GROUP, buffer.element), words)
        vector.store(value, buffer.flat, [index], alignment=4 * GROUP)


@dataclass
class SummingThread(RowThread):
    """A thread's share of a row whose columns are added up: `totals` has for each sum one for each of its vectors.

    What lies turned around goes to `stage`, as row `place` (i32).
    """

    sums: Sequence[tuple[ir.Value, Access]]
    totals: list[list[ir.Value]]
    stage: RowStage | None = None
    place: ir.Value | None = None
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

    def store(self, value: ir.Value, buffer: FlatBuffer, scopes: list[Scope]) -> None:
        if self.stage is None or value not in self.stage.turned.values:
            super().store(value, buffer, scopes)
        else:
            self.stage.put(value, self.bodies, scopes, self.place)

    def _added(self, value: ir.Value, access: Access, place: GuardedScope, total: ir.Value) -> ir.Value:
        scopes = [self.entry, self.row, place]
        with place.cursor.point:
            term = self.bodies.as_vector(self.bodies.read(value, access, scopes), scopes)
            present = all_of([place.present, self.row.present])
            if present is not None:
                term = arith.select(present, term, vectors.constant(term.type, 0.0))
            return arith.addf(total, term)
