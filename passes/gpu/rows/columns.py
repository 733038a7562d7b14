"""Reductions over leading dimensions: each thread has a few neighbouring columns and some of the rows.

A block's threads are `depth` rows of `width` threads. Each thread adds up its rows in order, then the block adds up its
threads' sums in order. Where columns are long, blocks have ranges of rows, and a second launch adds up what they found.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, gcd, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, llvm, memref, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import when
from blu.passes.gpu.rows.bodies import WIDEST, GuardedScope, count_words, element_bytes
from blu.passes.gpu.rows.teams import ColumnCluster, all_of, cluster_bytes, combine_depth
from blu.passes.gpu.rows.walks import RowKernel, RowThread, as_index, split_number
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.lanes import from_storage, to_storage
from blu.passes.kernels.rows.reductions import Fold
from blu.passes.kernels.rows.space import RowNode
from blu.passes.loops.fuse.loops import loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, REDUCTION, constant, fill, generic, projection


@dataclass(frozen=True)
class ColumnGrid:
    """`tiles` of `width` vectors of columns; a block has `depth` rows of `width` threads; `parts` ranges of `length`
    rows."""

    width: int
    depth: int
    tiles: int
    parts: int
    length: int

    @classmethod
    def of(cls, kernel: RowKernel, width: int, parts: int) -> ColumnGrid:
        """Blocks that share the rows in `parts`."""
        depth = kernel.cut.threads // width
        step = depth * kernel.cut.unroll
        return cls(width, depth, _tiles(kernel, width), parts, ceil(_rows_of(kernel) / (parts * step)) * step)

    @classmethod
    def of_ranges(cls, kernel: RowKernel, width: int, length: int) -> ColumnGrid:
        """The same for given ranges of rows."""
        depth = kernel.cut.threads // width
        return cls(width, depth, _tiles(kernel, width), ceil(_rows_of(kernel) / length), length)


def _tiles(kernel: RowKernel, width: int) -> int:
    return ceil(column_points(kernel) // kernel.cut.lanes / width)


def _rows_of(kernel: RowKernel) -> int:
    """Rows of each column."""
    return prod(kernel.layout.sizes[dim] for dim in kernel.layout.columns)


def column_points(kernel: RowKernel) -> int:
    """Results of each reduction."""
    return prod(kernel.layout.sizes[dim] for dim in kernel.layout.rows)


def shared_bytes(kernel: RowKernel, width: int) -> int:
    """Shared memory for the sums of all threads of a block, of one reduction after the other; or for all reductions of
    a cluster of blocks that have `width` threads beside each other."""
    cut = kernel.cut
    elements = [fold.element for walk in kernel.walks for _, fold in kernel.folds(walk)]
    if cut.cluster == 1:
        return max(map(words_of, elements), default=0) * 4 * cut.lanes * cut.threads
    counts = [count_words(element, cut.lanes) for element in elements]
    return sum(cluster_bytes(cut.cluster, cut.threads // WARP, width, count) for count in counts)


def words_of(element: ir.Type) -> int:
    """Words of shared memory for an element."""
    return max(1, element_bytes(element) // 4)


@dataclass
class ColumnThread(RowThread):
    """Emits one thread's share of its columns, at the position of `row`; `depth` (i32) is its row in the block."""

    grid: ColumnGrid
    depth: ir.Value
    part: ir.Value
    partials: dict[ir.Value, ir.Value]
    point: ir.Value

    def emit_sums(self) -> None:
        """Add up the rows of a range, and write results or what was found for them."""
        walk = self.kernel.walks[0]
        if self.kernel.cut.cluster > 1:
            with self.row.cursor.point:
                self._cluster.begin(self._words)
        step, length = self.grid.depth * self.kernel.cut.unroll, self.grid.length
        is_exact = self._width % length == 0 and length % step == 0
        with self.row.cursor.point:
            carried = [self._identity(fold) for _, fold in self.kernel.folds(walk)]
            begin = numbers.multiply(self.part, length)
            end = numbers.smaller(numbers.add(begin, length), self._width)
            stride = numbers.number(step)

        def body(cursor: Cursor, base: ir.Value, old: list[ir.Value]) -> list[ir.Value]:
            places = []
            with cursor.point:
                for number in range(self.kernel.cut.unroll):
                    row = numbers.add(numbers.add(base, self.depth), number * self.grid.depth)
                    present = None if is_exact else numbers.is_below(row, end)
                    places.append(self._row_place(cursor, row, present))
            return self._visit(walk, places, old)

        totals = self.row.cursor.loop(begin, end, stride, carried, body)
        self._end(totals, self._leave if self.partials else self._finish_column)

    def emit_results(self) -> None:
        """Add up what the ranges of rows have found, and write results."""
        totals = []
        for node, fold in self.kernel.folds(self.kernel.walks[0]):
            with node.operation.location, self.row.cursor.point:
                total = self._identity(fold)
                for first in range(0, self.grid.parts, self.grid.depth):
                    part = numbers.add(self.depth, first)
                    whole = first + self.grid.depth <= self.grid.parts
                    present = None if whole else numbers.is_below(part, self.grid.parts)
                    found = self._partial(node, fold, part, present)
                    total = fold.combine(total, found)
                totals.append(total)
        self._end(totals, self._finish_column)

    def _row_place(self, cursor: Cursor, row: ir.Value, present: ir.Value | None) -> GuardedScope:
        if present is not None:
            row = arith.select(present, row, numbers.number(0))
        sizes = {dim: self.kernel.layout.sizes[dim] for dim in self.kernel.layout.columns}
        indices = {dim: as_index(value) for dim, value in split_number(row, sizes).items()}
        return GuardedScope(self.row.bound | set(sizes), cursor, indices, None, {}, present)

    def _end(self, totals: list[ir.Value], write: Callable) -> None:
        for number, (total, (node, fold)) in enumerate(
            zip(totals, self.kernel.folds(self.kernel.walks[0]), strict=True)
        ):
            with node.operation.location, self.row.cursor.point:
                value = self._add_block(total, fold) if self.kernel.cut.cluster == 1 else self._add_all(total, number)
            write(node, fold, value)
        if write == self._finish_column:
            self._store_results(self.kernel.walks[-1])

    def _is_first(self) -> ir.Value | None:
        with self.row.cursor.point:
            first = numbers.is_equal(self.depth, 0) if self.grid.depth > 1 else None
            alone = numbers.is_equal(self.part, 0) if self.kernel.cut.cluster > 1 else None
            return all_of([self.row.present, first, alone])

    def _finish_column(self, node: RowNode, fold: Fold, value: ir.Value) -> None:
        place = node.num_inputs + fold.number
        initial = node.operation.operands[place]
        scopes = [self.entry, self.row]
        with node.operation.location, self.row.cursor.point:
            if self.kernel.program.fills.get(initial) != fold.identity():
                start = self.bodies.as_vector(self.bodies.read(initial, node.accesses[place], scopes), scopes)
                value = fold.combine(start, value)
        self.bodies.remember(node.operation.results[fold.number], value, scopes)
        self.bodies.homes[value] = self.row

    # What ranges of rows have found

    def _address(self, part: ir.Value) -> ir.Value:
        index = as_index(numbers.multiply(self.point, self.kernel.cut.lanes))
        return arith.addi(arith.muli(as_index(part), vectors.index(column_points(self.kernel))), index)

    def _alignment(self, fold: Fold) -> int:
        return gcd(WIDEST, element_bytes(fold.element) * gcd(self.kernel.cut.lanes, column_points(self.kernel)))

    def _partial(self, node: RowNode, fold: Fold, part: ir.Value, present: ir.Value | None) -> ir.Value:
        buffer, lanes = self.partials[node.operation.results[fold.number]], self.kernel.cut.lanes
        place = part if present is None else arith.select(present, part, numbers.number(0))
        if lanes == 1:
            found = memref.load(buffer, [self._address(place)])
        else:
            type_ = vectors.vector_type(lanes, ir.MemRefType(buffer.type).element_type)
            found = vector.load(type_, buffer, [self._address(place)], alignment=self._alignment(fold))
        found = from_storage(found, fold.element)
        return found if present is None else arith.select(present, found, self._identity(fold))

    def _leave(self, node: RowNode, fold: Fold, value: ir.Value) -> None:
        buffer = self.partials[node.operation.results[fold.number]]
        first = self._is_first()
        with node.operation.location, self.row.cursor.point:
            address, value = self._address(self.part), to_storage(value, fold.element)
            with when(first):
                if self.kernel.cut.lanes == 1:
                    memref.store(value, buffer, [address])
                else:
                    vector.store(value, buffer, [address], alignment=self._alignment(fold))

    # The threads of a block that have the same columns

    def _add_block(self, total: ir.Value, fold: Fold) -> ir.Value:
        """What the threads of a column have found, in order; right in the first of them only."""
        grid = self.grid
        return combine_depth(self.team.shared, self.team.number, total, fold.combine, grid.width, grid.depth)

    def _add_all(self, total: ir.Value, number: int) -> ir.Value:
        """The same of all blocks of a cluster, for one of its reductions; right in the first block only."""
        cluster, (_, fold) = self._cluster, self.kernel.folds(self.kernel.walks[0])[number]
        return cluster.combine(total, fold.combine, sum(map(cluster.bytes_of, self._words[:number])))

    @property
    def _words(self) -> list[int]:
        """Words of what a thread has of each reduction."""
        folds, lanes = self.kernel.folds(self.kernel.walks[0]), self.kernel.cut.lanes
        return [count_words(fold.element, lanes) for _, fold in folds]

    @property
    def _cluster(self) -> ColumnCluster:
        cut, shared = self.kernel.cut, llvm.ptrtoint(numbers.i32(), self.team.shared)
        warps = cut.threads // WARP
        return ColumnCluster(shared, self.team.number, self.part, cut.cluster, warps, self.grid.width)


def spell_out_sums(kernel: func.FuncOp) -> dict[ir.Operation, ir.Value]:
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
