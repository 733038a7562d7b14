"""Lengths of vectors and sizes of matrices, and products of vectors, as the array-API standard has them."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axis, without_axis
from blu.dialects.core.dtypes import computing_dtype
from blu.dialects.ops.host.factorization import SingularValues
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.ops.reduction import reduced_shape
from blu.dialects.tensor.arithmetic import absolute, as_bool, power, sqrt, where
from blu.dialects.tensor.arrangement import broadcast_to, expand_dims, moveaxis, reshape, stack
from blu.dialects.tensor.folding import fold_axes
from blu.dialects.tensor.folding import max as largest
from blu.dialects.tensor.folding import min as smallest
from blu.dialects.tensor.folding import sum as summed
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import converted, promoted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError, UnsupportedError

__all__ = ["cdist", "cross", "matrix_norm", "vecdot", "vector_norm"]

Order = int | float | str
INFINITY = float("inf")


@public
def vecdot(x: Any, y: Any, axis: int = -1) -> Tensor:
    """The sum of x * y along an axis of both, counted from the end where it is negative; the others broadcast.

    Complex numbers of x are conjugated. ShapeError where the axis is of different sizes.
    """
    left, right = promoted(x, y)
    first, second = (normalize_axis(axis, side.ndim) for side in (left, right))
    if left.shape[first] != right.shape[second]:
        raise ShapeError(f"axis {axis} of {left.type} and {right.type} are of different sizes")
    left, right = moveaxis(left, first, -1), moveaxis(right, second, -1)
    return summed(left * right, -1, dtype=left.dtype)


@public
def cross(x: Any, y: Any, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis of both; the others broadcast.

    ShapeError where the axis has not three elements.
    """
    left, right = promoted(x, y)
    places = [normalize_axis(axis, side.ndim) for side in (left, right)]
    sides = list(zip((left, right), places, strict=True))
    if any(side.shape[place] != 3 for side, place in sides):
        raise ShapeError(f"axis {axis} of {left.type} and {right.type} must have three elements")
    shape = broadcast_shapes(*(without_axis(side.shape, place) for side, place in sides))
    (a, b, c), (d, e, f) = ([moveaxis(side, place, 0)[part] for part in range(3)] for side, place in sides)
    parts = [broadcast_to(part, shape) for part in (b * f - c * e, c * d - a * f, a * e - b * d)]
    return stack(parts, axis=axis)


@public
def vector_norm(x: Any, axis: Any = None, keepdims: bool = False, ord: Order = 2) -> Tensor:
    """The norm of order `ord` over the axes named (None: all): the root of the sum of powers of |x|.

    inf and -inf give the largest and smallest |x|, 0 counts what is not zero. Halves are computed in f32. The gradient
    at zero is 0. UnsupportedError for an order that is none.
    """
    (tensor,) = promoted_floats(x)
    axes = fold_axes(axis, tensor.ndim)
    wide = absolute(converted(tensor, computing_dtype(tensor.dtype)))
    return converted(_vector_norm(wide, axes, bool(keepdims), ord), tensor.dtype)


def _vector_norm(sizes: Tensor, axes: tuple[int, ...], keepdims: bool, ord: Order) -> Tensor:
    if isinstance(ord, str):
        raise UnsupportedError(f"a vector has no norm of order {ord!r}", advice="Give a number, or inf.")
    if ord in (INFINITY, -INFINITY):
        return (largest if ord == INFINITY else smallest)(sizes, axes, keepdims)
    if ord == 0:
        return converted(summed(as_bool(sizes), axes, keepdims=keepdims), sizes.dtype)
    if ord == 1:
        return summed(sizes, axes, keepdims=keepdims)
    if 0 < ord < 1:  # where the slope of the power is infinite at 0, and is taken as 0
        raised = where(sizes == 0, 0, power(where(sizes == 0, 1, sizes), float(ord)))
    else:
        raised = sizes * sizes if ord == 2 else power(sizes, float(ord))
    total = summed(raised, axes, keepdims=keepdims)
    if ord < 0:
        return power(total, 1 / float(ord))
    # The slope of a root is infinite at 0, where the norm's is taken as 0.
    is_zero = total == 0
    raised = where(is_zero, 1, total)
    return where(is_zero, 0, sqrt(raised) if ord == 2 else power(raised, 1 / float(ord)))


@public
def cdist(x: Any, y: Any, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows: of x [..., N, C] and y [..., M, C], in [..., N, M]; leading sizes broadcast.

    They are `vector_norm`s of the differences of order `p`, which is 0 or more, or inf. Each difference is formed, so
    that rows that are near have accurate distances; the gradient of rows that are equal is 0. ShapeError for rows of
    different lengths, ArgumentError for a negative `p`.
    """
    left, right = promoted_floats(x, y)
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-1]:
        raise ShapeError(f"takes rows of one length, [..., N, C] and [..., M, C], got {left.type} and {right.type}")
    if isinstance(p, str) or not p >= 0:
        raise ArgumentError(f"p must be 0 or more, or inf, got {p!r}")
    differences = expand_dims(left, -2) - expand_dims(right, -3)
    if not differences.shape[-1]:
        return summed(differences, -1)
    return vector_norm(differences, -1, ord=p)


def _spectral_norm(tensor: Tensor, ord: Order, keepdims: bool) -> Tensor:
    values, _ = SingularValues(converted(tensor, computing_dtype(tensor.dtype)))
    fold = summed if ord == "nuc" else largest if ord == 2 else smallest
    found = converted(fold(values, -1), tensor.dtype)
    return expand_dims(found, (-2, -1)) if keepdims else found


@public
def matrix_norm(x: Any, keepdims: bool = False, ord: Order | None = "fro") -> Tensor:
    """The norm of the matrices of the last two dimensions: "fro" (the root of the sum of squares), or the largest (1)
    or smallest (-1) sum of |x| down a column, or along a row (inf, -inf).

    Of singular values, which the host computes (see `blu.linalg`), 2 is the largest, -2 the smallest, "nuc" the sum.
    UnsupportedError for another order, ShapeError where x has fewer than two dimensions.
    """
    (tensor,) = promoted_floats(x)
    if tensor.ndim < 2:
        raise ShapeError(f"a matrix has two dimensions, got {tensor.type}")
    if ord not in ("fro", "nuc", None, 1, -1, 2, -2, INFINITY, -INFINITY):
        raise UnsupportedError(f"a matrix has no norm of order {ord!r}", advice="See numpy.linalg.matrix_norm.")
    if ord in ("fro", None):
        return vector_norm(tensor, (-2, -1), keepdims)
    if ord in ("nuc", 2, -2):
        return _spectral_norm(tensor, ord, bool(keepdims))
    sizes, order = absolute(converted(tensor, computing_dtype(tensor.dtype))), float(ord or 0)
    sums = summed(sizes, -2 if abs(order) == 1 else -1, keepdims=True)
    found = (largest if order > 0 else smallest)(sums, (-2, -1), keepdims=True)
    shape = reduced_shape(tensor.shape, (tensor.ndim - 2, tensor.ndim - 1), bool(keepdims))
    return converted(reshape(found, shape), tensor.dtype)
