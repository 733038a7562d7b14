"""What the copy engine is told of a factor, and where in it a tile lies.

A tensor map has a dimension for neighbours, one for what lies across them (rows, below), and one for each of the
products, or runs along k, that have elements of their own. Those whose rows overlap, as what places of a convolution's
window see, have none: each is some rows after the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import dtype_of_mlir
from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.problem import Factor
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.gpu.isa import wgmma
from blu.passes.gpu.isa.tma import TileMap
from blu.passes.kernels.contraction import Contraction

MOST_DIMENSIONS = 5
"""Of a tensor map."""


@dataclass(frozen=True)
class FactorMap:
    """The map of a factor of a contraction. Indices are those of its dims `outer` and `outer_depth`, in order."""

    factor: Factor
    contraction: Contraction

    @property
    def misfit(self) -> str:
        """Why there is no such map; "" if there is."""
        if not self.factor.begins_aligned:
            return "the copy engine reads rows that begin at multiples of 16 bytes, with neighbours side by side"
        if 0 < self._across[0] < self._inner:
            return "rows of a tensor map do not overlap"
        if 2 + len(self._own) > MOST_DIMENSIONS:
            return f"tensor maps have {MOST_DIMENSIONS} dimensions at most"
        return ""

    @property
    def _strides(self) -> list[int]:
        return [*self.factor.outer_strides, *self.factor.outer_depth_strides]

    @property
    def _across(self) -> tuple[int, int]:
        """From a row to the next, and how many there are."""
        factor = self.factor
        return (factor.stride, factor.size) if factor.is_deep else (factor.depth_stride, factor.depth)

    @property
    def _inner(self) -> int:
        """How many neighbours there are."""
        return self.factor.depth if self.factor.is_deep else self.factor.size

    @property
    def _own(self) -> list[int]:
        """The indices with a dimension of their own, from near to far."""
        strides = self._strides
        own = [number for number, stride in enumerate(strides) if stride and not self._rows_of(stride)]
        return sorted(own, key=lambda number: strides[number])

    def _rows_of(self, stride: int) -> int:
        """How many rows are between neighbours along a dim of that stride, where they overlap; 0 where they do not."""
        pitch, count = self._across
        return stride // pitch if pitch and stride < count * pitch and stride % pitch == 0 else 0

    def place(self, inner: ir.Value, row: ir.Value, indices: Sequence[ir.Value]) -> list[ir.Value]:
        """The coordinates of a tile, innermost first."""
        for index, stride in zip(indices, self._strides, strict=True):
            if rows := self._rows_of(stride):
                row = numbers.add(row, numbers.multiply(index, rows))
        return [inner, row, *(indices[number] for number in self._own)]

    def describe(self, argument: int, extent: int, schedule: WgmmaSchedule) -> TileMap:
        """The map for tiles: `extent` rows of 128 bytes, or panels of as many elements as are 128 bytes."""
        factor, wide = self.factor, wgmma.ROW_BYTES // schedule.element_bytes
        box = (schedule.depth, extent) if factor.is_deep else (wide, schedule.depth)
        pitch, count = self._across
        sizes = [self.contraction.size(dim) for dim in (*self.contraction.outer, *self.contraction.outer_depth)]
        steps = map(self._rows_of, self._strides)
        rows = count + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
        # There is one row where the stride is 0, and one matrix for all products: maps have no strides of 0.
        strides = (1, pitch or wgmma.PIECE_BYTES // schedule.element_bytes)
        return TileMap(
            argument,
            (self._inner, rows, *(sizes[number] for number in self._own)),
            (*strides, *(self._strides[number] for number in self._own)),
            (*box, *(1 for _ in self._own)),
            factor.offset,
            dtype_of_mlir(factor.element).name,
            schedule.instruction == "tf32",
        )
