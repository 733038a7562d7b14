"""Kernels that add to rows of a buffer in place, at indices known at run time.

Rows are runs of the last dimension, vectorised where their elements are neighbours.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref, scf
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.kernel import for_range, open_kernel
from blu.passes.cpu.others.update import bytes_of, move_row, shape_of
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.updates import (
    add_terms,
    delinearize,
    find_operation,
    is_half,
    rounded,
    widened,
    wrapped,
)


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The memory in which updates of one row find each other, where their sum is wider than the row (see `_Runs`)."""
    destination, indices, _ = (ir.RankedTensorType(item.type) for item in operands_of(_scatter(kernel)))
    count, index = prod(indices.shape), ir.IndexType.get()
    if count < 2 or not is_half(destination.element_type):
        return []
    return [ir.MemRefType.get([length], index) for length in (destination.shape[_axis(kernel)], count)]


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Add each update to its row, in order, in one block."""
    frame, axis = open_kernel(kernel), _axis(kernel)
    _, indices, updates = (frame.buffers[value] for value in operands_of(_scatter(kernel)))
    with kernel.location, frame.grid(_has_work(updates)):
        if frame.scratch:
            _Runs(frame.outputs[0][1], indices, updates, axis, *frame.scratch).emit(target)
        else:
            _add_rows(frame.outputs[0][1], indices, updates, axis, target)


def _scatter(kernel: func.FuncOp) -> ir.Operation:
    return find_operation(kernel, "blu.scatter_add")


def _axis(kernel: func.FuncOp) -> int:
    return attributes_of(_scatter(kernel))["axis"]


def _has_work(updates: ir.Value) -> int:
    return 1 if prod(shape_of(updates)) else 0


def _add_rows(destination: ir.Value, indices: ir.Value, updates: ir.Value, axis: int, target: CpuTarget) -> None:
    """For every position of the updates but the last dimension: find the destination's row and add to it."""
    shape, rank = shape_of(updates), len(shape_of(indices))
    element = ir.MemRefType(updates.type).element_type
    is_last = axis == len(shape_of(destination)) - 1
    rows = shape if is_last else shape[:-1]
    with for_range(0, prod(rows)) as row:
        place = delinearize(row.induction_variable, rows)
        chosen = wrapped(memref.load(indices, place[axis : axis + rank]), shape_of(destination)[axis])
        where = [*place[:axis], chosen, *place[axis + rank :]]
        if is_last:
            total = add_terms(memref.load(destination, where), memref.load(updates, place))
            memref.store(rounded(total, element), destination, where)
        else:
            lanes = target.lanes(bytes_of(element))
            move_row(updates, destination, place, where, vectors.index(0), shape[-1], lanes,
                     lambda new, old: rounded(add_terms(old, new), element))  # fmt: skip


@dataclass(frozen=True)
class _Runs:
    """Sums of halves: all updates of a row are added up in f32, in order, before the row is rounded.

    `first` has, for each row that an index chooses, the first position that does; `after` has the next position that
    chooses the same row, for each position. Both hold NONE where there is none.
    """

    destination: ir.Value
    indices: ir.Value
    updates: ir.Value
    axis: int
    first: ir.Value
    after: ir.Value

    NONE: ClassVar[int] = -1

    @property
    def chosen(self) -> list[int]:
        """The shape of the indices."""
        return shape_of(self.indices)

    def emit(self, target: CpuTarget) -> None:
        """Link positions of equal rows, the last position first; then add up from the first position of each row."""
        count = prod(self.chosen)
        with for_range(0, count) as loop:
            memref.store(vectors.index(self.NONE), self.first, [self._row(loop.induction_variable)])
        with for_range(0, count) as loop:
            position = arith.subi(vectors.index(count - 1), loop.induction_variable)
            row = self._row(position)
            memref.store(memref.load(self.first, [row]), self.after, [position])
            memref.store(position, self.first, [row])
        with for_range(0, count) as loop:
            position = loop.induction_variable
            row = self._row(position)
            is_first = arith.cmpi(arith.CmpIPredicate.eq, memref.load(self.first, [row]), position)
            condition = scf.IfOp(is_first)
            with ir.InsertionPoint(condition.then_block):
                self._add_up(position, row, target.lanes(4))
                scf.yield_([])

    def _row(self, position: ir.Value) -> ir.Value:
        """The row that the index at a position chooses."""
        index = memref.load(self.indices, delinearize(position, self.chosen))
        return wrapped(index, shape_of(self.destination)[self.axis])

    def _add_up(self, start: ir.Value, row: ir.Value, lanes: int) -> None:
        """Add all updates from position `start` on to the row's elements, as many at a time as there are lanes."""
        shape = shape_of(self.destination)
        columns = [*shape[: self.axis], *shape[self.axis + 1 :]]
        width = columns.pop() if self.axis < len(shape) - 1 else 1
        if not width:
            return
        lanes = min(lanes, width)
        with for_range(0, prod(columns)) as outer:
            place = delinearize(outer.induction_variable, columns)
            whole = width - width % lanes
            with for_range(0, whole, lanes) as loop:
                self._add_lanes(start, row, self._column(place, loop.induction_variable), lanes, lanes)
            if width % lanes:
                self._add_lanes(start, row, self._column(place, vectors.index(whole)), lanes, width % lanes)

    def _column(self, place: list[ir.Value], last: ir.Value) -> list[ir.Value]:
        """The indices of an element but for the row, the one in the last dimension included."""
        return place if self.axis == len(shape_of(self.destination)) - 1 else [*place, last]

    def _add_lanes(self, start: ir.Value, row: ir.Value, column: list[ir.Value], lanes: int, count: int) -> None:
        index, element = ir.IndexType.get(), ir.MemRefType(self.destination.type).element_type
        where = [*column[: self.axis], row, *column[self.axis :]]
        old = vectors.load(self.destination, where, lanes, count)
        total = widened(old)
        loop = scf.WhileOp([index, total.type], [start, total])
        before = loop.before.blocks.append(index, total.type)
        after = loop.after.blocks.append(index, total.type)
        with ir.InsertionPoint(before):
            exists = arith.cmpi(arith.CmpIPredicate.ne, before.arguments[0], vectors.index(self.NONE))
            scf.condition(exists, before.arguments)
        with ir.InsertionPoint(after):
            position, total = after.arguments
            read = [*column[: self.axis], *delinearize(position, self.chosen), *column[self.axis :]]
            total = add_terms(total, vectors.load(self.updates, read, lanes, count))
            scf.yield_([memref.load(self.after, [position]), total])
        vectors.store(rounded(loop.results[1], element), self.destination, where, count)
