"""`blu.array_api.linalg`. Of arrays, LAPACK's functions are NumPy's; of tensors, those of `blu.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dialects.hooks import HOOKS
from blu.dialects.tensor import arithmetic
from blu.dialects.tensor.arrangement import flatten, matrix_transpose
from blu.dialects.tensor.function import on_host, public, public_as
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.frontend import linalg as compiled
from blu.frontend.array_api.dtypes import dtype_of, is_summed_on_host, summed_on_host
from blu.frontend.functional import creation, linear, norms
from blu.frontend.functional.norms import vecdot, vector_norm
from blu.frontend.linalg.factors import QR, SVD, Eigenpairs
from blu.frontend.linalg.solving import SignAndLogarithm

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


@public
def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The matrix product: the last two dimensions are matrices, the others are broadcast; 1-d operands are vectors."""
    return arithmetic.matmul(x1, x2)


@public
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over pairs of axes: the last `axes` of x1 with the first of x2, or two lists of axes."""
    return linear.tensordot(x1, x2, axes)


@public
def outer(x1: Any, x2: Any, /) -> Tensor:
    """Every element of a vector times every element of another."""
    left, right = as_tensor(x1), as_tensor(x2)
    if left.ndim != 1 or right.ndim != 1:
        raise ShapeError(f"takes vectors, got {left.type} and {right.type}")
    return linear.outer(flatten(left), right)


@public
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis of both."""
    return norms.cross(x1, x2, axis)


@public
def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The elements of the last two dimensions where column - row is `offset`, along one last dimension."""
    return creation.diagonal(x, offset)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of the diagonals of the last two dimensions, of integers in 64 bits unless a `dtype` is given."""
    if is_summed_on_host(x, dtype):
        wanted = dtype_of(dtype) if dtype is not None else None
        return HOOKS.compiler.run_on_host(summed_on_host(np.linalg.trace), (x,), {"offset": offset, "dtype": wanted})
    return _trace(x, offset, dtype)


@public_as("trace")
def _trace(x: Any, offset: int, dtype: Any) -> Tensor:
    return creation.diagonal(creation.asarray(x), offset).sum(axis=-1, dtype=dtype)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: int | float | str | None = "fro") -> Any:
    """The norm of the matrices of the last two dimensions; those of singular values (2, -2, "nuc") are NumPy's."""
    if ord in (2, -2, "nuc"):
        return _spectral_norm(x, keepdims, ord)
    return norms.matrix_norm(x, keepdims=keepdims, ord=ord)


@on_host(traced=norms.matrix_norm)
def _spectral_norm(x: Any, keepdims: bool, ord: Any) -> Any:
    return np.linalg.matrix_norm(x, keepdims=keepdims, ord=ord)


@on_host(traced=compiled.cholesky)
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The lower (or upper) triangular factor of a positive definite matrix."""
    return np.linalg.cholesky(x, upper=upper)


@on_host(traced=compiled.det)
def det(x: Any, /) -> Any:
    """The determinant."""
    return np.linalg.det(x)


@on_host(traced=compiled.eig)
def eig(x: Any, /) -> Eigenpairs:
    """Complex eigenvalues and eigenvectors of a matrix."""
    values, vectors = np.linalg.eig(x)
    kind = np.result_type(values.dtype, np.complex64)
    return Eigenpairs(values.astype(kind), vectors.astype(kind))


@on_host(traced=compiled.eigvals)
def eigvals(x: Any, /) -> Any:
    """Complex eigenvalues of a matrix."""
    values = np.linalg.eigvals(x)
    return values.astype(np.result_type(values.dtype, np.complex64))


@on_host(traced=compiled.eigh)
def eigh(x: Any, /) -> Eigenpairs:
    """Eigenvalues in order and eigenvectors of a symmetric (Hermitian) matrix, of which the lower triangle is read."""
    return Eigenpairs(*np.linalg.eigh(x))


@on_host(traced=compiled.eigvalsh)
def eigvalsh(x: Any, /) -> Any:
    """Eigenvalues in order of a symmetric (Hermitian) matrix, of which the lower triangle is read."""
    return np.linalg.eigvalsh(x)


@on_host(traced=compiled.inv)
def inv(x: Any, /) -> Any:
    """The inverse of a matrix. numpy.linalg.LinAlgError where there is none."""
    return np.linalg.inv(x)


@on_host(traced=compiled.matrix_power)
def matrix_power(x: Any, n: int, /) -> Any:
    """A matrix times itself, `n` times; its inverse where `n` is negative."""
    return np.linalg.matrix_power(x, n)


@on_host(traced=compiled.matrix_rank)
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values are larger than `rtol` times the largest."""
    return np.linalg.matrix_rank(x, rtol=rtol)


@on_host(traced=compiled.pinv)
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The pseudo-inverse, in which singular values up to `rtol` times the largest are taken as 0."""
    return np.linalg.pinv(x, rtol=rtol) if rtol is not None else np.linalg.pinv(x)


@on_host(traced=compiled.qr)
def qr(x: Any, /, *, mode: str = "reduced") -> QR:
    """An orthonormal and an upper triangular factor: "reduced", or "complete" with a square first one."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be reduced or complete, got {mode!r}")
    return QR(*np.linalg.qr(x, mode=mode))


@on_host(traced=compiled.slogdet)
def slogdet(x: Any, /) -> SignAndLogarithm:
    """The sign of the determinant, and the logarithm of its size."""
    return SignAndLogarithm(*np.linalg.slogdet(x))


@on_host(traced=compiled.solve)
def solve(x1: Any, x2: Any, /) -> Any:
    """What x1 times it is x2: a vector where x2 has one dimension, else matrices."""
    return np.linalg.solve(x1, x2)


@on_host(traced=compiled.svd)
def svd(x: Any, /, *, full_matrices: bool = True) -> SVD:
    """Singular vectors and values."""
    return SVD(*np.linalg.svd(x, full_matrices=full_matrices))


@on_host(traced=compiled.svdvals)
def svdvals(x: Any, /) -> Any:
    """Singular values, the largest first."""
    return np.linalg.svdvals(x)
