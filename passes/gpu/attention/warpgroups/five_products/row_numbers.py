"""The launch before: of each query what makes a score a weight, as the forward has left it, and inner.

Inner is the sum of g * result. Nobody has added to the gradient of a tile of queries yet, nor taken a ticket.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, llvm, math
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import HeadMatrix, operand_of, pointer, split_head
from blu.passes.gpu.attention.scores import RowNumbers, ScoreExponent
from blu.passes.gpu.attention.slopes import Gradient, ShiftedRows
from blu.passes.gpu.attention.warpgroups.five_products.layout import COUNTS, TICKETS, takes_shifts
from blu.passes.gpu.attention.warpgroups.panels import PIECE
from blu.passes.gpu.attention.warpgroups.query_gradient import load_piece
from blu.passes.gpu.attention.warpgroups.stages import ROWS
from blu.passes.gpu.isa import cvt, shfl
from blu.passes.gpu.kernel import GpuKernel, when
from blu.passes.kernels.updates import find_operation

THREADS, LANES, TURNS = 256, 16, 4
"""Of a block; of a row, each of which has a piece of it; and rows that a thread reads at a time."""


def emit(kernel: func.FuncOp) -> func.FuncOp:
    """The launch, for all rows of the scratch memory; those beyond the end have no weights."""
    operation = find_operation(kernel, "blu.attention_gradient")
    frame = GpuKernel.open(kernel, name=f"{kernel.name.value}_numbers")
    heads, rows = ir.MemRefType(frame.scratch[0].type).shape
    each = THREADS // LANES * TURNS
    assert each == ROWS, "a block has a tile"
    with operation.location, frame.launch((heads * rows // each,), THREADS) as here:
        gradient, thread = Gradient.read(operation, frame), numbers.as_number(here.thread)
        first = numbers.multiply(numbers.as_number(here.block[0]), each)
        head, row = numbers.divide(numbers.number(first), rows), numbers.remainder(numbers.number(first), rows)
        own = numbers.add(row, numbers.divide(thread, LANES))
        piece = numbers.remainder(thread, LANES)
        places = [numbers.number(numbers.add(own, THREADS // LANES * turn)) for turn in range(TURNS)]
        found = _Rows(gradient, split_head(head, gradient.problem.heads), piece).find(places)
        with when(numbers.is_equal(thread, 0)):
            _begin_count(operand_of(frame.scratch[COUNTS]).matrix([]).address(head, numbers.divide(row, ROWS)))
            with when(numbers.is_equal(first, 0)):
                _begin_count(operand_of(frame.scratch[TICKETS]).matrix([]).address(0, 0))
        with when(numbers.is_equal(piece, 0)):
            for place, own_numbers in zip(places, found, strict=True):
                gradient.leave(head, place, own_numbers)
    return frame.replacement


def _begin_count(address: ir.Value) -> None:
    llvm.store(numbers.number(0), pointer(address), alignment=4)


@dataclass(frozen=True)
class _Rows:
    """Rows of a head, of which this thread has a piece."""

    gradient: Gradient
    head: Sequence[ir.Value]
    piece: ir.Value

    def find(self, rows: Sequence[ir.Value]) -> list[tuple[ir.Value, ir.Value, ir.Value]]:
        """The numbers of each row; beyond the end, those of no weights."""
        queries = self.gradient.problem.queries
        safe = [numbers.smaller(row, queries - 1) for row in rows]
        matrices = [item.matrix(self.head) for item in (self.gradient.g, self.gradient.result)]
        pieces = [[self._load(matrix, row) for matrix in matrices] for row in safe]
        pairs = [self.gradient.known(self.head, row) for row in rows]
        known = RowNumbers([largest for largest, _ in pairs], [logarithm for _, logarithm in pairs])
        if takes_shifts(self.gradient.problem):
            shifted = ShiftedRows.of(known, ScoreExponent.of(self.gradient.problem))
            pairs = list(zip(shifted.shifts, shifted.rests, strict=True))
        inners = [self._inner(*both) for both in pieces]
        found = []
        for row, own, inner in zip(rows, pairs, inners, strict=True):
            found.append((*own, arith.select(numbers.is_below(row, queries), arith.negf(inner), numbers.real(0))))
        return found

    def _load(self, matrix: HeadMatrix, row: ir.Value) -> list[ir.Value]:
        return load_piece(matrix, row, numbers.smaller(self.piece, matrix.shape[1] // PIECE - 1))

    def _inner(self, *both: list[ir.Value]) -> ir.Value:
        problem, total = self.gradient.problem, numbers.real(0)
        for pair in zip(*both, strict=True):
            for one, other in zip(*(cvt.unpack(item, problem.element) for item in pair), strict=True):
                total = math.fma(one, other, total)
        if problem.width // PIECE < LANES:
            is_there = numbers.is_below(self.piece, problem.width // PIECE)
            total = arith.select(is_there, total, numbers.real(0))
        for distance in (1, 2, 4, 8):
            total = arith.addf(total, shfl.bfly(total, distance))
        return total
