"""Norms, condition numbers and powers of matrices."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axis
from blu.dialects.core.dtypes import computing_dtype
from blu.dialects.ops.host.factorization import SingularValues
from blu.dialects.ops.host.linear_algebra import Inverse
from blu.dialects.tensor.arrangement import broadcast_to, moveaxis
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, converted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.creation import eye
from blu.frontend.functional.norms import matrix_norm, vector_norm
from blu.frontend.linalg.matrices import matrices

__all__ = ["cond", "matrix_power", "norm"]

Order = int | float | str | None


@public
def norm(x: Any, ord: Order = None, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """`vector_norm` along one axis, `matrix_norm` of two, as numpy.linalg.norm.

    Without an axis, of all elements in a row where there is no `ord`, and else of a vector, or of a matrix. ShapeError
    for more than two axes.
    """
    return norm_of(as_tensor(x), ord, axis, keepdims)


def norm_of(tensor: Any, ord: Order, axis: int | tuple[int, ...] | None, keepdims: bool) -> Tensor:
    """The norm of real or complex numbers."""
    if axis is None and ord is None:
        return vector_norm(tensor, None, keepdims)
    axes = (axis,) if isinstance(axis, int) else tuple(range(tensor.ndim)) if axis is None else tuple(axis)
    if len(axes) == 1:
        return vector_norm(tensor, axes[0], keepdims, 2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(f"a norm is along one axis or of two, got {len(axes)} of {tensor.type}")
    places = tuple(normalize_axis(item, tensor.ndim) for item in axes)
    if places[0] == places[1]:
        raise ShapeError(f"the axes of a matrix are not one, got {axes}")
    found = matrix_norm(moveaxis(tensor, places, (-2, -1)), keepdims, ord)
    return moveaxis(found, (-2, -1), places) if keepdims else found


@public
def cond(x: Any, p: Order = None) -> Tensor:
    """The condition numbers of matrices: the largest singular value over the smallest, or (`p`, an order of
    `matrix_norm`) the norms of square matrices times those of their inverses.

    ShapeError for matrices without elements.
    """
    if p not in (None, 2, -2):
        [matrix], dtype = matrices(x, square=True)
        return converted(matrix_norm(matrix, ord=p) * matrix_norm(Inverse(matrix)[0], ord=p), dtype)
    [matrix], dtype = matrices(x)
    values = SingularValues(matrix)[0]
    if not values.shape[-1]:
        raise ShapeError(f"{matrix.type} has no singular values")
    first, last = values[..., 0], values[..., -1]
    return converted(last / first if p == -2 else first / last, dtype)


@public
def matrix_power(x: Any, n: int) -> Tensor:
    """Square matrices [..., N, N] times themselves, `n` times; their inverses where that is negative.

    ArgumentError for an exponent that is no integer, ShapeError for matrices that are not square.
    """
    if isinstance(n, bool) or not isinstance(n, int):
        raise ArgumentError(f"the exponent is an integer, got {n!r}")
    tensor = as_tensor(x)
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2]:
        raise ShapeError(f"takes square matrices, got {tensor.type}")
    if n < 0:
        [matrix], dtype = matrices(tensor, square=True)
        return converted(power_of(Inverse(matrix)[0], -n), dtype)
    return converted(power_of(converted(tensor, computing_dtype(tensor.dtype)), n), tensor.dtype)


def power_of(matrix: Any, n: int) -> Any:
    """By squares: of so many products as the exponent has digits, twice at most."""
    if n == 0:
        return broadcast_to(eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)
    found = None
    while n:
        if n % 2:
            found = matrix if found is None else found @ matrix
        n //= 2
        matrix = matrix @ matrix if n else matrix
    assert found is not None
    return found
