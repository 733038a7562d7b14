"""What a linalg.contract computes, in the terms of the GEMM emitters: its iteration dims and their roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir, memref, vector
from blu.dialects.core.remembering import once
from blu.passes.kernels import lanes as vectors

WIDE = 32
"""Columns that fill some vectors of any target. Fewer, as those of a convolution's window, are not chosen for being
beside each other in memory."""


@dataclass(frozen=True)
class Digit:
    """A dimension that is walked with others as one iteration dim: at a position there, position // below % size.

    The first of them has none above it, and needs no remainder.
    """

    dim: int
    below: int
    size: int
    is_first: bool


Dim = int | Digit | None
"""What is behind a dimension of a buffer: an iteration dim, a digit of one, or the constant 0 for None."""
Point = Mapping[Dim, ir.Value]
"""Where the emitted code is: an index value per iteration dim (the first lane's, along the vectorised dim).

Digits may be in it beside their dim, where they are known already."""


def position(dim: Dim, point: Point) -> ir.Value:
    """The index along a dimension of a buffer."""
    if dim is None:
        return vectors.index(0)
    if dim in point or not isinstance(dim, Digit):
        return point[dim]
    above, _ = vectors.split(point[dim.dim], dim.below)
    return above if dim.is_first else vectors.split(above, dim.size)[1]


@dataclass(frozen=True)
class IndexedBuffer:
    """A buffer and what is behind each of its dimensions."""

    buffer: ir.Value
    dims: tuple[Dim, ...]

    def indices(self, point: Point) -> list[ir.Value]:
        return [position(dim, point) for dim in self.dims]

    def stride(self, dim: int | None) -> int | None:
        """The distance in elements of neighbours along an iteration dim; None where the buffer lacks the dim."""
        return vectors.strides_of(self.buffer)[self.dims.index(dim)] if dim in self.dims else None

    def load(self, point: Point, columns: int | None, lanes: int, count: int) -> ir.Value:
        """A scalar where the buffer does not follow the columns, else `count` of `lanes` neighbours along them."""
        indices = self.indices(point)
        if columns is None or columns not in self.dims:
            return memref.load(self.buffer, indices)
        return vectors.load_along(self.buffer, indices, self.dims.index(columns), lanes, count)

    def store(self, value: ir.Value, point: Point, columns: int | None, count: int) -> None:
        """Write `count` lanes of a vector along the columns, or its first where the buffer does not follow them."""
        indices = self.indices(point)
        if columns is None or columns not in self.dims:
            memref.store(vector.extract(value, [], [0]), self.buffer, indices)
        else:
            vectors.store_along(value, self.buffer, indices, self.dims.index(columns), count)

    @property
    def element(self) -> ir.Type:
        return ir.MemRefType(self.buffer.type).element_type


@dataclass(frozen=True)
class Contraction:
    """result[outer, m, n] = sum over k of left[outer, m, k] * right[outer, k, n].

    `rows` (m), `columns` (n, the vectorised one) and `depth` (k) are iteration dims, or None where there is none; all
    other parallel dims are `outer`, all other reduction dims `outer_depth` (summed in order, around `depth`).
    `result_dims` holds what is behind each dimension of the result.
    """

    operation: ir.Operation
    sizes: tuple[int, ...]
    left: IndexedBuffer
    right: IndexedBuffer
    result_dims: tuple[Dim, ...]
    rows: int | None
    columns: int | None
    depth: int | None
    outer: tuple[int, ...]
    outer_depth: tuple[int, ...]

    def size(self, dim: int | None) -> int:
        return 1 if dim is None else self.sizes[dim]

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements (with none in `depth`, it has elements that are zero)."""
        return 0 in ir.ShapedType(self.operation.results[0].type).shape

    @property
    def accumulator(self) -> ir.Type:
        """The element type that sums are kept in: narrow floats accumulate in f32."""
        element = ir.ShapedType(self.operation.results[0].type).element_type
        return ir.F32Type.get() if isinstance(element, ir.BF16Type | ir.F16Type) else element


def dims_of(map_: ir.AffineMap) -> tuple[int | None, ...]:
    """The loop dim of each result of a projected permutation; None for a constant 0."""
    return tuple(ir.AffineDimExpr(e).position if isinstance(e, ir.AffineDimExpr) else None for e in map_.results)


def maps_of(operation: ir.Operation) -> list[tuple[int | None, ...]]:
    """The same for each operand of a linalg operation with indexing maps."""
    return _dims_of_maps(operation.attributes["indexing_maps"])


@once
def _dims_of_maps(maps: ir.Attribute) -> list[tuple[int | None, ...]]:
    return [dims_of(attribute.value) for attribute in maps]


def sizes_of(operation: ir.Operation) -> tuple[int, ...]:
    """The extent of each loop of a linalg operation, read off its operands."""
    sizes = {}
    for operand, dims in zip(operation.operands, maps_of(operation), strict=True):
        sizes.update({dim: size for dim, size in zip(dims, ir.ShapedType(operand.type).shape, strict=True)})
    sizes.pop(None, None)
    return tuple(sizes[dim] for dim in range(len(sizes)))


def read_contraction(
    operation: ir.Operation, buffers: Mapping[ir.Value, ir.Value], results: Sequence[ir.Value] = ()
) -> Contraction:
    """Give the dims of a linalg.contract their roles; the right operand is the one that holds the columns.

    These are what neighbours in memory differ by, in all `results` (buffers of the result's shape), if any are given
    and there are enough columns for vectors; else the result's innermost dim that there is more than one of.
    """
    left_dims, right_dims, result_dims = maps_of(operation)
    sizes = sizes_of(operation)
    left, right = (
        IndexedBuffer(buffers[operation.operands[i]], dims) for i, dims in enumerate((left_dims, right_dims))
    )
    parallel = [dim for dim in result_dims if dim is not None]
    candidates = [dim for dim in parallel if (dim in left_dims) != (dim in right_dims)]
    wide = [dim for dim in candidates if sizes[dim] >= WIDE]
    beside = [dim for dim in wide if results and _is_innermost(dim, result_dims, results)]
    columns = _choose_columns(beside or candidates, sizes)
    if columns in left_dims:
        left, right = right, left
    own = [dim for dim in parallel if dim in left.dims and dim not in right.dims]
    rows = max(own, key=lambda dim: sizes[dim], default=None)
    outer = tuple(dim for dim in parallel if dim not in (rows, columns))
    *outer_depth, depth = [dim for dim in range(len(sizes)) if dim not in parallel] or [None]
    return Contraction(operation, sizes, left, right, result_dims, rows, columns, depth, outer, tuple(outer_depth))


def _is_innermost(dim: int, result_dims: tuple[int | None, ...], results: Sequence[ir.Value]) -> bool:
    """Whether elements that are neighbours along a dim lie side by side in all buffers of the result's shape."""
    return all(IndexedBuffer(buffer, result_dims).stride(dim) == 1 for buffer in results)


def _choose_columns(candidates: list[int], sizes: tuple[int, ...]) -> int | None:
    """The innermost dim of the result that one operand lacks and that is worth a vector."""
    wide = [dim for dim in candidates if sizes[dim] > 1]
    return (wide or candidates or [None])[-1]
