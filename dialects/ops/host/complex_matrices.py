"""Linear algebra of complex matrices, by LAPACK on the host: as that of real ones, whose formulas of gradients it has.

A complex matrix is two operands, its real and its imaginary part, and so are complex results. Gradients are those with
respect to the parts: of z = x + iy the complex number dx + i dy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from blu.dialects.core.dtypes import TensorType, f32, f64
from blu.dialects.core.op import ErrorSample, Operand, Sample
from blu.dialects.ops.host.pairs import PairMatrix, beside, inverted, on_diagonal
from blu.dialects.ops.host.routine import FOUND, HostRoutine, check_dtype, well_conditioned
from blu.dialects.tensor.arrangement import expand_dims
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError, UnsupportedError

Types = tuple[TensorType, ...]
Tensors = tuple[Tensor, ...]


class ComplexRoutine(HostRoutine):
    """Base of those of one complex matrix, of which `is_square` says whether it has as many rows as columns."""

    is_square: ClassVar[bool] = True
    # Samples that gradients are taken of are in f64: vectors that are known but for a phase have none by differences.
    dtype: ClassVar[Any] = f64

    real: Operand
    imag: Operand

    @classmethod
    def check(cls, real: TensorType, imag: TensorType) -> None:
        """DTypeError or ShapeError for what are no such matrices."""
        check_dtype(real)
        check_parts(real, imag)
        if len(real.shape) < 2:
            raise ShapeError(f"takes matrices, of at least two dimensions, got {real}")
        if cls.is_square and real.shape[-1] != real.shape[-2]:
            raise ShapeError(f"takes square matrices, got {real}")

    @classmethod
    def matrices(cls) -> Iterator[np.ndarray]:
        """What samples are made of: complex matrices that are far from singular."""
        rng = np.random.default_rng(3)
        shapes = ((1, 1), (3, 3), (2, 4, 4), (0, 0), (0, 2, 2)) + (() if cls.is_square else ((4, 2), (2, 5), (0, 2)))
        for shape in shapes:
            yield well_conditioned(rng, shape) + 1j * rng.uniform(-0.5, 0.5, shape)

    @classmethod
    def options(cls) -> dict[str, Any]:
        """The attributes that samples have."""
        return {}

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        for matrix in cls.matrices():
            yield Sample(parts_in(matrix, cls.dtype), cls.options())
        yield Sample(parts_in(next(cls.matrices()), f32), cls.options())

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        part, options = TensorType((3, 3), f32), cls.options()
        yield ErrorSample((part, part.with_dtype(f64)), options, "one dtype")
        yield ErrorSample((part, part.with_shape((3, 2))), options, "one shape")
        yield ErrorSample((part.with_shape((3,)),) * 2, options, "at least two dimensions")
        if cls.is_square:
            yield ErrorSample((part.with_shape((2, 3)),) * 2, options, "square matrices")


def check_parts(real: TensorType, imag: TensorType) -> None:
    """DTypeError or ShapeError for what are no two parts of one matrix."""
    if real.dtype != imag.dtype:
        raise DTypeError(f"real and imaginary parts must have one dtype, got {real} and {imag}")
    if real.shape != imag.shape:
        raise ShapeError(f"real and imaginary parts must have one shape, got {real} and {imag}")


def parts_in(matrix: Any, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The parts of a matrix, as arrays of a dtype."""
    return matrix.real.astype(dtype.numpy), matrix.imag.astype(dtype.numpy)


class ComplexInverse(ComplexRoutine, name="complex_inverse"):
    """The inverses of complex matrices, and whether all of them have one."""

    num_results = 3
    reports, reported_as = "singular", "inv"

    @staticmethod
    def infer(real: TensorType, imag: TensorType) -> Types:
        ComplexInverse.check(real, imag)
        return real, imag, FOUND

    @staticmethod
    def vjp(g: Tensors, real: Tensor, imag: Tensor, *results: Tensor) -> Tensors:
        """-A^-H G A^-H."""
        turned = PairMatrix(*results[:2]).turned
        return (-(turned @ PairMatrix(*g[:2]) @ turned)).parts


class ComplexSolve(HostRoutine, name="complex_solve"):
    """X with A X = B, whose dimensions before the last two are equal, and whether there is one of all."""

    num_results = 3
    reports, reported_as = "singular", "solve"

    real: Operand
    imag: Operand
    right_real: Operand
    right_imag: Operand

    @staticmethod
    def infer(real: TensorType, imag: TensorType, right_real: TensorType, right_imag: TensorType) -> Types:
        ComplexInverse.check(real, imag)
        check_parts(right_real, right_imag)
        if real.dtype != right_real.dtype:
            raise DTypeError(f"both sides must have one dtype, got {real} and {right_real}")
        if len(right_real.shape) != len(real.shape) or right_real.shape[:-1] != real.shape[:-1]:
            raise ShapeError(f"{real} times what gives {right_real}: the rows, or the batches, are not as many")
        return right_real, right_imag, FOUND

    @staticmethod
    def vjp(
        g: Tensors, real: Tensor, imag: Tensor, right_real: Tensor, right_imag: Tensor, *results: Tensor
    ) -> Tensors:
        """Of the right side A^-H G, and of the matrix -(A^-H G) X^H."""
        share = solved(PairMatrix(real, imag).turned, PairMatrix(*g[:2]))
        return (*(-(share @ PairMatrix(*results[:2]).turned)).parts, *share.parts)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(4)
        for matrix in ComplexInverse.matrices():
            columns = rng.uniform(-2, 2, (*matrix.shape[:-1], 2))
            yield Sample((*parts_in(matrix, f64), *parts_in(columns * (1 - 0.5j), f64)))

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        part = TensorType((3, 3), f32)
        yield ErrorSample((part.with_shape((2, 3)),) * 2 + (part,) * 2, {}, "square matrices")
        yield ErrorSample((part, part, part, part.with_shape((3, 2))), {}, "one shape")
        yield ErrorSample((part,) * 2 + (part.with_dtype(f64),) * 2, {}, "one dtype")
        yield ErrorSample((part,) * 2 + (part.with_shape((2, 3)),) * 2, {}, "the rows, or the batches")


def solved(matrix: PairMatrix, right: PairMatrix) -> PairMatrix:
    """What the matrix times it is the one on the right."""
    real, imag, _ = ComplexSolve(*matrix.parts, *right.parts)
    return PairMatrix(real, imag)


class ComplexSlogdet(ComplexRoutine, name="complex_slogdet"):
    """The determinants of complex matrices over their sizes (0 of singular ones), and the logarithms of these sizes."""

    num_results = 3

    @staticmethod
    def infer(real: TensorType, imag: TensorType) -> Types:
        ComplexSlogdet.check(real, imag)
        return (real.with_shape(real.shape[:-2]),) * 3

    @staticmethod
    def vjp(g: Tensors, real: Tensor, imag: Tensor, sign_real: Tensor, sign_imag: Tensor, logarithm: Tensor) -> Tensors:
        """(g + i Im(conj(s) Gs)) A^-H, of the logarithm's gradient g and that of the sign s."""
        around = sign_real * g[1] - sign_imag * g[0]
        inverse_real, inverse_imag, _ = ComplexInverse(real, imag)
        share = PairMatrix(*(expand_dims(part, (-2, -1)) for part in (g[2], around)))
        return (PairMatrix(inverse_real, inverse_imag).turned * share).parts


class ComplexCholesky(ComplexRoutine, name="complex_cholesky"):
    """The lower triangular L with L L^H = A, the mean of each matrix and its conjugate transpose."""

    num_results = 3
    reports, reported_as = "indefinite", "cholesky"

    @staticmethod
    def infer(real: TensorType, imag: TensorType) -> Types:
        ComplexCholesky.check(real, imag)
        return real, imag, FOUND

    @staticmethod
    def vjp(g: Tensors, real: Tensor, imag: Tensor, *results: Tensor) -> Tensors:
        """The Hermitian part of L^-H P L^-1, where P is the lower triangle of L^H G with half of its diagonal."""
        turned = PairMatrix(*results[:2]).turned
        left = solved(turned, (turned @ PairMatrix(*g[:2])).lower_half())
        return solved(turned, left.turned).symmetric().parts

    @classmethod
    def matrices(cls) -> Iterator[np.ndarray]:
        for matrix in super().matrices():
            yield matrix @ matrix.conj().mT


class ComplexQr(ComplexRoutine, name="complex_qr"):
    """The unitary Q and the upper triangular R, of a real diagonal, with Q R = A; with `complete`, Q is square."""

    num_results = 4
    is_square = False

    complete: bool

    @staticmethod
    def infer(real: TensorType, imag: TensorType, complete: bool) -> Types:
        ComplexQr.check(real, imag)
        *batch, rows, columns = real.shape
        size = rows if complete else min(rows, columns)
        return (real.with_shape((*batch, rows, size)),) * 2 + (real.with_shape((*batch, size, columns)),) * 2

    @staticmethod
    def vjp(g: Tensors, real: Tensor, imag: Tensor, *results: Tensor, complete: bool) -> Tensors:
        """As of real matrices, with conjugates: see `Qr`."""
        rows, columns = real.shape[-2:]
        if complete and rows > columns:
            raise UnsupportedError("there is no gradient of columns of Q that A does not say", advice="Use reduced.")
        q, r, to_q, to_r = (PairMatrix(*pair) for pair in (results[:2], results[2:], g[:2], g[2:]))
        if columns <= rows:
            return _of_square(to_q, to_r, q, r).parts
        beyond = to_r[..., rows:]
        to_q = to_q + PairMatrix(real, imag)[..., rows:] @ beyond.turned
        return beside(_of_square(to_q, to_r[..., :rows], q, r[..., :rows]), q @ beyond).parts

    @classmethod
    def options(cls) -> dict[str, Any]:
        return {"complete": False}


def _of_square(to_q: PairMatrix, to_r: PairMatrix, q: PairMatrix, r: PairMatrix) -> PairMatrix:
    low = (r @ to_r.turned - to_q.turned @ q).lower_half()
    share = to_q + q @ (low + low.turned)
    return solved(r, share.turned).turned


class ComplexSvd(ComplexRoutine, name="complex_svd"):
    """U, s and V with U diag(s) V = A: s in descending order, and U and V square where that is `full`."""

    num_results = 6
    is_square = False
    dtype = f32
    reports, reported_as = "diverging", "svd"

    full: bool

    @staticmethod
    def infer(real: TensorType, imag: TensorType, full: bool) -> Types:
        ComplexSvd.check(real, imag)
        *batch, rows, columns = real.shape
        count = min(rows, columns)
        left, right = (rows, columns) if full else (count, count)
        u, v = real.with_shape((*batch, rows, left)), real.with_shape((*batch, right, columns))
        return u, u, real.with_shape((*batch, count)), v, v, FOUND

    @staticmethod
    def vjp(g: Tensors, real: Tensor, imag: Tensor, *results: Tensor, full: bool) -> Tensors:
        """As of real matrices, with conjugates (see `Svd`), and the phases that U and V have in common."""
        s, to_s = results[2], g[2]
        count = s.shape[-1]
        u, to_u = (PairMatrix(*pair)[..., :count] for pair in (results[:2], g[:2]))
        v, to_v = (PairMatrix(*pair)[..., :count, :].turned for pair in (results[3:5], g[3:5]))
        squares = s * s
        shares = inverted(expand_dims(squares, -2) - expand_dims(squares, -1))
        from_u, from_v = u.turned @ to_u, v.turned @ to_v
        phases = (from_u.diagonal().imag - from_v.diagonal().imag) * 0.5 * inverted(s)
        inner = from_u.skew() * shares * expand_dims(s, -2) + from_v.skew() * shares * expand_dims(s, -1)
        inner = inner + PairMatrix(on_diagonal(to_s), on_diagonal(phases))
        total, over = u @ inner @ v.turned, expand_dims(inverted(s), -2)
        if real.shape[-2] > count:
            total = total + ((to_u - u @ from_u) * over) @ v.turned
        if real.shape[-1] > count:
            total = total + u @ ((to_v - v @ from_v) * over).turned
        return total.parts

    @classmethod
    def options(cls) -> dict[str, Any]:
        return {"full": False}


class ComplexEigh(ComplexRoutine, name="complex_eigh"):
    """The eigenvalues in ascending order, and eigenvectors as columns, of the mean of each matrix and its conjugate
    transpose."""

    num_results = 4
    dtype = f32
    reports, reported_as = "diverging", "eigh"

    @staticmethod
    def infer(real: TensorType, imag: TensorType) -> Types:
        ComplexEigh.check(real, imag)
        return real.with_shape(real.shape[:-1]), real, imag, FOUND

    @staticmethod
    def vjp(g: Tensors, real: Tensor, imag: Tensor, *results: Tensor) -> Tensors:
        """The Hermitian part of V (diag(g) + V^H G / (w_j - w_i)) V^H, where equal values divide nothing."""
        values, vectors = results[0], PairMatrix(*results[1:3])
        shares = inverted(expand_dims(values, -2) - expand_dims(values, -1))
        inner = (vectors.turned @ PairMatrix(*g[1:3])) * shares
        inner = PairMatrix(inner.real + on_diagonal(g[0]), inner.imag)
        return (vectors @ inner @ vectors.turned).symmetric().parts


class ComplexEig(ComplexRoutine, name="complex_eig"):
    """The eigenvalues of matrices that need not be symmetric, and eigenvectors of length 1 as columns."""

    num_results = 5
    dtype = f32
    reports, reported_as = "diverging", "eig"

    @staticmethod
    def infer(real: TensorType, imag: TensorType) -> Types:
        ComplexEig.check(real, imag)
        values = real.with_shape(real.shape[:-1])
        return values, values, real, imag, FOUND

    @staticmethod
    def vjp(g: Tensors, real: Tensor, imag: Tensor, *results: Tensor) -> Tensors:
        """V^-H (diag(g) + (V^H G - V^H V diag(Re V^H G)) / conj(w_j - w_i)) V^H, where equal values divide nothing."""
        values, vectors = PairMatrix(*results[:2]), PairMatrix(*results[2:4])
        from_vectors = vectors.turned @ PairMatrix(*g[2:4])
        along = expand_dims(from_vectors.diagonal().real, -2)
        inner = from_vectors - (vectors.turned @ vectors) * along
        apart = [expand_dims(part, -2) - expand_dims(part, -1) for part in values.parts]
        over = inverted(apart[0] * apart[0] + apart[1] * apart[1])
        inner = inner * PairMatrix(apart[0] * over, apart[1] * over)
        inner = inner + PairMatrix(*map(on_diagonal, g[:2]))
        return solved(vectors.turned, inner @ vectors.turned).parts
