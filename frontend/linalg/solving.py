"""Inverses, systems of equations and determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

from blu.dialects.ops.host.linear_algebra import Determinant, Inverse, Slogdet, Solve
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.arrangement import broadcast_to, expand_dims, squeeze
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, converted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.frontend.linalg.matrices import matrices

__all__ = ["SignAndLogarithm", "det", "inv", "slogdet", "solve"]


class SignAndLogarithm(NamedTuple):
    """The sign of a determinant, and the logarithm of its size."""

    sign: Any
    logabsdet: Any


@public
def inv(x: Any) -> Tensor:
    """The inverses of square matrices [..., N, N]. MatrixError, a numpy.linalg.LinAlgError, where there is none.

    To solve equations, `solve` is faster and more accurate.
    """
    [matrix], dtype = matrices(x, square=True)
    return converted(Inverse(matrix)[0], dtype)


@public
def solve(a: Any, b: Any) -> Tensor:
    """What the square matrices a [..., N, N] times it are b: a vector [N], or matrices [..., N, K].

    The dimensions before the last two broadcast. MatrixError, a numpy.linalg.LinAlgError, where a matrix is singular.
    ShapeError for matrices that are not square, or for another number of rows.
    """
    right = as_tensor(b)
    is_vector = right.ndim == 1
    [matrix, right], dtype = matrices(a, expand_dims(right, -1) if is_vector else right)
    if matrix.shape[-1] != matrix.shape[-2]:
        raise ShapeError(f"takes square matrices, got {matrix.type}")
    if matrix.shape[-1] != right.shape[-2]:
        raise ShapeError(f"{matrix.type} times what gives {as_tensor(b).type}: there are not as many rows")
    batch = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    sides = (broadcast_to(side, (*batch, *side.shape[-2:])) for side in (matrix, right))
    found = converted(Solve(*sides)[0], dtype)
    return squeeze(found, -1) if is_vector else found


@public
def det(x: Any) -> Tensor:
    """The determinants of square matrices [..., N, N]: shape [...]. Singular matrices have a gradient as well."""
    [matrix], dtype = matrices(x, square=True)
    return converted(Determinant(matrix), dtype)


@public
def slogdet(x: Any) -> SignAndLogarithm:
    """The signs of the determinants of square matrices [..., N, N], and the logarithms of their sizes.

    Singular matrices have (0, -inf), and no gradient: that is a MatrixError.
    """
    [matrix], dtype = matrices(x, square=True)
    return SignAndLogarithm(*(converted(item, dtype) for item in Slogdet(matrix)))
