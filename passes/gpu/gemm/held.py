"""From the registers that hold a tile's sums to the outputs, not through shared memory.

Products by warpgroups keep shared memory busy, and what waits for it waits for them. So threads run the fused
operations on the sums that they hold, a few neighbours of a row at a time. What a thread holds of a row:

    neighbours  threads of a row                     what is written at a time
    4           8, side by side                      the transposed product: 128 bytes of each of four rows (f32)
    2           4, side by side                      32 bytes of each of eight rows (f32)
    8           4, once they have exchanged sums     64 bytes of each of eight rows (16 bits)

Sectors of 32 bytes are written whole. Other sizes, and tensors that do not lie for it, go through shared memory
(output.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm import register_factor
from blu.passes.gpu.gemm.output import Reader, Sink, aligned_accesses
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.gpu.isa import shfl, wgmma
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import when
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import Point
from blu.passes.kernels.epilogue import Epilogue, Known

_QUAD = 4
TOGETHER, READ_AHEAD = 16, 2
"""Sums that a thread works on at a time, and how many tensors it reads ahead for them: of one, two times."""
_LONG = 30
"""Epilogues of more scalar operations than this work on half as many."""


@dataclass(frozen=True)
class Piece:
    """Neighbours of a row of the tile, which begin at (row, column) of it."""

    row: ir.Value
    column: ir.Value
    sums: Sequence[ir.Value]


def lanes_of(schedule: WgmmaSchedule, chosen: int) -> int:
    """How many neighbours are worked on, where `chosen` could be accessed at a time; 0 where that is too few."""
    if schedule.is_turned:
        return 4 if chosen >= 4 else 0
    if chosen == 8 and schedule.registers == "none":
        return 8
    return 2 if chosen == 4 else 0


def choose_together(epilogue: Epilogue, lanes: int) -> int:
    """How many pieces a thread works on at a time."""
    return max(1, TOGETHER // lanes // (2 if epilogue.operation_count > _LONG else 1))


def read_ahead(epilogue: Epilogue) -> int:
    """How many times ahead a thread asks for what it reads beside the sums."""
    return max(1, READ_AHEAD // max(1, len(epilogue.reads)))


def reader_of(epilogue: Epilogue) -> Reader | None:
    """Reads all that the fused operations read beside the sums."""
    if not epilogue.reads:
        return None

    def read(points: list[Point], lanes: int) -> list[Known]:
        with aligned_accesses():
            return [epilogue.read(point, lanes, lanes, biases=True) for point in points]

    return read


@dataclass(frozen=True)
class HeldOutput:
    """Writes the outputs of a tile from registers, `lanes` neighbours at a time, for a thread of a warpgroup."""

    product: Product
    schedule: WgmmaSchedule
    sink: Sink
    reader: Reader | None
    lanes: int
    together: int
    ahead: int
    thread: ir.Value

    def write(self, sums: Sequence[ir.Value], point: Point, row: ir.Value, column: ir.Value) -> None:
        """All elements of the tile that exist; the tile begins at (row, column) of the product `point` (i32)."""
        pieces = list(self._pieces(sums))
        groups = [pieces[first : first + self.together] for first in range(0, len(pieces), self.together)]
        places = [[self._place(point, row, column, piece) for piece in group] for group in groups]
        reads = self.reader is not None and self._is_whole
        known = [self._read(group) for group in places[: self.ahead]] if reads else []
        for number, (group, points) in enumerate(zip(groups, places, strict=True)):
            if not self._is_whole:
                self._write_existing(group, points)
                continue
            known += [self._read(points) for points in places[number + self.ahead :][:1]] if reads else []
            before = [known[number]] if reads else []
            self.sink([self._total(piece) for piece in group], points, self.lanes, *before)

    @property
    def _is_whole(self) -> bool:
        """Whether all tiles are."""
        product, schedule = self.product, self.schedule
        return product.rows % schedule.rows == 0 and product.columns % schedule.columns == 0

    def _read(self, points: list[Point]) -> list[Known]:
        assert self.reader is not None
        return self.reader(points, self.lanes)

    def _write_existing(self, group: Sequence[Piece], points: Sequence[Point]) -> None:
        """Pieces are whole, and some are beyond the result."""
        contraction = self.product.contraction
        for piece, point in zip(group, points, strict=True):
            total = self._total(piece)  # sums are exchanged by all lanes
            exists = [
                arith.cmpi(arith.CmpIPredicate.ult, point[dim], vectors.index(size))
                for dim, size in ((contraction.rows, self.product.rows), (contraction.columns, self.product.columns))
            ]
            with when(arith.andi(*exists)):
                self.sink([total], [point], self.lanes)

    def _total(self, piece: Piece) -> ir.Value:
        return vector.from_elements(vectors.vector_type(self.lanes, numbers.f32()), list(piece.sums))

    def _place(self, point: Point, row: ir.Value, column: ir.Value, piece: Piece) -> Point:
        contraction, index = self.product.contraction, ir.IndexType.get()
        own = {contraction.rows: numbers.add(row, piece.row), contraction.columns: numbers.add(column, piece.column)}
        place = {dim: arith.index_castui(index, value) for dim, value in {**point, **own}.items() if dim is not None}
        for dim in (*contraction.outer_depth, contraction.depth):
            place[dim] = vectors.index(0)
        return place

    # What a thread holds: sum 4 j + 2 h + e of each instruction, as isa/wgmma.py says.

    def _pieces(self, sums: Sequence[ir.Value]) -> Iterator[Piece]:
        each = self.schedule.across // 2
        parts = [sums[start : start + each] for start in range(0, len(sums), each)]
        if self.schedule.is_turned:
            return self._turned(parts)
        return self._exchanged(parts) if self.lanes == 8 else self._pairs(parts)

    def _turned(self, parts: Sequence[Sequence[ir.Value]]) -> Iterator[Piece]:
        """Four columns of each of two rows for each eight rows of the tile."""
        column, row = register_factor.first_row(self.thread), self._twice_in_quad
        for place in range(0, len(parts[0]), 4):
            for side in range(2):
                neighbours = [sums[place + 2 * half + side] for sums in parts for half in range(2)]
                yield Piece(numbers.add(row, 2 * place + side), column, neighbours)

    def _pairs(self, parts: Sequence[Sequence[ir.Value]]) -> Iterator[Piece]:
        """Two columns of each of a thread's rows for each eight columns of the tile."""
        rows = list(self._rows(len(parts)))
        for place in range(0, len(parts[0]), 4):
            for number, row in enumerate(rows):
                first = place + 2 * (number % 2)
                yield Piece(row, numbers.add(self._twice_in_quad, 2 * place), parts[number // 2][first : first + 2])

    def _exchanged(self, parts: Sequence[Sequence[ir.Value]]) -> Iterator[Piece]:
        """Eight columns of each of a thread's rows for each 32 columns of the tile: a quad transposes its pairs."""
        rows = list(self._rows(len(parts)))
        column = numbers.multiply(numbers.remainder(self.thread, _QUAD), 8)
        for place in range(0, len(parts[0]), 4 * _QUAD):
            for number, row in enumerate(rows):
                first = place + 2 * (number % 2)
                sides = [self._transposed(parts[number // 2][first + side : first + 16 : 4]) for side in range(2)]
                own = [value for pair in zip(*sides, strict=True) for value in pair]
                yield Piece(row, numbers.add(column, 2 * place), own)

    def _transposed(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Of the values 0 to 3 of four lanes, those whose number is that of this lane, by lanes."""
        values = list(values)
        for bit in (1, 2):
            is_odd = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(self.thread, numbers.number(bit)), numbers.number(0))
            for low in [number for number in range(_QUAD) if not number & bit]:
                mine, other = values[low], values[low | bit]
                given = shfl.bfly(arith.select(is_odd, mine, other), bit)
                values[low] = arith.select(is_odd, given, mine)
                values[low | bit] = arith.select(is_odd, other, given)
        return values

    def _rows(self, parts: int) -> Iterator[ir.Value]:
        """The rows that a thread holds sums of: two of each instruction."""
        if self.schedule.registers == "left":
            first = register_factor.first_row(self.thread)
            yield from (numbers.add(first, number) for number in range(2 * parts))
            return
        warp, lane = numbers.divide(self.thread, WARP), numbers.remainder(self.thread, WARP)
        first = numbers.add(numbers.multiply(warp, 16), numbers.divide(lane, _QUAD))
        for part in range(parts):
            yield from (numbers.add(first, part * wgmma.ROWS + 8 * half) for half in range(2))

    @property
    def _twice_in_quad(self) -> ir.Value:
        return numbers.multiply(numbers.remainder(self.thread, _QUAD), 2)
