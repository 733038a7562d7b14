"""What a contraction multiplies, in the terms of the GPU's GEMM emitters: two factors in global memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.kernels.contraction import Contraction, IndexedBuffer

COPY_BYTES = 16
"""The most that one thread copies at a time."""


@dataclass(frozen=True)
class Factor:
    """One factor of a product: element (a, k), a being a row of the left factor or a column of the right one.

    Strides are in elements, 0 along dims that the factor lacks; `outer_strides` and `outer_depth_strides` follow the
    contraction's dims of those names.
    """

    buffer: ir.Value
    element: ir.Type
    size: int
    depth: int
    stride: int
    depth_stride: int
    offset: int
    outer_strides: tuple[int, ...]
    outer_depth_strides: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return max(8, self.element.width) // 8

    @property
    def is_deep(self) -> bool:
        """Whether neighbours along k lie side by side (rather than neighbours along a)."""
        return self.depth_stride == 1 or self.stride != 1

    @property
    def is_dense(self) -> bool:
        """Whether there is a direction in which neighbours lie side by side."""
        return 1 in (self.depth_stride, self.stride)

    @property
    def extent_bytes(self) -> int:
        """Bytes from the buffer's address, a multiple of 16, to the end of its last element."""
        type_ = ir.MemRefType(self.buffer.type)
        if 0 in type_.shape:
            return 0
        strides, offset = type_.get_strides_and_offset()
        last = sum((size - 1) * max(0, stride) for size, stride in zip(type_.shape, strides, strict=True))
        return (offset + last + 1) * self.bytes

    @property
    def begins_aligned(self) -> bool:
        """Whether all rows begin at multiples of 16 bytes, wherever they end: what the copy engine takes."""
        across = self.stride if self.is_deep else self.depth_stride
        steps = [self.offset, across, *self.outer_strides, *self.outer_depth_strides]
        return self.is_dense and not any(step * self.bytes % COPY_BYTES for step in steps)

    @property
    def copy_bytes(self) -> int:
        """How many bytes can be copied at a time, all addresses being multiples of them: 16, 8, 4, or an element.

        Rows are multiples of them, too: a copy may leave its last bytes out, but compute-sanitizer holds them for read.
        """
        if not self.is_dense:
            return self.bytes
        across, along = (self.stride, self.depth) if self.is_deep else (self.depth_stride, self.size)
        steps = [self.offset, across, along, *self.outer_strides, *self.outer_depth_strides]
        wide = COPY_BYTES
        while wide > self.bytes and any(step * self.bytes % wide for step in steps):
            wide //= 2
        return max(wide, self.bytes)


@dataclass(frozen=True)
class Product:
    """All that schedules are chosen by, and loaders read: sum over k of left(m, k) * right(n, k), `outer` times."""

    contraction: Contraction
    left: Factor
    right: Factor

    @property
    def rows(self) -> int:
        return self.contraction.size(self.contraction.rows)

    @property
    def columns(self) -> int:
        return self.contraction.size(self.contraction.columns)

    @property
    def depth(self) -> int:
        """Products in one run along k."""
        return self.contraction.size(self.contraction.depth)

    @property
    def outer(self) -> int:
        """How many such products there are."""
        return prod(self.contraction.size(dim) for dim in self.contraction.outer)

    def outer_point(self, number: ir.Value) -> dict[int, ir.Value]:
        """The indices of a product along the dims `outer`, the last one changing fastest."""
        dims = self.contraction.outer
        return dict(zip(dims, indices_of(number, list(map(self.contraction.size, dims))), strict=True))

    def run_indices(self, number: ir.Value) -> list[ir.Value]:
        """Those of a run along the dims `outer_depth`."""
        return indices_of(number, list(map(self.contraction.size, self.contraction.outer_depth)))

    @property
    def runs(self) -> int:
        """How many runs along k are summed."""
        return prod(self.contraction.size(dim) for dim in self.contraction.outer_depth)

    @property
    def is_degenerate(self) -> bool:
        """Whether a size is 0."""
        return 0 in (self.rows, self.columns, self.depth, self.outer, self.runs)


def indices_of(number: ir.Value, sizes: Sequence[int]) -> list[ir.Value]:
    """The indices (i32) of a number along dims of these sizes, the last one changing fastest."""
    indices: list[ir.Value] = []
    for size in reversed(sizes[1:]):
        indices.insert(0, numbers.remainder(number, size))
        number = numbers.divide(number, size)
    return [number, *indices][: len(sizes)]


def read_product(contraction: Contraction) -> Product:
    """The factors of a contraction."""
    left = _factor(contraction, contraction.left, contraction.rows)
    return Product(contraction, left, _factor(contraction, contraction.right, contraction.columns))


def _factor(contraction: Contraction, operand: IndexedBuffer, across: int | None) -> Factor:
    def stride(dim: int | None) -> int:
        """0 along what there is one of."""
        return (operand.stride(dim) or 0) if contraction.size(dim) != 1 else 0

    type_ = ir.MemRefType(operand.buffer.type)
    offset = 0 if 0 in type_.shape else type_.get_strides_and_offset()[1]
    sizes = contraction.size(across), contraction.size(contraction.depth)
    outer, outer_depth = (tuple(map(stride, dims)) for dims in (contraction.outer, contraction.outer_depth))
    # Where there is one of something, any stride will do: the one that makes neighbours of the others.
    along, deep = stride(across), stride(contraction.depth)
    deep = 1 if sizes[1] == 1 and along != 1 else deep
    return Factor(operand.buffer, operand.element, *sizes, along, deep, offset, outer, outer_depth)
