"""Which column sums are of the rows of attention's gradients, seen as the rows of a projection's result.

The bias of the projection that makes queries, keys and values has the sums of all rows of their gradients as its own:

    rows [B * T, 3 * H * D]  =  collapse(concatenate(collapse(transpose(of_query [B, H, T, D])), ..))

Sums over ranges of rows of each head [B, H, ranges, D] are seen in the same way, as [B * ranges, 3 * H * D].
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from blu.dialects.core.mlir import arith, ir, tensor
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.attention.choice import suits_gradient
from blu.passes.gpu.attention.row_sums.ranges import ROWS_OF_RANGE, row_sums_of
from blu.passes.gpu.attention.sizes import ScheduleSizes
from blu.passes.loops.fuse.loops import OF_GRADIENT, is_inner_insertion
from blu.passes.loops.lower_to_linalg.generic import (
    PARALLEL,
    REDUCTION,
    RESHAPES,
    constant,
    empty,
    fill,
    generic,
    projection,
    reshape,
    shape_of,
    transpose,
)

GRADIENT = "blu.attention_gradient"
_ROWS_OF_BLOCKS = 2 * ROWS_OF_RANGE
"""Those of the largest blocks: all of them are there."""


def ranges_of_gradients(rows: ir.Value, target: GpuTarget) -> ir.Value | None:
    """The sums over ranges of rows [R, C] that gradients of attention make, [ranges, C]; None if others do."""
    found = [*_pieces(rows)][::-1]
    if not all(piece is not None and _is_summed(piece, target) for _, piece in found):
        return None
    parts = [(first, _as_rows(_sums_of(piece))) for first, piece in found if piece is not None]
    if len(parts) == 1:
        return parts[0][1]
    shape = [shape_of(parts[0][1])[0], shape_of(rows)[1]]
    whole = empty(shape, ir.F32Type.get())
    for first, part in parts:
        whole = tensor.InsertSliceOp(part, whole, [], [], [], [0, first], shape_of(part), [1, 1]).result
    return whole


def _pieces(rows: ir.Value) -> Iterator[tuple[int, ir.Value | None]]:
    """The parts of rows beside each other: their first column, and the gradient that they are; None if they are none.

    A reshape keeps the order of elements, so that what has as many columns has the same rows.
    """
    columns = shape_of(rows)[-1]
    whole = _reshaped(rows)
    if isinstance(whole.owner, ir.Block) or not is_inner_insertion(whole.owner.operation):
        yield 0, _gradient_behind(whole, columns)
        return
    covered = 0
    while not isinstance(whole.owner, ir.Block) and is_inner_insertion(whole.owner.operation):
        first, is_beside = _place_of(whole.owner.operation)
        part, whole = whole.owner.operands
        wide = shape_of(part)[-1]
        covered += wide
        yield first, _gradient_behind(part, wide) if is_beside and shape_of(whole)[-1] == columns else None
    if covered != columns or isinstance(whole.owner, ir.Block) or whole.owner.name != "tensor.empty":
        yield 0, None


def _place_of(insertion: ir.Operation) -> tuple[int, bool]:
    """The first column of an inserted part, and whether it has all rows of the whole."""
    part, whole = insertion.operands
    offsets, strides = (
        [int(item) for item in ir.DenseI64ArrayAttr(insertion.attributes[f"static_{name}"])]
        for name in ("offsets", "strides")
    )
    has_rows = shape_of(part)[:-1] == shape_of(whole)[:-1] and set(strides) == {1} and not any(offsets[:-1])
    return offsets[-1], has_rows


def _reshaped(value: ir.Value) -> ir.Value:
    """What a value is a reshape of."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in RESHAPES:
        value = value.owner.operands[0]
    return value


def _gradient_behind(value: ir.Value, columns: int) -> ir.Value | None:
    """The gradient [.., heads, rows, depth] that a value of rows of all heads [.., rows, heads * depth] shows."""
    turned = _reshaped(value)
    if isinstance(turned.owner, ir.Block) or turned.owner.name != "linalg.transpose":
        return None
    gradient = turned.owner.operands[0]
    rank = len(shape_of(gradient))
    order = [int(item) for item in ir.DenseI64ArrayAttr(turned.owner.attributes["permutation"])]
    swaps = rank > 2 and order == [*range(rank - 3), rank - 2, rank - 3, rank - 1]
    is_gradient = not isinstance(gradient.owner, ir.Block) and gradient.owner.name == GRADIENT
    return gradient if swaps and is_gradient and shape_of(gradient)[-3] * shape_of(gradient)[-1] == columns else None


def _is_summed(gradient: ir.Value, target: GpuTarget) -> bool:
    """Whether warpgroups make a gradient, of whole blocks."""
    is_whole = shape_of(gradient)[-2] % _ROWS_OF_BLOCKS == 0
    return is_whole and suits_gradient(ScheduleSizes.of(gradient.owner.operation), target)


def _sums_of(gradient: ir.Value) -> ir.Value:
    """The sums over ranges of rows of each head, which the kernel of the gradient does."""
    if (made := row_sums_of(gradient.owner.operation).get(gradient.result_number)) is not None:
        return made.results[0]
    *heads, rows, columns = shape_of(gradient)
    f32, rank = ir.F32Type.get(), len(heads) + 2
    zeros = fill(constant(f32, 0.0), [*heads, rows // ROWS_OF_RANGE, columns])
    dims = [ir.AffineExpr.get_dim(dim) for dim in range(rank)]
    ranges = [*dims[:-2], ir.AffineExpr.get_floor_div(dims[-2], ROWS_OF_RANGE), dims[-1]]
    maps = [projection(rank, range(rank)), ir.AffineMap.get(rank, 0, ranges)]
    kinds = [*[PARALLEL] * len(heads), REDUCTION, PARALLEL]
    (sums,) = generic([gradient], [zeros], maps, kinds, _add)
    sums.owner.attributes[OF_GRADIENT] = ir.UnitAttr.get()
    return sums


def _add(term: ir.Value, total: ir.Value) -> ir.Value:
    return arith.addf(total, term if isinstance(term.type, ir.F32Type) else arith.extf(total.type, term))


def _as_rows(sums: ir.Value) -> ir.Value:
    """[.., heads, ranges, columns] as [.. * ranges, heads * columns]."""
    *outer, heads, ranges, columns = shape_of(sums)
    rank = len(outer)
    order = [*range(rank), rank + 1, rank, rank + 2]
    turned = transpose(sums, order)
    return reshape(turned, [prod(outer) * ranges, heads * columns])
