"""Linear algebra of complex matrices: the host's routines of their parts, and what is made of them."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.dtypes import i64
from blu.dialects.ops.host import complex_matrices as ops
from blu.dialects.ops.host.factorization import PseudoInverse
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.arithmetic import absolute, divide, exp, multiply
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, expand_dims, matrix_transpose, squeeze
from blu.dialects.tensor.complex_tensor import Complex
from blu.dialects.tensor.folding import max as largest
from blu.dialects.tensor.folding import min as smallest
from blu.dialects.tensor.folding import sum as summed
from blu.dialects.tensor.promotion import converted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.complexes.parts import aligned, as_complex, made, zeros_of
from blu.frontend.complexes.rules import complex_of
from blu.frontend.functional.creation import eye
from blu.frontend.functional.norms import matrix_norm, vector_norm
from blu.frontend.linalg import eigen, factors, measures, solving
from blu.frontend.linalg.factors import QR, SVD, Eigenpairs, LeastSquares, check_mode, tolerance_of
from blu.frontend.linalg.solving import SignAndLogarithm

OF_SINGULAR_VALUES = ("nuc", 2, -2)


def _matrix(x: Any, square: bool = False) -> Complex:
    """Complex matrices. ShapeError for what has fewer than two dimensions, or, where they must be square, is not."""
    whole = as_complex(x)
    if whole.ndim < 2:
        raise ShapeError(f"takes matrices, of at least two dimensions, got {whole.type}")
    if square and whole.shape[-1] != whole.shape[-2]:
        raise ShapeError(f"takes square matrices, got {whole.type}")
    return whole


def _parts(x: Any, square: bool = False) -> tuple[Tensor, Tensor]:
    whole = _matrix(x, square)
    return whole.real, whole.imag


def _transposed(x: Complex) -> Complex:
    """The conjugate transpose."""
    return Complex(matrix_transpose(x.real), -matrix_transpose(x.imag))


@complex_of(solving.inv)
def _inv(x: Any) -> Complex:
    return Complex(*ops.ComplexInverse(*_parts(x, square=True))[:2])


@complex_of(solving.solve)
def _solve(a: Any, b: Any) -> Any:
    sides = [item if isinstance(item, Complex) else Complex(item, zeros_of(item)) for item in aligned(a, b)]
    left, right = _matrix(sides[0], square=True), sides[1]
    is_vector = right.ndim == 1
    right = expand_dims(right, -1) if is_vector else right  # type: ignore[assignment]
    batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
    given = [broadcast_to(side, (*batch, *side.shape[-2:])) for side in (left, right)]
    found = Complex(*ops.ComplexSolve(*(part for side in given for part in (side.real, side.imag)))[:2])
    return squeeze(found, -1) if is_vector else found


@complex_of(solving.slogdet)
def _slogdet(x: Any) -> SignAndLogarithm:
    real, imag, logarithm = ops.ComplexSlogdet(*_parts(x, square=True))
    return SignAndLogarithm(Complex(real, imag), logarithm)


@complex_of(solving.det)
def _det(x: Any) -> Any:
    """The gradient is that of an invertible matrix."""
    sign, logarithm = _slogdet(x)
    return multiply(sign, exp(logarithm))


@complex_of(factors.cholesky)
def _cholesky(x: Any, upper: bool = False) -> Complex:
    found = Complex(*ops.ComplexCholesky(*_parts(x, square=True))[:2])
    return _transposed(found) if upper else found


@complex_of(factors.qr)
def _qr(x: Any, mode: str = "reduced") -> QR:
    check_mode(mode)
    found = ops.ComplexQr(*_parts(x), complete=mode == "complete")
    return QR(Complex(*found[:2]), Complex(*found[2:]))


@complex_of(factors.svd)
def _svd(x: Any, full_matrices: bool = True) -> SVD:
    found = ops.ComplexSvd(*_parts(x), full=bool(full_matrices))
    return SVD(Complex(*found[:2]), found[2], Complex(*found[3:5]))


@complex_of(factors.svdvals)
def _svdvals(x: Any) -> Tensor:
    return _svd(x, False).S


@complex_of(factors.eigh)
def _eigh(x: Any) -> Eigenpairs:
    found = ops.ComplexEigh(*_parts(x, square=True))
    return Eigenpairs(found[0], Complex(*found[1:3]))


@complex_of(factors.eigvalsh)
def _eigvalsh(x: Any) -> Tensor:
    return _eigh(x).eigenvalues


@complex_of(eigen.eig)
def _eig(x: Any) -> Eigenpairs:
    return eigen.eigenpairs(_matrix(x, square=True))


@complex_of(eigen.eigvals)
def _eigvals(x: Any) -> Any:
    return _eig(x).eigenvalues


@complex_of(factors.pinv)
def _pinv(x: Any, rtol: float | None = None) -> Complex:
    """That of the real matrix of twice the size which multiplies the parts of vectors as x does the vectors."""
    whole = _matrix(x)
    rows, columns = whole.shape[-2:]
    found = PseudoInverse(_real_matrix(whole), rtol=tolerance_of(whole.real, rtol))[0]
    return Complex(found[..., :columns, :rows], found[..., columns:, :rows])


def _real_matrix(x: Complex) -> Tensor:
    """That which does to the parts of vectors, one behind the other, what x does to the vectors."""
    upper, lower = concatenate([x.real, -x.imag], -1), concatenate([x.imag, x.real], -1)
    return concatenate([upper, lower], -2)


@complex_of(factors.lstsq)
def _lstsq(a: Any, b: Any, rcond: float | None = None) -> LeastSquares:
    """That of the real matrix of twice the size, which has each singular value twice."""
    sides = [as_complex(item) for item in aligned(a, b)]
    matrix, right = _matrix(sides[0]), sides[1]
    rcond = tolerance_of(matrix.real, rcond)
    found = factors.lstsq(_real_matrix(matrix), concatenate([right.real, right.imag], 0), rcond)
    columns = matrix.shape[-1]
    x = Complex(found.x[:columns], found.x[columns:])
    return LeastSquares(x, found.residuals, found.rank // 2, found.s[::2])


@complex_of(factors.matrix_rank)
def _matrix_rank(x: Any, rtol: float | None = None) -> Tensor:
    values = _svdvals(x)
    if not values.shape[-1]:
        return summed(converted(values, i64), -1)
    limit = largest(values, -1, True) * tolerance_of(_matrix(x).real, rtol)
    return summed(converted(values > limit, i64), -1)


@complex_of(matrix_norm)
def _matrix_norm(x: Any, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Those of singular values; the others are norms of the sizes of elements."""
    if ord not in OF_SINGULAR_VALUES:
        return matrix_norm(absolute(x), keepdims, ord)
    fold = summed if ord == "nuc" else largest if ord == 2 else smallest
    found = fold(_svdvals(x), -1)
    return expand_dims(found, (-2, -1)) if keepdims else found


@complex_of(vector_norm)
def _vector_norm(x: Any, *arguments: Any, **options: Any) -> Tensor:
    return vector_norm(absolute(x), *arguments, **options)


@complex_of(measures.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    return measures.norm_of(as_complex(x), ord, axis, keepdims)


@complex_of(measures.cond)
def _cond(x: Any, p: Any = None) -> Tensor:
    if p not in (None, 2, -2):
        return matrix_norm(x, ord=p) * matrix_norm(_inv(x), ord=p)
    values = _svdvals(x)
    if not values.shape[-1]:
        raise ShapeError(f"{_matrix(x).type} has no singular values")
    first, last = values[..., 0], values[..., -1]
    return divide(last, first) if p == -2 else divide(first, last)


@complex_of(measures.matrix_power)
def _matrix_power(x: Any, n: int) -> Any:
    if isinstance(n, bool) or not isinstance(n, int):
        raise ArgumentError(f"the exponent is an integer, got {n!r}")
    whole = _matrix(x, square=True)
    if n == 0:
        one = broadcast_to(eye(whole.shape[-1], dtype=whole.real.dtype), whole.shape)
        return made(one, zeros_of(one))
    return measures.power_of(_inv(whole) if n < 0 else whole, abs(n))
