"""How the lanes of a warp share rows of keys and values: loading, widening and storing what a lane has of one."""

from __future__ import annotations

from collections.abc import Iterator

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import COPY_BYTES, HeadMatrix, pointer
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.numbers import Number

PIECE = 8
"""Columns that a lane holds of a row, or a multiple of it where rows are long."""
Loaded = list[ir.Value]
"""What a lane has of a row as it is in memory: vectors of 16 bytes, or elements."""


@dataclass(frozen=True)
class Shares:
    """How rows of `columns` lie in a warp: `lanes` to a row, each with `pieces` pieces of 8 columns."""

    columns: int
    lanes: int
    pieces: int

    @classmethod
    def of(cls, columns: int) -> Shares:
        """Up to 8 lanes to a row, a power of two; the last may have nothing to do."""
        count = columns // PIECE
        lanes = min(8, 1 << (count - 1).bit_length())
        return cls(columns, lanes, -(-count // lanes))

    @property
    def rows(self) -> int:
        """Rows side by side in a warp."""
        return WARP // self.lanes

    def words(self, size: int) -> int:
        """Registers of a lane for a key and its value, of elements of `size` bytes."""
        return 2 * self.pieces * PIECE * size // 4


@dataclass(frozen=True)
class LaneColumns:
    """The columns of rows that a lane has: `firsts` are those with which its pieces begin."""

    shares: Shares
    firsts: tuple[ir.Value, ...]

    @classmethod
    def of(cls, shares: Shares, lane: ir.Value) -> LaneColumns:
        """Those of a lane of a group."""
        first = numbers.multiply(lane, shares.pieces * PIECE)
        return cls(shares, tuple(numbers.number(numbers.add(first, piece * PIECE)) for piece in range(shares.pieces)))

    def load(self, matrix: HeadMatrix, row: Number) -> Loaded:
        """What a lane has of a row; of columns that are not there it loads others."""
        found = []
        for first in self.firsts:
            present = numbers.is_below(first, self.shares.columns)
            safe = arith.select(present, first, numbers.number(0))
            found += [_load(matrix, row, numbers.add(safe, place)) for place in _places(matrix)]
        return found

    def wide(self, loaded: Loaded) -> list[ir.Value]:
        """Elements as f32; 0 for columns that are not there."""
        elements = [wide(item) for each in loaded for item in _elements(each)]
        present = [numbers.is_below(first, self.shares.columns) for first in self.firsts]
        return [arith.select(present[place // PIECE], item, numbers.real(0)) for place, item in enumerate(elements)]

    def store(self, matrix: HeadMatrix, row: Number, loaded: Loaded) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
        """What is to be stored of a row, under which condition and where: condition, pointer, value."""
        items = loaded if matrix.is_aligned else [element for item in loaded for element in _elements(item)]
        each = len(items) // len(self.firsts)
        for number, first in enumerate(self.firsts):
            present = numbers.is_below(first, self.shares.columns)
            for place, item in enumerate(items[number * each : (number + 1) * each]):
                at = numbers.add(first, place * (PIECE // each))
                yield present, pointer(matrix.address(row, at)), item


def wide(value: ir.Value) -> ir.Value:
    """An element as f32."""
    return value if isinstance(value.type, ir.F32Type) else arith.extf(numbers.f32(), value)


def kept(present: ir.Value, loaded: Loaded) -> Loaded:
    """What was loaded, or zeros."""
    return [arith.select(present, item, _zero(item.type)) for item in loaded]


def _places(matrix: HeadMatrix) -> range:
    """Where in a piece each load begins."""
    is_one_by_one = not matrix.is_aligned or matrix.constant is not None
    return range(0, PIECE, 1 if is_one_by_one else COPY_BYTES // matrix.size)


def _load(matrix: HeadMatrix, row: Number, column: Number) -> ir.Value:
    if len(_places(matrix)) == PIECE:
        return matrix.load(row, column)
    type_ = ir.VectorType.get([COPY_BYTES // matrix.size], matrix.element)
    return llvm.load(type_, pointer(matrix.address(row, column)), alignment=COPY_BYTES)


def _elements(loaded: ir.Value) -> list[ir.Value]:
    if not isinstance(loaded.type, ir.VectorType):
        return [loaded]
    count = ir.VectorType(loaded.type).shape[0]
    return [llvm.extractelement(loaded, numbers.number(at)) for at in range(count)]


def _zero(type_: ir.Type) -> ir.Value:
    if not isinstance(type_, ir.VectorType):
        return arith.constant(type_, ir.FloatAttr.get(type_, 0.0))
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(type_.element_type, 0.0)))
