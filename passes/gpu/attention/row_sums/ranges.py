"""Sums of the rows of attention's gradients, over ranges of the rows of a head, for gradients of biases.

Warpgroups find them in the registers from which rows are written (gemm/boxes/column_sums.py says how a warp does).
Other kinds of kernels store the rows first, and another launch reads them.
"""

from __future__ import annotations

from functools import reduce
from math import ceil, prod

from blu.dialects.core.mlir import arith, func, ir, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import HeadMatrix, operand_of, split_head
from blu.passes.gpu.attention.scores import STRIP, Sums
from blu.passes.gpu.attention.tiles import MatrixTile
from blu.passes.gpu.gemm.boxes.column_sums import ColumnTotals
from blu.passes.gpu.isa import barrier, cvt, shared_memory
from blu.passes.gpu.kernel import GpuKernel, repeat, when
from blu.passes.gpu.numbers import Number
from blu.passes.loops.fuse.loops import OF_GRADIENT

ROWS_OF_RANGE = 64
"""Those of a warpgroup."""
THREADS, THREADS_OF_GROUP = 256, 128
_BYTES = 4
_BLOCKS = 8
"""Blocks of 8 columns whose sums the lanes of a warp share out, two columns each."""


def row_sums_of(operation: ir.Operation) -> dict[int, ir.Operation]:
    """The sums over ranges of rows that a blu.attention_gradient does as well, by the number of its result."""
    found = {}
    for number, result in enumerate(operation.results):
        users = [use.owner.operation for use in result.uses]
        found.update((number, user) for user in users if OF_GRADIENT in user.attributes)
    return found


def write_warp_sums(rows: Sums, lane: ir.Value, address: Number, element: ir.Type) -> None:
    """Leave the sums of a warp's 16 rows at a shared address as f32: what is added up is rounded as it is stored."""
    blocks = [block for strip in rows for block in strip]
    assert len(rows) == 1, "a warp of a warpgroup has a strip"
    barrier.warp_sync()  # the other lanes have read what was there
    for first in range(0, len(blocks), _BLOCKS):
        totals = ColumnTotals(lane, _BLOCKS)
        chosen = blocks[first : first + _BLOCKS]
        for number in range(_BLOCKS):
            block = chosen[number] if number < len(chosen) else None
            for half in (0, 2):
                pair = block[half : half + 2] if block else [numbers.real(0)] * 2
                if isinstance(element, ir.F32Type):
                    totals.add_pair(number, vector.from_elements(ir.VectorType.get([2], element), pair))
                else:
                    totals.add(number, cvt.rn_x2(*pair, str(element)), element)
        place = numbers.add(address, numbers.multiply(lane, 2 * _BYTES))
        pair = totals.own_pair()
        shared_memory.st(place, first * 8 * _BYTES, [vector.extract(pair, [], [side]) for side in range(2)])


def add_up_warps(stage: MatrixTile, target: HeadMatrix, part: Number, thread: ir.Value) -> None:
    """Put together what the warps of a group have left in their rows of `stage`, in order: the sums of a range."""
    columns = target.shape[1]
    for first in range(0, columns, THREADS_OF_GROUP):
        column = numbers.add(thread, first)
        with when(numbers.is_below(column, columns)):
            address = numbers.add(stage.address, numbers.multiply(column, _BYTES))
            places = range(0, ROWS_OF_RANGE * stage.pitch, STRIP * stage.pitch)
            terms = [shared_memory.ld(numbers.number(address), place, 1, numbers.f32())[0] for place in places]
            target.store(reduce(arith.addf, terms), part, column)


def emit_apart(kernel: func.FuncOp, operation: ir.Operation) -> list[func.FuncOp]:
    """A launch for the sums of each gradient, which reads its rows: a thread adds up a range of a column."""
    return [_launch(kernel, operation.results[number], item) for number, item in row_sums_of(operation).items()]


def _launch(kernel: func.FuncOp, rows: ir.Value, sums: ir.Operation) -> func.FuncOp:
    frame = GpuKernel.open(kernel, name=f"{kernel.name.value}_sums_{rows.result_number}")
    *heads, parts, columns = ir.RankedTensorType(sums.results[0].type).shape
    count = prod(heads) * parts * columns
    with sums.location, frame.launch((ceil(count / THREADS),), THREADS) as here:
        place = numbers.add(numbers.multiply(numbers.as_number(here.block[0]), THREADS), numbers.as_number(here.thread))
        with when(numbers.is_below(place, count)):
            outputs = dict(frame.outputs)
            column, range_ = numbers.remainder(place, columns), numbers.divide(place, columns)
            head = split_head(numbers.divide(range_, parts), heads)
            source, target = (operand_of(outputs[value]).matrix(head) for value in (rows, sums.results[0]))
            part = numbers.remainder(range_, parts)
            target.store(_sum_of(source, numbers.multiply(part, ROWS_OF_RANGE), column), part, column)
    return frame.replacement


def _sum_of(source: HeadMatrix, first: Number, column: Number) -> ir.Value:
    """The sum of a range of rows of a column, in order."""

    def body(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        value = source.load(numbers.add(first, row), column)
        wide = value if isinstance(source.element, ir.F32Type) else arith.extf(numbers.f32(), value)
        return [arith.addf(carried[0], wide)]

    (total,) = repeat(0, ROWS_OF_RANGE, 1, [numbers.real(0)], body)
    return total
