"""Sums over ranges of what follows a product, where the warps that hold it do not add them up.

The boxes' warps do (boxes/column_sums.py, boxes/row_totals.py). Any other kind of kernel stores its results first, and
another launch reads them: a thread adds up a range of rows for some neighbouring columns, or a range of columns of a
row, as they are stored.
"""

from __future__ import annotations

from math import ceil

from blu.dialects.core.mlir import arith, func, ir, memref, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.boxes.plan import adds_columns, adds_rows
from blu.passes.gpu.gemm.output import aligned_accesses, choose_lanes
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.gpu.gemm.split import Read
from blu.passes.gpu.kernel import GpuKernel, repeat, when
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import IndexedBuffer, Point
from blu.passes.kernels.epilogue import ColumnSum, Epilogue, RangeOfRow
from blu.passes.kernels.schedules import Schedule
from blu.passes.loops.fuse.loops import loop_nest

THREADS = 256
_TOGETHER = 4
"""Rows that a thread reads at a time."""


def has_row_sums(kernel: func.FuncOp) -> bool:
    """Whether a kernel adds up ranges of columns."""
    generics = (item.operation for item in kernel.entry_block.operations if item.operation.name == "linalg.generic")
    return any(nest is not None and nest.columns_length for nest in (loop_nest(item, 0) for item in generics))


def emit_apart(kernel: func.FuncOp, read: Read, schedule: Schedule) -> list[func.FuncOp]:
    """The kernels of all column sums that the product's own does not make. The product's is still to be written."""
    product, epilogue = read(GpuKernel.read(kernel))
    of_warps = isinstance(schedule, WgmmaSchedule)
    launched: list[func.FuncOp] = []
    if not (of_warps and adds_columns(product, epilogue, schedule)):
        launched += [_emit(kernel, read, number) for number in range(len(epilogue.sums))]
    if not (of_warps and adds_rows(product, epilogue, schedule)):
        launched += [_emit_rows(kernel, read, number) for number in range(len(epilogue.row_sums))]
    return launched


def _emit_rows(kernel: func.FuncOp, read: Read, number: int) -> func.FuncOp:
    frame = GpuKernel.open(kernel, name=f"{kernel.name.value}_rows" + f"_{number}" * bool(number))
    product, epilogue = read(frame)
    sums = epilogue.row_sums[number]
    source = epilogue.outputs[sums.output][1]
    rows, ranges = ir.MemRefType(sums.target.buffer.type).shape
    location = product.contraction.operation.location
    with location, frame.launch((ceil(rows * ranges / THREADS),), THREADS) as here:
        place = numbers.add(numbers.multiply(numbers.as_number(here.block[0]), THREADS), numbers.as_number(here.thread))
        with when(numbers.is_below(place, rows * ranges)):
            row, part = numbers.divide(place, ranges), numbers.remainder(place, ranges)
            total = _add_up_row(sums, source, row, numbers.multiply(part, sums.length))
            memref.store(total, sums.target.buffer, [_index(row), _index(part)])
    return frame.replacement


def _add_up_row(sums: RangeOfRow, source: IndexedBuffer, row: ir.Value, first: ir.Value) -> ir.Value:
    """The sum of the columns of a range that exist, in order."""
    columns, f32 = ir.MemRefType(source.buffer.type).shape[1], numbers.f32()
    count = numbers.smaller(numbers.subtract(columns, first), sums.length)

    def body(column: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        value = memref.load(source.buffer, [_index(row), _index(numbers.add(first, column))])
        return [arith.addf(carried[0], value if value.type == f32 else arith.extf(f32, value))]

    (total,) = repeat(0, count, 1, [numbers.real(0.0)], body)
    return total


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)


def _emit(kernel: func.FuncOp, read: Read, number: int) -> func.FuncOp:
    frame = GpuKernel.open(kernel, name=f"{kernel.name.value}_columns" + f"_{number}" * bool(number))
    product, epilogue = read(frame)
    sums = epilogue.sums[number]
    source = epilogue.outputs[sums.output][1]
    lanes, (rows, columns) = _lanes_of(product, epilogue, source, sums), map(product.contraction.size, sums.target.dims)
    wide = columns // lanes
    pieces = rows // sums.length * wide
    location = product.contraction.operation.location
    with location, frame.launch((ceil(pieces / THREADS),), THREADS) as here:
        place = numbers.add(numbers.multiply(numbers.as_number(here.block[0]), THREADS), numbers.as_number(here.thread))
        with when(numbers.is_below(place, pieces)), aligned_accesses():
            column = numbers.multiply(numbers.remainder(place, wide), lanes)
            _add_up(sums, source, numbers.divide(place, wide), column, lanes)
    return frame.replacement


def _lanes_of(product: Product, epilogue: Epilogue, source: IndexedBuffer, sums: ColumnSum) -> int:
    if sums.target.dims[-1] != product.contraction.columns:
        return 1  # neighbours along the contraction's columns are rows of the result
    lanes = choose_lanes(epilogue, [source, sums.target])
    while product.columns % lanes:
        lanes //= 2
    return lanes


def _add_up(sums: ColumnSum, source: IndexedBuffer, part: ir.Value, column: ir.Value, lanes: int) -> None:
    """The sum of a range of rows, in order."""
    columns, first = sums.target.dims[-1], numbers.multiply(part, sums.length)
    type_ = vectors.vector_type(lanes, numbers.f32())

    def body(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        points = [_point(sums, numbers.add(numbers.add(first, row), own), column) for own in range(_TOGETHER)]
        (total,) = carried
        for value in [source.load(point, columns, lanes, lanes) for point in points]:
            total = arith.addf(total, value if value.type == type_ else arith.extf(type_, value))
        return [total]

    zeros = vector.broadcast(type_, numbers.real(0.0))
    (total,) = repeat(0, sums.length, _TOGETHER, [zeros], body)
    sums.target.store(total, _point(sums, part, column), columns, lanes)


def _point(sums: ColumnSum, row: ir.Value, column: ir.Value) -> Point:
    """Of the source a row, of the target a range of them."""
    places = zip(sums.target.dims, (row, column), strict=True)
    return {dim: _index(value) for dim, value in places if dim is not None}
