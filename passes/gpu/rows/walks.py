"""What one thread of a row kernel does: its walks over its share of a row, in registers or in a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.rows.bodies import GpuBodies, GuardedScope, hide
from blu.passes.gpu.rows.group import RowGroup
from blu.passes.gpu.rows.schedule import RowCut
from blu.passes.gpu.rows.teams import SLOT_BYTES, Team, all_of, merge_lanes
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.layout import FlatBuffer, Layout
from blu.passes.kernels.rows.plan import ColumnWalk, Planner
from blu.passes.kernels.rows.program import RowProgram
from blu.passes.kernels.rows.reductions import Fold
from blu.passes.kernels.rows.scope import LanePosition, Scope
from blu.passes.kernels.rows.space import Access, RowNode

BATCH = 8
"""Elements that a thread reads at once in later walks over a row that is in its registers."""


@dataclass
class RowKernel:
    """A program, how it is cut, and its memrefs once they are bound."""

    program: RowProgram
    layout: Layout
    cut: RowCut
    planner: Planner
    walks: list[ColumnWalk]
    outputs: list[tuple[ir.Value, FlatBuffer]] = field(default_factory=list)

    @classmethod
    def plan(cls, group: RowGroup, cut: RowCut) -> RowKernel:
        """Outputs over inputs are written in the last walk; of a row in registers all are."""
        in_registers = cut.chunks is not None
        planner = Planner(group.program, 0, -1, set(group.program.outputs) if in_registers else group.late)
        return cls(group.program, group.layout, cut, planner, planner.plan())

    @property
    def slots(self) -> int:
        """How many results reductions have."""
        return sum(len(self.folds(walk)) for walk in self.walks)

    @property
    def slot_bytes(self) -> int:
        """Shared memory for reductions: of the block, and of its cluster if it has one."""
        return self.slots * SLOT_BYTES * (1 if self.cut.cluster == 1 else 2)

    def folds(self, walk: ColumnWalk) -> list[tuple[RowNode, Fold]]:
        """The reductions of a walk, result by result."""
        return [(self.program.nodes[number], fold) for number in walk.reductions for fold in self.folds_of(number)]

    def folds_of(self, number: int) -> list[Fold]:
        """The reductions of a node."""
        folds = self.program.reductions[number]
        assert isinstance(folds, list), "another reduction than a fold"
        return folds

    def buffers(self, values: list[ir.Value]) -> list[tuple[ir.Value, FlatBuffer]]:
        return [(value, buffer) for value, buffer in self.outputs if value in values]


@dataclass
class RowThread:
    """Emits one thread's share of one row. `row` is the scope of the row, with `present` for rows that there are."""

    kernel: RowKernel
    bodies: GpuBodies
    entry: Scope
    row: GuardedScope
    team: Team
    fill: Callable[[list[GuardedScope]], None] | None = field(default=None, kw_only=True)
    """Called with the places of a row in registers, before anything is read there."""

    def emit(self) -> None:
        """All walks, then the results without columns."""
        *walks, last = self.kernel.walks
        slot = 0
        places: list[GuardedScope] = []
        self._read_for_row()
        for walk in walks:
            if walk.is_empty:
                continue
            self.reload(walk)
            folds = self.kernel.folds(walk)
            if self.kernel.cut.chunks is None:
                totals = self._sweep(walk)
            else:
                places = self._places(places)
                totals = self._visit(walk, places, [None] * len(folds))
            for total, (node, fold) in zip(totals, folds, strict=True):
                self._finish(node, fold, total, slot)
                slot += 1
        self._store_results(last)

    def _read_for_row(self) -> None:
        """Ask for what there is once for a row in registers: it comes while the row does, not after its reductions."""
        if self.kernel.cut.chunks is None:
            return
        for walk in self.kernel.walks:
            for node, operand, access in self._inputs(walk):
                if set(self.kernel.layout.columns).isdisjoint(access):
                    with node.operation.location:
                        self.bodies.read(operand, access, [self.entry, self.row])

    def reload(self, walk: ColumnWalk) -> None:
        """From here on, values of `walk.reload` are read back from the outputs that have them."""
        for value in walk.reload:
            self.bodies.reloads[value] = self.kernel.buffers([value])[0][1]

    def _store_results(self, last: ColumnWalk) -> None:
        first = self._is_first()
        scope = GuardedScope(self.row.bound, self.row.cursor, self.row.indices, self.row.position, self.row.memo, first)
        for number in last.nodes:
            self.bodies.inline(self.kernel.program.nodes[number], [self.entry, scope])
        for value, buffer in self.kernel.outputs:
            if not self.kernel.program.is_wide(value):
                self.bodies.store(value, buffer, [self.entry, scope])

    def _is_first(self) -> ir.Value | None:
        """Whether the thread writes what there is once for a row."""
        with self.row.cursor.point:
            first = numbers.is_equal(self.team.number, 0) if self.team.size > 1 else None
            return all_of([self.row.present, first])

    # Rows in registers

    def _places(self, before: list[GuardedScope]) -> list[GuardedScope]:
        """The vectors of this thread; what `before` has read, and nothing else, is known there."""
        if before and not self.kernel.cut.hides:
            return before
        places = before or self.new_places()
        if not before:
            if self.fill:
                self.fill(places)
            return places
        found = []
        for place in places:
            with place.cursor.point:
                memo = {key: hide(value) for key, value in place.memo.items() if _is_load(key)}
            found.append(GuardedScope(place.bound, place.cursor, place.indices, place.position, memo, place.present))
        return found

    def new_places(self) -> list[GuardedScope]:
        """The vectors of this thread."""
        return [self._place(number) for number in range(self.kernel.cut.chunks or 0)]

    def _place(self, number: int) -> GuardedScope:
        """Vector `number`: vectors of the team's threads are neighbours."""
        step = self.kernel.cut.lanes * self.team.size
        whole = (number + 1) * step <= self._width
        with self.row.cursor.point:
            start = self._start()
            if whole and len(self.kernel.layout.columns) == 1:
                return self._place_at(self.row.cursor, start, number * step, None)
            point = numbers.add(self._start_number(), number * step)
            present = None if whole else numbers.is_below(point, self._width)
            return self._place_at_point(self.row.cursor, point, present)

    @property
    def _width(self) -> int:
        return prod(self.kernel.layout.sizes[dim] for dim in self.kernel.layout.columns)

    def _start_number(self) -> ir.Value:
        return self.row.find("start", lambda: numbers.multiply(self.team.number, self.kernel.cut.lanes))

    def _start(self) -> ir.Value:
        return self.row.find("start index", lambda: as_index(self._start_number()))

    def _place_at(self, cursor: Cursor, base: ir.Value, offset: int, present: ir.Value | None) -> GuardedScope:
        bound = self.row.bound | set(self.kernel.layout.columns)
        position = LanePosition(base, offset, self.kernel.cut.lanes, self.kernel.cut.lanes)
        return GuardedScope(bound, cursor, {}, position, {}, present)

    def _place_at_point(self, cursor: Cursor, point: ir.Value, present: ir.Value | None) -> GuardedScope:
        """The vector at element `point` (i32) of the row; of the first one where it is not `present`."""
        if present is not None:
            point = arith.select(present, point, numbers.number(0))
        *outer, inner = self.kernel.layout.columns
        if not outer:
            return self._place_at(cursor, as_index(point), 0, present)
        sizes = {dim: self.kernel.layout.sizes[dim] for dim in (*outer, inner)}
        split = split_number(point, sizes)
        place = self._place_at(cursor, as_index(split.pop(inner)), 0, present)
        place.indices = {dim: as_index(value) for dim, value in split.items()}
        return place

    # Rows in a loop

    def _sweep(self, walk: ColumnWalk) -> list[ir.Value]:
        """Whole steps in a loop, then the rest of the row with guards."""
        cut = self.kernel.cut
        stride = cut.lanes * self.team.size
        step = stride * cut.unroll
        whole = self._width // step
        with self.row.cursor.point:
            carried = [self._identity(fold) for _, fold in self.kernel.folds(walk)]
            lower, upper, by = (numbers.number(number) for number in (0, whole * step, step))

        def body(cursor: Cursor, base: ir.Value, old: list[ir.Value]) -> list[ir.Value]:
            with cursor.point:
                first = numbers.add(base, self._start_number())
                points = [numbers.add(first, number * stride) for number in range(cut.unroll)]
                if len(self.kernel.layout.columns) > 1:
                    places = [self._place_at_point(cursor, point, None) for point in points]
                else:
                    start = as_index(first)
                    places = [self._place_at(cursor, start, number * stride, None) for number in range(cut.unroll)]
            return self._visit(walk, places, old)

        if whole:
            self._start_number()
            carried = self.row.cursor.loop(lower, upper, by, carried, body)
        places = []
        with self.row.cursor.point:
            for offset in range(whole * step, self._width, stride):
                point = numbers.add(self._start_number(), offset)
                present = None if offset + stride <= self._width else numbers.is_below(point, self._width)
                places.append(self._place_at_point(self.row.cursor, point, present))
        return self._visit(walk, places, carried) if places else carried

    def _identity(self, fold: Fold) -> ir.Value:
        """What changes nothing, in all lanes."""
        value = arith.constant(fold.element, fold.identity())
        return value if self.kernel.cut.lanes == 1 else vectors.splat(value, self.kernel.cut.lanes)

    # Both

    def _visit(self, walk: ColumnWalk, places: list[GuardedScope], totals: list[ir.Value | None]) -> list[ir.Value]:
        """All work of a walk at some places: everything is read before anything is written.

        After the first walk over a row in registers, what all rows share is read for some places at a time, and where
        the row hardly fits, the rest is too.
        """
        cut = self.kernel.cut
        later = walk is not self.kernel.walks[0] and cut.chunks is not None
        if later and not cut.hides:
            self.read(walk, [[self.entry, self.row, place] for place in places], set(self.kernel.layout.rows))
        size = max(1, BATCH // cut.lanes) if later else len(places)
        for first in range(0, len(places), size):
            totals = self._visit_some(walk, places[first : first + size], totals)
        return list(totals)

    def _visit_some(
        self, walk: ColumnWalk, places: list[GuardedScope], totals: list[ir.Value | None]
    ) -> list[ir.Value]:
        program = self.kernel.program
        stacks = [[self.entry, self.row, place] for place in places]
        self.read(walk, stacks)
        totals = list(totals)
        for scopes in stacks:
            for number in walk.nodes:
                self.bodies.inline(program.nodes[number], scopes)
            for number in walk.reductions:
                skip = [fold.combiner for fold in self.kernel.folds_of(number)]
                self.bodies.inline(program.nodes[number], scopes, skip=skip)
            for place, (_, fold) in enumerate(self.kernel.folds(walk)):
                totals[place] = self._add(fold, totals[place], scopes)
        for scopes in stacks:
            for value, buffer in self.kernel.buffers(walk.store):
                self.store(value, buffer, [self.entry, self.row, self._guarded(scopes[-1])])
        return totals

    def store(self, value: ir.Value, buffer: FlatBuffer, scopes: list[Scope]) -> None:
        """Write a vector of a row."""
        self.bodies.store(value, buffer, scopes)

    def _guarded(self, place: GuardedScope) -> GuardedScope:
        with place.cursor.point:
            present = all_of([place.present, self.row.present])
        return GuardedScope(place.bound, place.cursor, place.indices, place.position, place.memo, present)

    def read(self, walk: ColumnWalk, stacks: Sequence[list[Scope]], dims: set[int] | None = None) -> None:
        """Ask for all vectors of a walk at once, or only for those that vary with one of `dims`."""
        for scopes in stacks:
            for node, operand, access in self._inputs(walk):
                if dims is None or not dims.isdisjoint(access):
                    with node.operation.location:
                        self.bodies.read(operand, access, scopes)

    def _inputs(self, walk: ColumnWalk) -> Iterator[tuple[RowNode, ir.Value, Access]]:
        """The memrefs that the bodies of a walk read, with the nodes that do."""
        for number in (*walk.nodes, *walk.reductions):
            node = self.kernel.program.nodes[number]
            for operand, argument, access in zip(
                node.operation.operands, node.body.arguments, node.accesses, strict=True
            ):
                if operand in self.bodies.inputs and len(list(argument.uses)):
                    yield node, operand, access

    def _add(self, fold: Fold, total: ir.Value | None, scopes: list[Scope]) -> ir.Value:
        place = scopes[-1]
        assert isinstance(place, GuardedScope)
        with fold.combiner.location, place.cursor.point:
            term = self.bodies.as_vector(self.bodies.lookup(fold.term, scopes), scopes)
            if place.present is not None:
                term = arith.select(place.present, term, self._identity(fold))
            return term if total is None else fold.combine(total, term)

    def _finish(self, node: RowNode, fold: Fold, total: ir.Value, slot: int) -> None:
        """Merge lanes and threads, and what the reduction starts with where that changes something."""
        place = node.num_inputs + fold.number
        initial = node.operation.operands[place]
        scopes = [self.entry, self.row]
        with node.operation.location, self.row.cursor.point:
            value = self.team.reduce(merge_lanes(total, fold.combine), fold.combine, slot)
            if self.kernel.program.fills.get(initial) != fold.identity():
                value = fold.combine(self.bodies.read(initial, node.accesses[place], scopes), value)
        self.bodies.remember(node.operation.results[fold.number], value, scopes)
        self.bodies.homes[value] = self.row


def _is_load(key: object) -> bool:
    return isinstance(key, tuple) and key[0] == "load"


def as_index(value: ir.Value) -> ir.Value:
    """A number that is not negative as an index."""
    return arith.index_castui(ir.IndexType.get(), value)


def split_number(point: ir.Value, sizes: dict[int, int]) -> dict[int, ir.Value]:
    """The indices of several dimensions behind one number, at the current insertion point."""
    indices: dict[int, ir.Value] = {}
    left = list(sizes.items())
    while len(left) > 1:
        dim, size = left.pop()
        indices[dim] = numbers.remainder(point, size)
        point = numbers.divide(point, size)
    if left:
        indices[left[0][0]] = point
    return indices
