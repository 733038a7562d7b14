"""Factors of matrices, and what is made of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from blu.dialects.core.dtypes import i64
from blu.dialects.ops.host.factorization import (
    Cholesky,
    Eigenvalues,
    Eigh,
    PseudoInverse,
    Qr,
    SingularValues,
    Svd,
)
from blu.dialects.tensor.arrangement import expand_dims, matrix_transpose, squeeze
from blu.dialects.tensor.folding import max as largest
from blu.dialects.tensor.folding import sum as summed
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, converted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.linalg.matrices import epsilon_of, matrices

__all__ = [
    "QR",
    "SVD",
    "Eigenpairs",
    "LeastSquares",
    "cholesky",
    "eigh",
    "eigvalsh",
    "lstsq",
    "matrix_rank",
    "pinv",
    "qr",
    "svd",
    "svdvals",
]


class Eigenpairs(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class QR(NamedTuple):
    """An orthonormal and an upper triangular factor."""

    Q: Any
    R: Any


class SVD(NamedTuple):
    """Left singular vectors as columns, singular values, right singular vectors as rows."""

    U: Any
    S: Any
    Vh: Any


class LeastSquares(NamedTuple):
    """What is nearest, the sums of the squares of what is missing, the rank, and the singular values."""

    x: Any
    residuals: Any
    rank: Any
    s: Any


@public
def cholesky(x: Any, upper: bool = False) -> Tensor:
    """The lower triangular L with L L^T = x of symmetric positive definite matrices [..., N, N], or its transpose.

    What is factored is the mean of x and its transpose, so that gradients are symmetric (as in JAX). MatrixError, a
    numpy.linalg.LinAlgError, where a matrix is not positive definite.
    """
    [matrix], dtype = matrices(x, square=True)
    found = converted(Cholesky(matrix)[0], dtype)
    return matrix_transpose(found) if upper else found


@public
def qr(x: Any, mode: str = "reduced") -> QR:
    """Orthonormal and upper triangular factors of matrices [..., M, N]: (Q, R).

    Q is [..., M, min(M, N)], or [..., M, M] where `mode` is "complete"; that has a gradient only where M <= N.
    ArgumentError for another `mode`.
    """
    check_mode(mode)
    [matrix], dtype = matrices(x)
    return QR(*(converted(item, dtype) for item in Qr(matrix, complete=mode == "complete")))


@public
def svd(x: Any, full_matrices: bool = True) -> SVD:
    """Singular vectors and values of matrices [..., M, N]: (U, S, Vh) with U @ diag(S) @ Vh = x.

    U is [..., M, M] and Vh [..., N, N], or as many as there are singular values without `full_matrices`. Vectors have
    gradients where what is made of them is a function of x: neither of their signs, nor of those beyond the singular
    values.
    """
    [matrix], dtype = matrices(x)
    found = Svd(matrix, full=bool(full_matrices))
    return SVD(*(converted(item, dtype) for item in found[:3]))


@public
def svdvals(x: Any) -> Tensor:
    """Singular values of matrices [..., M, N] in descending order: [..., min(M, N)]."""
    [matrix], dtype = matrices(x)
    return converted(SingularValues(matrix)[0], dtype)


@public
def eigh(x: Any) -> Eigenpairs:
    """Eigenvalues in ascending order and eigenvectors of symmetric matrices [..., N, N], of the mean of x and its
    transpose. Vectors have gradients where what is made of them does not depend on their signs."""
    [matrix], dtype = matrices(x, square=True)
    return Eigenpairs(*(converted(item, dtype) for item in Eigh(matrix)[:2]))


@public
def eigvalsh(x: Any) -> Tensor:
    """Eigenvalues in ascending order of symmetric matrices [..., N, N], of the mean of x and its transpose."""
    [matrix], dtype = matrices(x, square=True)
    return converted(Eigenvalues(matrix)[0], dtype)


@public
def pinv(x: Any, rtol: float | None = None) -> Tensor:
    """The pseudo-inverses [..., N, M] of matrices [..., M, N]: singular values up to `rtol` times the largest are 0.

    None is max(M, N) times the epsilon of the dtype. There is a gradient where a small change keeps the rank.
    ArgumentError for a negative one.
    """
    [matrix], dtype = matrices(x)
    return converted(PseudoInverse(matrix, rtol=tolerance_of(matrix, rtol))[0], dtype)


@public
def matrix_rank(x: Any, rtol: float | None = None) -> Tensor:
    """How many singular values of matrices [..., M, N] are larger than `rtol` times the largest (i64): [...].

    None is max(M, N) times the epsilon of the dtype. ArgumentError for a negative one.
    """
    [matrix], _ = matrices(x)
    return _rank(SingularValues(matrix)[0], tolerance_of(matrix, rtol))


@public
def lstsq(a: Any, b: Any, rcond: float | None = None) -> LeastSquares:
    """The x of least norm for which the sum of the squares of a @ x - b is least, of a [M, N] and b [M] or [M, K].

    (x, residuals, rank, s): the residuals [K], or a number, are given for a of any rank, unlike NumPy's; s are the
    singular values of a. Those up to `rcond` times the largest are taken as 0; None is max(M, N) times the epsilon.
    ShapeError for other shapes, ArgumentError for a negative `rcond`.
    """
    right = as_tensor(b)
    is_vector = right.ndim == 1
    [matrix, right], dtype = matrices(a, expand_dims(right, -1) if is_vector else right)
    if matrix.ndim != 2 or right.ndim != 2 or matrix.shape[0] != right.shape[0]:
        raise ShapeError(f"takes a matrix and as many rows on the right, got {matrix.type} and {as_tensor(b).type}")
    rtol = tolerance_of(matrix, rcond)
    x, values = PseudoInverse(matrix, rtol=rtol)[0] @ right, SingularValues(matrix)[0]
    missing = matrix @ x - right
    residuals = summed(missing * missing, -2)
    if is_vector:
        x, residuals = squeeze(x, -1), squeeze(residuals, -1)
    x, residuals, values = (converted(item, dtype) for item in (x, residuals, values))
    return LeastSquares(x, residuals, _rank(values, rtol), values)


def _rank(values: Tensor, rtol: float) -> Tensor:
    if not values.shape[-1]:
        return summed(converted(values, i64), -1)
    return summed(converted(values > largest(values, -1, True) * rtol, i64), -1)


def check_mode(mode: str) -> None:
    """ArgumentError for what is no mode of `qr`."""
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"mode must be reduced or complete, got {mode!r}")


def tolerance_of(matrix: Tensor, rtol: float | None) -> float:
    """The share of the largest singular value up to which others are taken as 0."""
    if rtol is None:
        return max(matrix.shape[-2:]) * epsilon_of(matrix.dtype)
    if not isinstance(rtol, int | float) or not rtol >= 0:
        raise ArgumentError(f"the tolerance must be a number from 0 on, got {rtol!r}")
    return float(rtol)
