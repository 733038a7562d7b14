"""Few long rows: each row is cut into slices, one block each, and each walk over the row is a launch of its own.

A launch leaves what its slices' reductions have found in buffers. The next one has every block put them together again,
in the same order, before it walks over its own slice.
"""

from __future__ import annotations

from math import ceil

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir, memref
from blu.passes.gpu import numbers
from blu.passes.gpu.kernel import when
from blu.passes.gpu.rows.teams import all_of, merge_lanes
from blu.passes.gpu.rows.walks import RowKernel, RowThread, as_index
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.lanes import from_storage, to_storage
from blu.passes.kernels.rows.plan import ColumnWalk
from blu.passes.kernels.rows.reductions import Fold
from blu.passes.kernels.rows.space import RowNode


@dataclass
class SliceThread(RowThread):
    """Emits one thread's share of slice `part` (i32) of a row; `number` (i32) is the row's.

    `partials` has for each result of a reduction the buffer of what slices have found: `parts` elements for each row.
    """

    part: ir.Value | None
    parts: int
    number: ir.Value
    partials: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def emit_walk(self, level: int, writes_results: bool) -> None:
        """Walk `level` alone (None of them, if it is their number), after the results of those before."""
        *walks, last = self.kernel.walks
        slot = 0
        for walk in walks[:level]:
            self.reload(walk)
            for node, fold in self.kernel.folds(walk):
                self._put_together(node, fold, slot)
                slot += 1
        if level < len(walks):
            self.reload(walks[level])
            totals = self._sweep(walks[level])
            for total, (node, fold) in zip(totals, self.kernel.folds(walks[level]), strict=True):
                self._leave(node, fold, total, slot)
                slot += 1
        if writes_results:
            self._store_results(last)

    def _is_first(self) -> ir.Value | None:
        first = super()._is_first()
        with self.row.cursor.point:
            return all_of([first, None if self.part is None else numbers.is_equal(self.part, 0)])

    def _sweep(self, walk: ColumnWalk) -> list[ir.Value]:
        cut, width = self.kernel.cut, self._width
        stride = cut.lanes * self.team.size
        step = stride * cut.unroll
        length = ceil(width / (self.parts * step)) * step
        with self.row.cursor.point:
            carried = [self._identity(fold) for _, fold in self.kernel.folds(walk)]
            begin = numbers.multiply(self.part, length)
            end = numbers.smaller(numbers.add(begin, length), width)
            self._start_number()

        def body(cursor: Cursor, base: ir.Value, old: list[ir.Value]) -> list[ir.Value]:
            places = []
            with cursor.point:
                first = numbers.add(base, self._start_number())
                for number in range(cut.unroll):
                    point = numbers.add(first, number * stride)
                    present = numbers.is_below(point, width) if width % length else None
                    places.append(self._place_at_point(cursor, point, present))
            return self._visit(walk, places, old)

        with self.row.cursor.point:
            bound = numbers.number(step)
        return self.row.cursor.loop(begin, end, bound, carried, body)

    def _index(self, part: ir.Value) -> ir.Value:
        return as_index(numbers.add(numbers.multiply(self.number, self.parts), part))

    def _leave(self, node: RowNode, fold: Fold, total: ir.Value, slot: int) -> None:
        """Write what this slice has found."""
        with node.operation.location, self.row.cursor.point:
            value = self.team.reduce(merge_lanes(total, fold.combine), fold.combine, slot)
            value, index = to_storage(value, fold.element), self._index(self.part)
            with when(numbers.is_equal(self.team.number, 0)):
                memref.store(value, self.partials[node.operation.results[fold.number]], [index])

    def _put_together(self, node: RowNode, fold: Fold, slot: int) -> None:
        """The result of a reduction whose slices have been walked by an earlier launch."""
        result = node.operation.results[fold.number]
        with node.operation.location, self.row.cursor.point:
            present = numbers.is_below(self.team.number, self.parts)
            part = arith.select(present, self.team.number, numbers.number(0))
            found = from_storage(memref.load(self.partials[result], [self._index(part)]), fold.element)
            found = arith.select(present, found, arith.constant(fold.element, fold.identity()))
        self._finish(node, fold, found, slot)


def nonempty_walks(kernel: RowKernel) -> list[int]:
    """The levels at which a kernel walks over its columns."""
    return [level for level, walk in enumerate(kernel.walks[:-1]) if not walk.is_empty]


def result_values(kernel: RowKernel) -> list[ir.Value]:
    """The results of all reductions, in the order in which `row_partials.reserve` has their types."""
    order = sorted(kernel.program.reductions)
    return [result for number in order for result in kernel.program.nodes[number].operation.results]
