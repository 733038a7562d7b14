"""Small functions that build vector code: types, constants, loads and stores of a few lanes of a memref.

All take the current insertion point and location. "Lanes" are the elements of one vector value; how many machine
registers that is is LLVM's business, but emitters choose one register's worth. A `count` below `lanes` means that only
the first `count` lanes exist in memory (the tail of a row): the others read as zero and are not written.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import arith, ir, memref, vector


def vector_type(lanes: int, element: ir.Type) -> ir.VectorType:
    """A vector of `lanes` elements."""
    return ir.VectorType.get([lanes], element)


def is_vector(value: ir.Value) -> bool:
    """Whether a value is a vector."""
    return isinstance(value.type, ir.VectorType)


def splat(value: ir.Value, lanes: int) -> ir.Value:
    """A scalar in all lanes; a vector as it is."""
    return value if is_vector(value) else vector.broadcast(vector_type(lanes, value.type), value)


def index(value: int) -> ir.Value:
    """An index constant."""
    return arith.constant(ir.IndexType.get(), value)


def constant(type_: ir.Type, value: int | float) -> ir.Value:
    """A constant of a scalar type, or the same one in all lanes of a vector type."""
    element = type_.element_type if isinstance(type_, ir.VectorType) else type_
    kind = ir.FloatAttr if isinstance(element, ir.FloatType) else ir.IntegerAttr
    attribute = kind.get(element, value)
    if isinstance(type_, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
    return arith.constant(type_, attribute)


def offset(value: ir.Value, distance: int) -> ir.Value:
    """`value + distance` of indices."""
    return arith.addi(value, index(distance)) if distance else value


def split(value: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder of an index that is not negative by a known size."""
    if size <= 1:
        return value, index(0)
    return arith.divui(value, index(size)), arith.remui(value, index(size))


def lane_indices(base: ir.Value, lanes: int) -> ir.Value:
    """`base`, `base + 1`, ...: what linalg.index yields along the vectorised dimension."""
    type_ = vector_type(lanes, ir.IndexType.get())
    return arith.addi(splat(base, lanes), vector.step(type_))


def tail_mask(lanes: int, count: int) -> ir.Value:
    """A mask whose first `count` of `lanes` lanes are on."""
    type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
    return vector.constant_mask(type_, ir.DenseI64ArrayAttr.get([count]))


def strides_of(buffer: ir.Value) -> list[int]:
    """The static strides of a memref, in elements; those of an empty one mean nothing."""
    type_ = ir.MemRefType(buffer.type)
    return [1] * len(type_.shape) if 0 in type_.shape else type_.get_strides_and_offset()[0]


def with_last(buffer: ir.Value, dim: int) -> ir.Value:
    """The same memory with dimension `dim` moved to the end: vector.load wants a unit stride there."""
    type_ = ir.MemRefType(buffer.type)
    if dim == len(type_.shape) - 1:
        return buffer
    _, start = type_.get_strides_and_offset()
    sizes, steps = (moved_last(list(values), dim) for values in (type_.shape, strides_of(buffer)))
    layout = ir.StridedLayoutAttr.get(start, steps)
    result = ir.MemRefType.get(sizes, type_.element_type, layout, type_.memory_space)
    return memref.ReinterpretCastOp(result, buffer, [], [], [], [start], sizes, steps).result


def moved_last(values: Sequence, dim: int) -> list:
    """`values` with the one at `dim` moved to the end."""
    return [*values[:dim], *values[dim + 1 :], values[dim]]


def load(buffer: ir.Value, indices: Sequence[ir.Value], lanes: int, count: int | None = None) -> ir.Value:
    """`lanes` elements along the last dimension from `indices` on; any inner stride."""
    return load_along(buffer, indices, len(indices) - 1, lanes, count)


def load_along(
    buffer: ir.Value, indices: Sequence[ir.Value], dim: int, lanes: int, count: int | None = None
) -> ir.Value:
    """`lanes` elements along dimension `dim`, one vector load where they are neighbours in memory."""
    element = ir.MemRefType(buffer.type).element_type
    if strides_of(buffer)[dim] != 1 or _is_bit(element):
        return gather(buffer, indices, dim, lanes, count)
    result, buffer, indices = vector_type(lanes, element), with_last(buffer, dim), moved_last(indices, dim)
    if count is None or count == lanes:
        return vector.load(result, buffer, indices)
    return vector.maskedload(result, buffer, indices, tail_mask(lanes, count), constant(result, 0))


def gather(buffer: ir.Value, indices: Sequence[ir.Value], dim: int, lanes: int, count: int | None = None) -> ir.Value:
    """`lanes` elements along dimension `dim`, one scalar load each."""
    element = ir.MemRefType(buffer.type).element_type
    present = lanes if count is None else count
    parts = [memref.load(buffer, moved(indices, dim, lane)) for lane in range(present)]
    parts += [constant(element, 0)] * (lanes - present)
    return vector.from_elements(vector_type(lanes, element), parts)


def store(value: ir.Value, buffer: ir.Value, indices: Sequence[ir.Value], count: int | None = None) -> None:
    """Write the lanes of `value` along the last dimension; any inner stride."""
    store_along(value, buffer, indices, len(indices) - 1, count)


def store_along(
    value: ir.Value, buffer: ir.Value, indices: Sequence[ir.Value], dim: int, count: int | None = None
) -> None:
    """Write the lanes of `value` along dimension `dim`, with one vector store where they are neighbours in memory."""
    lanes = ir.VectorType(value.type).shape[0]
    if strides_of(buffer)[dim] != 1 or _is_bit(ir.MemRefType(buffer.type).element_type):
        scatter(value, buffer, indices, dim, count)
        return
    buffer, indices = with_last(buffer, dim), moved_last(indices, dim)
    if count is None or count == lanes:
        vector.store(value, buffer, indices)
    else:
        vector.maskedstore(buffer, indices, tail_mask(lanes, count), value)


def scatter(value: ir.Value, buffer: ir.Value, indices: Sequence[ir.Value], dim: int, count: int | None = None) -> None:
    """Write the lanes of `value` along dimension `dim`, one scalar store each."""
    lanes = ir.VectorType(value.type).shape[0]
    for lane in range(lanes if count is None else count):
        memref.store(vector.extract(value, [], [lane]), buffer, moved(indices, dim, lane))


def moved(indices: Sequence[ir.Value], dim: int, distance: int) -> list[ir.Value]:
    """The same indices, `distance` further along `dim`."""
    return [offset(value, distance) if place == dim else value for place, value in enumerate(indices)]


def _is_bit(element: ir.Type) -> bool:
    """Booleans take a byte each in memory, but a vector of them would be read as packed bits."""
    return isinstance(element, ir.IntegerType) and element.width == 1
