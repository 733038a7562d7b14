"""Kernels that change a part of a buffer in place: a slice at run-time positions, or rows that are added to.

Both move rows: runs of the last dimension, vectorised where their elements are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

from blu.dialects.core.mlir import arith, func, ir, memref, scf
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.kernel import for_range, open_kernel
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.updates import (
    add_terms,
    delinearize,
    find_operation,
    is_half,
    rounded,
    run_time_starts,
    widened,
    wrapped,
)

BYTES_PER_BLOCK = 64 * 1024
MAX_BLOCKS = 64


def emit_slice(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Write the update of a tensor.insert_slice into the buffer; blocks are runs of its rows."""
    insertion = find_operation(kernel, "tensor.insert_slice")
    frame = open_kernel(kernel)
    source = frame.buffers[insertion.operands[0]]
    shape, element = _shape(source), ir.MemRefType(source.type).element_type
    rows, width = prod(shape[:-1]), shape[-1] if shape else 1
    blocks = _num_blocks(rows, width * _bytes(element))
    destination = frame.outputs[0][1]
    lanes = target.lanes(_bytes(element))
    with kernel.location, frame.grid(blocks) as block:
        starts = run_time_starts(frame, insertion)
        with _rows_of_block(block, rows, blocks) as row:
            place = delinearize(row.induction_variable, shape[:-1])
            move_row(source, destination, place, [arith.addi(a, b) for a, b in zip(starts, place, strict=False)],
                     starts[-1] if starts else None, width, lanes, lambda new, _: new)  # fmt: skip


def _shape(buffer: ir.Value) -> list[int]:
    return list(ir.MemRefType(buffer.type).shape)


def _bytes(element: ir.Type) -> int:
    return max(1, element.width // 8)


def _num_blocks(rows: int, row_bytes: int) -> int:
    if not rows or not row_bytes:
        return 0
    return max(1, min(rows, MAX_BLOCKS, rows * row_bytes // BYTES_PER_BLOCK))


def _rows_of_block(block: ir.Value, rows: int, blocks: int):
    share = vectors.index(ceil(rows / blocks))
    begin = arith.minui(arith.muli(block, share), vectors.index(rows))
    end = arith.minui(arith.addi(begin, share), vectors.index(rows))
    return for_range(begin, end)


def move_row(
    source: ir.Value,
    destination: ir.Value,
    read: Sequence[ir.Value],
    write: Sequence[ir.Value],
    column: ir.Value | None,
    width: int,
    lanes: int,
    combine: Callable[[ir.Value, ir.Value], ir.Value],
) -> None:
    """Combine one row of `source` with the row of `destination` that begins at `column` (0-d: one element)."""
    if column is None:
        memref.store(combine(memref.load(source, []), memref.load(destination, [])), destination, [])
        return

    def step(at: ir.Value, count: int) -> None:
        target = [*write, arith.addi(column, at)]
        new, old = (vectors.load(*where, lanes, count) for where in ((source, [*read, at]), (destination, target)))
        vectors.store(combine(new, old), destination, target, count)

    whole = width - width % lanes
    if whole:
        with for_range(0, whole, lanes) as loop:
            step(loop.induction_variable, lanes)
    if width % lanes:
        step(vectors.index(whole), width % lanes)


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The memory in which updates of one row find each other, where their sum is wider than the row (see `_Runs`)."""
    destination, indices, _ = (ir.RankedTensorType(item.type) for item in operands_of(_scatter(kernel)))
    count, index = prod(indices.shape), ir.IndexType.get()
    if count < 2 or not is_half(destination.element_type):
        return []
    return [ir.MemRefType.get([length], index) for length in (destination.shape[_axis(kernel)], count)]


def emit_scatter_add(kernel: func.FuncOp, target: CpuTarget) -> None:
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
    return 1 if prod(_shape(updates)) else 0


def _add_rows(destination: ir.Value, indices: ir.Value, updates: ir.Value, axis: int, target: CpuTarget) -> None:
    """For every position of the updates but the last dimension: find the destination's row and add to it."""
    shape, rank = _shape(updates), len(_shape(indices))
    element = ir.MemRefType(updates.type).element_type
    is_last = axis == len(_shape(destination)) - 1
    rows = shape if is_last else shape[:-1]
    with for_range(0, prod(rows)) as row:
        place = delinearize(row.induction_variable, rows)
        chosen = wrapped(memref.load(indices, place[axis : axis + rank]), _shape(destination)[axis])
        where = [*place[:axis], chosen, *place[axis + rank :]]
        if is_last:
            total = add_terms(memref.load(destination, where), memref.load(updates, place))
            memref.store(rounded(total, element), destination, where)
        else:
            lanes = target.lanes(_bytes(element))
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
        return _shape(self.indices)

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
        return wrapped(index, _shape(self.destination)[self.axis])

    def _add_up(self, start: ir.Value, row: ir.Value, lanes: int) -> None:
        """Add all updates from position `start` on to the row's elements, as many at a time as there are lanes."""
        shape = _shape(self.destination)
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
        return place if self.axis == len(_shape(self.destination)) - 1 else [*place, last]

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
