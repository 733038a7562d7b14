"""The two walks of a row kernel: across (lanes along a reduced dimension) and along (lanes along a parallel one)."""

from __future__ import annotations

from math import prod

from blu.dialects.core.mlir import arith, ir, memref
from blu.dialects.core.modules import end_of
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.rows.chains import ChainedLoop, folds_of, is_folded, rounds, steps_of
from blu.passes.cpu.rows.sweep import Lists, Visit, join, split, sweep, sweep_piece
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.bodies import BodyEmitter
from blu.passes.kernels.rows.layout import FlatBuffer, Layout, is_bool
from blu.passes.kernels.rows.plan import ColumnWalk, Planner
from blu.passes.kernels.rows.program import RowProgram, cost_of
from blu.passes.kernels.rows.reductions import Fold, Search, merge_accumulators, merge_lanes, parts_of
from blu.passes.kernels.rows.scope import LanePosition, Scope
from blu.passes.kernels.rows.space import RowNode

LANES = 16
ACCUMULATORS = 4
SCRATCH_BYTES = 128 * 1024


class RowKernel:
    """What all rows of a kernel share: the program, its plan, the emitter of bodies and the buffers."""

    def __init__(
        self,
        program: RowProgram,
        layout: Layout,
        target: CpuTarget,
        chain: int,
        late: set[ir.Value],
        hosts: list[ir.Value],
    ):
        self.program = program
        self.layout = layout
        self.target = target
        self.chain = chain
        self.width = prod(layout.sizes[dim] for dim in layout.columns)
        budget = SCRATCH_BYTES if program.across else 0
        self.planner = Planner(program, self.width + LANES, budget, late, hosts)
        self.walks = self.planner.plan()
        self.outputs: list[tuple[ir.Value, FlatBuffer]] = []
        self.scratch: dict[ir.Value, FlatBuffer] = {}

    def open(self, entry: Scope) -> None:
        """Start emitting: `entry` is the function's top."""
        self.entry = entry
        self.bodies = BodyEmitter(self.program, self.layout, entry)

    def place_kept(self) -> None:
        """Find memory for the values that are kept between walks, after all outputs are known."""
        entry = self.entry
        with entry.cursor.point:
            for walk in self.walks:
                for value in walk.keep:
                    self.scratch[value] = self._room_for(value)

    def _room_for(self, value: ir.Value) -> FlatBuffer:
        host = self.planner.hosted.get(value)
        if host is None:
            return self._scratch(value.type.element_type)
        return next(buffer for output, buffer in self.outputs if output == host)

    def _scratch(self, element: ir.Type) -> FlatBuffer:
        storage = ir.IntegerType.get_signless(8) if is_bool(element) else element
        strides, step = {}, 1
        for dim in reversed(self.layout.columns):
            strides[dim] = step
            step *= self.layout.sizes[dim]
        flat = memref.alloca(ir.MemRefType.get([self.width + LANES], storage), [], [], alignment=64)
        return FlatBuffer(flat, element, strides)

    def add_output(self, value: ir.Value, buffer: FlatBuffer) -> None:
        self.outputs.append((value, buffer))

    def reload(self, walk: ColumnWalk) -> None:
        """From here on, values of `walk.reload` are read back."""
        for value in walk.reload:
            outputs = [buffer for output, buffer in self.outputs if output == value]
            self.bodies.reloads[value] = self.scratch[value] if value in self.scratch else outputs[0]

    def buffers(self, values: list[ir.Value]) -> list[tuple[ir.Value, FlatBuffer]]:
        return [(value, buffer) for value, buffer in self.outputs if value in values]

    def steps(self, walk: ColumnWalk, dims: list[int]) -> list[int]:
        """The steps of the loops over the first of the dimensions that lanes do not run along, inside of which are the
        others: chains, where a sum rounds and all reductions of the walk can be put together."""
        inner = prod(self.layout.sizes[dim] for dim in dims[1:])
        folded = self.program.across or all(is_folded(self.program, number) for number in walk.reductions)
        chained = folded and any(rounds(self.program, number) for number in walk.reductions)
        return steps_of(self.layout.sizes[dims[0]], inner, self.chain if chained else 0)

    def unroll(self, walk: ColumnWalk) -> int:
        """How many positions a loop without accumulators handles at once: more where bodies are short."""
        cost = sum(cost_of(self.program.nodes[number]) for number in walk.nodes)
        return 4 if cost <= 12 else 2 if cost <= 40 else 1


class Across:
    """One row, lanes along its columns: the walks one after the other, reductions merged at the end of each."""

    def __init__(self, kernel: RowKernel, row: Scope):
        self.kernel = kernel
        self.bodies = kernel.bodies
        self.row = row
        self.scopes = [kernel.entry, row]
        self.bound = row.bound | set(kernel.layout.columns)

    def emit(self) -> None:
        *walks, last = self.kernel.walks
        self.bodies.reloads = {}
        for walk in walks:
            self.kernel.reload(walk)
            if not walk.is_empty:
                self._walk(walk)
        for number in last.nodes:
            self.bodies.inline(self.kernel.program.nodes[number], self.scopes)
        for value, buffer in self.kernel.outputs:
            if not self.kernel.program.is_wide(value):
                self.bodies.store(value, buffer, self.scopes)

    def _walk(self, walk: ColumnWalk) -> None:
        nodes = [self.kernel.program.nodes[number] for number in walk.reductions]
        count = ACCUMULATORS if nodes else self.kernel.unroll(walk)
        starts = [self._starts(number) for number in walk.reductions]
        accumulators = [[value for start in starts for value in start] for _ in range(count)]
        accumulators = self._columns(self.row.cursor, {}, accumulators, count, walk)
        used = min(count, max(1, -(-self.kernel.layout.sizes[self.kernel.layout.vector_dim] // LANES)))
        self._finish(walk, accumulators[:used])

    # Reductions

    def _starts(self, number: int) -> list[ir.Value]:
        """The vectors that accumulators of a reduction start with."""
        node, reduction = self.kernel.program.nodes[number], self.kernel.program.reductions[number]
        fills = [self.kernel.program.fills.get(operand) for operand in list(node.operation.operands)[node.num_inputs :]]
        if isinstance(reduction, Search):
            return [self._constant(fill) for fill in fills]
        starts = []
        for fold, fill in zip(reduction, fills, strict=True):
            first = fill if fold.idempotent and fill is not None else fold.identity()
            starts += [self._constant(attribute) for attribute in fold.starts(first)]
        return starts

    def _constant(self, attribute: ir.Attribute) -> ir.Value:
        type_ = vectors.vector_type(LANES, attribute.type)
        splat = ir.DenseElementsAttr.get_splat(type_, attribute)
        return self.kernel.entry.find(("constant", type_, splat), lambda: arith.constant(type_, splat))

    def _finish(self, walk: ColumnWalk, accumulators: Lists) -> None:
        """Merge accumulators and lanes to the scalar results of the walk's reductions."""
        start = 0
        for number in walk.reductions:
            node, reduction = self.kernel.program.nodes[number], self.kernel.program.reductions[number]
            results: list[ir.Value] = []
            with node.operation.location, self.row.cursor.point:
                for part in parts_of(reduction):
                    end = start + part.width
                    mine = merge_accumulators([values[start:end] for values in accumulators], part.merge)
                    start = end
                    scalars = merge_lanes(mine, part.merge)
                    results += scalars if isinstance(part, Search) else [self._total(node, part, scalars)]
            for result, value in zip(node.operation.results, results, strict=True):
                self.bodies.remember(result, value, self.scopes)
                self.bodies.homes[value] = self.row

    def _total(self, node: RowNode, fold: Fold, scalars: list[ir.Value]) -> ir.Value:
        """The merged lanes combined with what the reduction starts from, where lanes did not start from that."""
        place = node.num_inputs + fold.number
        initial = node.operation.operands[place]
        fill = self.kernel.program.fills.get(initial)
        if fill is not None and (fold.idempotent or fill == fold.identity()):
            return fold.total(scalars)
        return fold.combine(self.bodies.read(initial, node.accesses[place], self.scopes), fold.total(scalars))

    # Columns

    def _columns(self, cursor: Cursor, indices: dict, accumulators: Lists, count: int, walk: ColumnWalk) -> Lists:
        """Loops over the outer columns, then the sweep over the vector dimension."""
        outer = [dim for dim in self.kernel.layout.columns[:-1] if dim not in indices]
        if not outer:
            visit = self._visitor(indices, walk)
            return sweep(
                self.bodies.index,
                cursor,
                self.kernel.layout.sizes[self.kernel.layout.vector_dim],
                LANES,
                count,
                accumulators,
                visit,
            )

        def body(inner: Cursor, index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            lists = split(carried, accumulators)
            return join(self._columns(inner, {**indices, outer[0]: index}, lists, count, walk))

        def merge(inner: Cursor, totals: list[ir.Value], chain: list[ir.Value]) -> list[ir.Value]:
            pairs = zip(split(totals, accumulators), split(chain, accumulators), strict=True)
            return [value for pair in pairs for value in self._merged(inner, walk, *pair)]

        steps, size = self.kernel.steps(walk, outer), self.kernel.layout.sizes[outer[0]]
        fresh = [value for number in walk.reductions for value in self._starts(number)] * count
        loop = ChainedLoop(self.bodies.index, size, steps, fresh, merge)
        return split(loop.emit(cursor, join(accumulators), body), accumulators)

    def _merged(self, cursor: Cursor, walk: ColumnWalk, left: list[ir.Value], right: list[ir.Value]) -> list[ir.Value]:
        """Two accumulators of all reductions of a walk, put together."""
        merged: list[ir.Value] = []
        for number in walk.reductions:
            with self.kernel.program.nodes[number].operation.location, cursor.point:
                for part in parts_of(self.kernel.program.reductions[number]):
                    mine = slice(len(merged), len(merged) + part.width)
                    merged += part.merge(left[mine], right[mine])
        return merged

    def _visitor(self, indices: dict, walk: ColumnWalk) -> Visit:
        def visit(cursor: Cursor, positions: list[LanePosition], accumulators: Lists) -> Lists:
            results = list(accumulators)
            for place, position in enumerate(positions):
                scope = Scope(self.bound, cursor, indices, position)
                results[place] = self._position([*self.scopes, scope], walk, accumulators[place])
            return results

        return visit

    def _position(self, scopes: list[Scope], walk: ColumnWalk, accumulators: list[ir.Value]) -> list[ir.Value]:
        """All work of a walk at one position."""
        for number in walk.nodes:
            self.bodies.inline(self.kernel.program.nodes[number], scopes)
        results: list[ir.Value] = []
        for number in walk.reductions:
            count = sum(part.width for part in parts_of(self.kernel.program.reductions[number]))
            results += self._accumulate(number, scopes, accumulators[len(results) : len(results) + count])
        for value, buffer in self.kernel.buffers(walk.store):
            self.bodies.store(value, buffer, scopes)
        for value in walk.keep:
            self.bodies.store(value, self.kernel.scratch[value], scopes)
        return results

    def _accumulate(self, number: int, scopes: list[Scope], old: list[ir.Value]) -> list[ir.Value]:
        node, reduction = self.kernel.program.nodes[number], self.kernel.program.reductions[number]
        scope = scopes[-1]
        if isinstance(reduction, Search):
            scope.memo.update(zip(list(node.body.arguments)[node.num_inputs :], old, strict=True))
            self.bodies.inline(node, scopes)
            operands = end_of(node.body).operands
            new = [self.bodies.as_vector(self.bodies.lookup(operand, scopes), scopes) for operand in operands]
        else:
            self.bodies.inline(node, scopes, skip=[fold.combiner for fold in reduction])
            new, left = [], list(old)
            for fold in reduction:
                mine = [left.pop(0) for _ in range(fold.width)]
                with fold.combiner.location, scope.cursor.point:
                    new += fold.step(mine, self.bodies.as_vector(self.bodies.lookup(fold.term, scopes), scopes))
        if scope.position.full:
            return new
        with node.operation.location, scope.cursor.point:
            mask = vectors.tail_mask(LANES, scope.position.count)
            return [arith.select(mask, value, before) for value, before in zip(new, old, strict=True)]


class Along:
    """One row or a piece of it, lanes along a parallel dimension: each lane has accumulators of its own."""

    def __init__(self, kernel: RowKernel, row: Scope):
        self.kernel = kernel
        self.bodies = kernel.bodies
        self.row = row
        dim = kernel.layout.vector_dim
        self.size = 1 if dim is None else kernel.layout.sizes[dim]
        self.lanes = min(LANES, 1 << max(0, self.size.bit_length() - 1))
        self.bound = row.bound | (set() if dim is None else {dim})

    def emit(self, piece: ir.Value | None, length: int | None) -> None:
        """Emit the row, or its piece number `piece` of `length` elements."""
        count = min(self.kernel.unroll(walk) for walk in self.kernel.walks)
        if piece is None:
            sweep(self.bodies.index, self.row.cursor, self.size, self.lanes, count, [[]] * count, self._visit)
            return
        with self.row.cursor.point:
            low = arith.muli(piece, self.bodies.index(length))
            high = arith.minui(arith.addi(low, self.bodies.index(length)), self.bodies.index(self.size))
        sweep_piece(self.bodies.index, self.row.cursor, (low, high), self.size, self.lanes, count, self._visit)

    def _visit(self, cursor: Cursor, positions: list[LanePosition], accumulators: Lists) -> Lists:
        stacks = [[self.kernel.entry, self.row, Scope(self.bound, cursor, {}, position)] for position in positions]
        *walks, last = self.kernel.walks
        self.bodies.reloads = {}
        for walk in walks:
            self.kernel.reload(walk)
            if not walk.is_empty and self.kernel.layout.columns:
                self._walk(walk, stacks, cursor)
        for scopes in stacks:
            for number in last.nodes:
                self.bodies.inline(self.kernel.program.nodes[number], scopes)
            for value, buffer in self.kernel.outputs:
                if not self.kernel.program.is_wide(value):
                    self.bodies.store(value, buffer, scopes)
        return accumulators

    def _walk(self, walk: ColumnWalk, stacks: list[list[Scope]], cursor: Cursor) -> None:
        starts = [self._starts(walk, scopes) for scopes in stacks]
        results = self._columns(walk, stacks, cursor, {}, starts)
        for scopes, values in zip(stacks, results, strict=True):
            left = list(values)
            for number in walk.reductions:
                for result in self.kernel.program.nodes[number].operation.results:
                    value = left.pop(0)
                    self.bodies.remember(result, value, scopes)
                    self.bodies.homes[value] = scopes[-1]

    def _starts(self, walk: ColumnWalk, scopes: list[Scope]) -> list[ir.Value]:
        values = []
        for number in walk.reductions:
            node = self.kernel.program.nodes[number]
            for place in range(node.num_inputs, len(node.accesses)):
                with node.operation.location, scopes[-1].cursor.point:
                    start = self.bodies.read(node.operation.operands[place], node.accesses[place], scopes)
                    values.append(self.bodies.as_vector(start, scopes))
        return values

    def _columns(self, walk: ColumnWalk, stacks: list, cursor: Cursor, indices: dict, carried: Lists) -> Lists:
        """Loops over all columns, in order, for all positions at once."""
        left = [dim for dim in self.kernel.layout.columns if dim not in indices]
        if not left:
            return [self._column(walk, [*scopes, Scope(self.bound | set(indices), cursor, indices)], values)
                    for scopes, values in zip(stacks, carried, strict=True)]  # fmt: skip

        def body(inner: Cursor, index: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
            lists = split(values, carried)
            return join(self._columns(walk, stacks, inner, {**indices, left[0]: index}, lists))

        def merge(inner: Cursor, totals: list[ir.Value], chain: list[ir.Value]) -> list[ir.Value]:
            pairs = zip(split(totals, carried), split(chain, carried), strict=True)
            return [value for pair in pairs for value in self._merged(inner, walk, *pair)]

        steps, size = self.kernel.steps(walk, left), self.kernel.layout.sizes[left[0]]
        fresh = self._identities(walk, stacks) if len(steps) > 1 else []
        loop = ChainedLoop(self.bodies.index, size, steps, fresh, merge)
        return split(loop.emit(cursor, join(carried), body), carried)

    def _identities(self, walk: ColumnWalk, stacks: list[list[Scope]]) -> list[ir.Value]:
        """What changes nothing, at each position, for all reductions of a walk."""
        folds = [fold for number in walk.reductions for fold in folds_of(self.kernel.program, number)]
        constants = [self.bodies.constant(fold.identity()) for fold in folds]
        return [self.bodies.as_vector(constant, scopes) for scopes in stacks for constant in constants]

    def _merged(self, cursor: Cursor, walk: ColumnWalk, left: list[ir.Value], right: list[ir.Value]) -> list[ir.Value]:
        """Accumulators of two parts of the rows, put together."""
        merged: list[ir.Value] = []
        for number in walk.reductions:
            with self.kernel.program.nodes[number].operation.location, cursor.point:
                for fold in folds_of(self.kernel.program, number):
                    merged.append(fold.combine(left[len(merged)], right[len(merged)]))
        return merged

    def _column(self, walk: ColumnWalk, scopes: list[Scope], old: list[ir.Value]) -> list[ir.Value]:
        for number in walk.nodes:
            self.bodies.inline(self.kernel.program.nodes[number], scopes)
        results: list[ir.Value] = []
        for number in walk.reductions:
            node = self.kernel.program.nodes[number]
            count = len(node.operation.results)
            mine = old[len(results) : len(results) + count]
            scopes[-1].memo.update(zip(list(node.body.arguments)[node.num_inputs :], mine, strict=True))
            self.bodies.inline(node, scopes)
            with scopes[-1].cursor.point:
                operands = end_of(node.body).operands
                results += [self.bodies.as_vector(self.bodies.lookup(operand, scopes), scopes) for operand in operands]
        for value, buffer in self.kernel.buffers(walk.store):
            self.bodies.store(value, buffer, scopes)
        return results
