"""Reading and writing at positions known only at run time."""

from __future__ import annotations

from blu.dialects.core.dtypes import DType, i64, product
from blu.dialects.core.mlir import arith, ir, linalg, tensor
from blu.passes.loops.lower_to_linalg.checks import check_index
from blu.passes.loops.lower_to_linalg.generic import (
    PARALLEL,
    constant,
    empty,
    generic,
    projection,
    reshape,
    shape_of,
)
from blu.passes.loops.lower_to_linalg.known_ranges import is_inside
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar


def index_constant(value: int) -> ir.Value:
    """A constant of type index."""
    return constant(ir.IndexType.get(), value)


def safe_index(value: ir.Value, dtype: DType, size: int, is_known: bool) -> ir.Value:
    """An index in [0, size), as it is where that `is_known`: else negative ones count from the end, and the rest are
    clamped (a check reports them)."""
    wide = Scalar(value, dtype).to(i64)
    if is_known:
        return arith.index_cast(ir.IndexType.get(), wide.value)
    wrapped = wide.compare("lt", 0).where(wide + size, wide)
    return arith.index_cast(ir.IndexType.get(), wrapped.maximum(0).minimum(max(size - 1, 0)).value)


@lowers("take")
def lower_take(op: Lowering) -> ir.Value:
    """View the operand as [outer, axis, inner] and read out[o, i, n] = operand[o, index[i], n]."""
    operand, indices = op.operands
    shape, axis = shape_of(operand), op.attributes["axis"]
    size, index_dtype = shape[axis], op.types[1].dtype
    check_index(op, 1, size)
    is_known = is_inside(op.operation.operands[1], 0, size)
    outer, inner, count = product(shape[:axis]), product(shape[axis + 1 :]), op.types[1].size
    loop = _loop(outer, count, inner, axis, len(shape))
    source = reshape(operand, [size if dim == "count" else extent for dim, extent in loop])
    names = [dim for dim, _ in loop]
    target = empty([extent for _, extent in loop], element_type(op.result.dtype))
    place = names.index("count")
    maps = [projection(len(loop), [place]), projection(len(loop), range(len(loop)))]

    def body(index: ir.Value, _: ir.Value) -> ir.Value:
        where = [linalg.IndexOp(dim).result for dim in range(len(loop))]
        where[place] = safe_index(index, index_dtype, size, is_known)
        return tensor.extract(source, where)

    (result,) = generic([reshape(indices, (count,))], [target], maps, [PARALLEL] * len(loop), body)
    return reshape(result, op.result.shape)


def _loop(outer: int, count: int, inner: int, axis: int, rank: int) -> list[tuple[str, int]]:
    """The loop dimensions that exist: no outer one for axis 0, no inner one for the last axis."""
    loop = [("count", count)]
    if axis > 0:
        loop.insert(0, ("outer", outer))
    if axis < rank - 1:
        loop.append(("inner", inner))
    return loop


@lowers("take_along_axis")
def lower_take_along_axis(op: Lowering) -> ir.Value:
    """out[.., i, ..] = operand[.., indices[.., i, ..], ..], other dimensions broadcast."""
    operand, indices = op.operands
    axis, dtype, rank = op.attributes["axis"], op.types[1].dtype, len(op.result.shape)
    size = shape_of(operand)[axis]
    check_index(op, 1, size)
    is_known = is_inside(op.operation.operands[1], 0, size)
    kept = [dim for dim in range(rank) if shape_of(indices)[dim] == op.result.shape[dim]]
    narrow = reshape(indices, [shape_of(indices)[dim] for dim in kept])
    maps = [projection(rank, kept), projection(rank, range(rank))]

    def body(index: ir.Value, _: ir.Value) -> ir.Value:
        extents = shape_of(operand)
        where = [index_constant(0) if extents[dim] == 1 else linalg.IndexOp(dim).result for dim in range(rank)]
        where[axis] = safe_index(index, dtype, size, is_known)
        return tensor.extract(operand, where)

    target = empty(op.result.shape, element_type(op.result.dtype))
    (result,) = generic([narrow], [target], maps, [PARALLEL] * rank, body)
    return result


def _clamped_starts(op: Lowering, sizes: tuple[int, ...]) -> list[ir.Value]:
    """The start of each dimension as an index that leaves room for `sizes`."""
    starts = []
    for value, type_, extent, size in zip(op.operands[-1], op.types[-1], op.types[0].shape, sizes, strict=True):
        scalar = Scalar(tensor.extract(value, []), type_.dtype).to(i64)
        inside = scalar.maximum(0).minimum(extent - size)
        starts.append(arith.index_cast(ir.IndexType.get(), inside.value))
    return starts


@lowers("dynamic_slice")
def lower_dynamic_slice(op: Lowering) -> ir.Value:
    """Each position reads the operand at its index plus the (clamped) start."""
    operand, sizes = op.operands[0], op.attributes["sizes"]
    rank = len(sizes)

    def body(_: ir.Value) -> ir.Value:
        starts = _clamped_starts(op, sizes)
        return tensor.extract(
            operand, [arith.addi(start, linalg.IndexOp(dim).result) for dim, start in enumerate(starts)]
        )

    target = empty(sizes, element_type(op.result.dtype))
    (result,) = generic([], [target], [projection(rank, range(rank))], [PARALLEL] * rank, body)
    return result


@lowers("dynamic_update_slice")
def lower_dynamic_update_slice(op: Lowering) -> ir.Value:
    """tensor.insert_slice at the (clamped) starts, in place where the operand is not used afterwards."""
    operand, update, _ = op.operands
    sizes = shape_of(update)
    if 0 in sizes:
        return operand
    starts = _clamped_starts(op, sizes)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    rank = len(sizes)
    return tensor.InsertSliceOp(update, operand, starts, [], [], [dynamic] * rank, list(sizes), [1] * rank).result


@lowers("scatter_add")
def lower_scatter_add(op: Lowering) -> ir.Value:
    """The op stays whole, for a kernel that adds in place; its indices are checked."""
    operand, indices, updates = op.operands
    check_index(op, 1, op.types[0].shape[op.attributes["axis"]])
    attributes = {"axis": op.operation.attributes["axis"]}
    return ir.Operation.create(
        "blu.scatter_add", results=[operand.type], operands=[operand, indices, updates], attributes=attributes
    ).result
