"""What is largest in windows, where they find it, and what goes back there: loops that read elements by index."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations

from blu.dialects.core.dtypes import bool_, computing_dtype, i32
from blu.dialects.core.mlir import arith, ir, linalg
from blu.dialects.ops.convolution.pooling_gradient import LOWEST, NOWHERE, dimensions_of
from blu.dialects.ops.convolution.windows import Dimension
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, constant, empty, generic, projection
from blu.passes.loops.lower_to_linalg.indexing import index_constant
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar, every, load, read, store, within
from blu.passes.loops.lower_to_linalg.shape import nothing


def _loop(op: Lowering, body: object) -> ir.Value:
    rank = len(op.result.shape)
    target = empty(op.result.shape, element_type(op.result.dtype))
    (result,) = generic([], [target], [projection(rank, range(rank))], [PARALLEL] * rank, body)  # type: ignore[arg-type]
    return result


def _indices(op: Lowering) -> list[ir.Value]:
    """The element of the result that a step of the loop is about."""
    return [linalg.IndexOp(dim).result for dim in range(len(op.result.shape))]


def _seen(
    op: Lowering, dims: Sequence[Dimension], at: Sequence[int], indices: Sequence[ir.Value]
) -> tuple[Scalar, Scalar]:
    """Whether a place of a window is none of the padding, and the element that is there."""
    first, *middle, last = indices
    where = [_element_of(dim, o, k) for dim, o, k in zip(dims, middle, at, strict=True)]
    inside = every([within(one, dim.size) for one, dim in zip(where, dims, strict=True)])
    return inside, load(read(op.operands[0], [first, *where, last], inside), op.types[0].dtype)


@lowers("max_pool_place")
def lower_max_pool_place(op: Lowering) -> ir.Value:
    """All places of a window, one after the other."""
    if op.result.size == 0:
        return nothing(op)
    dims = dimensions_of(op.types[0].shape[1:-1], op.attributes)

    def body(_: ir.Value) -> ir.Value:
        indices = _indices(op)
        found, best = None, None
        for number, at in enumerate(combinations(*(range(dim.window) for dim in dims))):
            inside, seen = _seen(op, dims, at, indices)
            place = Scalar(constant(element_type(i32), number), i32)
            if found is None or best is None:
                found, best = inside.where(place, place.like(NOWHERE)), seen
                continue
            is_largest = seen.compare("gt", best) | (seen.compare("ne", seen) & best.compare("eq", best))
            better = inside & (found.compare("eq", NOWHERE) | is_largest)
            found, best = better.where(place, found), better.where(seen, best)
        assert found is not None
        return found.value if op.result.dtype == i32 else arith.trunci(element_type(op.result.dtype), found.value)

    return _loop(op, body)


@lowers("max_pool")
def lower_max_pool(op: Lowering) -> ir.Value:
    """The largest of what the places of a window read."""
    if op.result.size == 0:
        return nothing(op)
    dtype = op.types[0].dtype
    dims = dimensions_of(op.types[0].shape[1:-1], op.attributes)

    def body(_: ir.Value) -> ir.Value:
        indices = _indices(op)
        best = Scalar(constant(element_type(computing_dtype(dtype)), LOWEST), computing_dtype(dtype))
        for at in combinations(*(range(dim.window) for dim in dims)):
            inside, seen = _seen(op, dims, at, indices)
            best = best.maximum(inside.where(seen, best.like(LOWEST)))
        return store(best, dtype)

    return _loop(op, body)


def _element_of(dim: Dimension, window: ir.Value, place: int) -> ir.Value:
    """Which element a place of a window is, if it is not in the padding."""
    start = arith.muli(window, index_constant(dim.stride))
    return arith.addi(start, index_constant(place * dim.dilation - dim.low))


@lowers("max_pool_gradient")
def lower_max_pool_gradient(op: Lowering) -> ir.Value:
    """Each element asks the windows that see it whether they have chosen it."""
    if op.result.size == 0:
        return nothing(op)
    (g, place), dtype = op.operands, op.types[0].dtype
    dims = dimensions_of(op.attributes["sizes"], op.attributes)
    reaches = [range((dim.extent - 1) // dim.stride + 1) for dim in dims]

    def body(_: ir.Value) -> ir.Value:
        first, *middle, last = _indices(op)
        zero = constant(element_type(computing_dtype(dtype)), 0.0)
        total = Scalar(zero, computing_dtype(dtype))
        for back in combinations(*reaches):
            seen = [_window_of(dim, h, steps) for dim, h, steps in zip(dims, middle, back, strict=True)]
            inside = every([condition for _, _, condition in seen])
            where = [window for window, _, _ in seen]
            number = _number([own for _, own, _ in seen], dims)
            chosen = read(place, [first, *where, last], inside)
            chosen = chosen if op.types[1].dtype == i32 else arith.extui(element_type(i32), chosen)
            is_own = inside & Scalar(arith.cmpi(arith.CmpIPredicate.eq, chosen, number), bool_)
            total = total + is_own.where(load(read(g, [first, *where, last], inside), dtype), total.like(0.0))
        return store(total, dtype)

    return _loop(op, body)


def _window_of(dim: Dimension, element: ir.Value, back: int) -> tuple[ir.Value, ir.Value, Scalar]:
    """The window `back` before the last that an element can be in, its place in it, and whether it is one."""
    at, stride = arith.addi(element, index_constant(dim.low)), index_constant(dim.stride)
    window = arith.subi(arith.divui(at, stride), index_constant(back))
    distance = arith.subi(at, arith.muli(window, stride))
    place, conditions = distance, [within(window, dim.count)]
    if dim.dilation > 1:
        step = index_constant(dim.dilation)
        rest, place = arith.remui(distance, step), arith.divui(distance, step)
        conditions.append(Scalar(arith.cmpi(arith.CmpIPredicate.eq, rest, index_constant(0)), bool_))
    return window, place, every([*conditions, within(place, dim.window)])


def _number(places: Sequence[ir.Value], dims: Sequence[Dimension]) -> ir.Value:
    """The number of a place among those of a window, as an i32."""
    number = index_constant(0)
    for place, dim in zip(places, dims, strict=True):
        number = arith.addi(arith.muli(number, index_constant(dim.window)), place)
    return arith.index_cast(element_type(i32), number)
