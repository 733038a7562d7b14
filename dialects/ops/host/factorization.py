"""Factors of matrices, by LAPACK on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import TensorType
from blu.dialects.core.op import Sample
from blu.dialects.ops.host.linear_algebra import Solve
from blu.dialects.ops.host.pairs import inverted, lower_half, on_diagonal
from blu.dialects.ops.host.routine import FOUND, MatrixRoutine, well_conditioned
from blu.dialects.tensor.arrangement import concatenate, expand_dims, matrix_transpose
from blu.dialects.tensor.tensor import Tensor
from blu.errors import UnsupportedError


class Cholesky(MatrixRoutine, name="cholesky"):
    """The lower triangular L with L L^T = A, the mean of each matrix and its transpose, and whether all have one."""

    num_results = 2
    reports, reported_as = "indefinite", "cholesky"

    @staticmethod
    def infer(operand: TensorType) -> tuple[TensorType, TensorType]:
        Cholesky.check(operand)
        return operand, FOUND

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, result: Tensor, found: Tensor) -> Tensor:
        """The symmetric part of L^-T P L^-1, where P is the lower triangle of L^T G with half of its diagonal."""
        inner = lower_half(matrix_transpose(result) @ g[0])
        turned = matrix_transpose(result)
        left, _ = Solve(turned, inner)
        share, _ = Solve(turned, matrix_transpose(left))
        return symmetric(share)

    @classmethod
    def matrices(cls) -> Iterator[np.ndarray]:
        for matrix in super().matrices():
            yield matrix @ matrix.mT


class Qr(MatrixRoutine, name="qr"):
    """The orthonormal Q and the upper triangular R with Q R = A; with `complete`, Q is square."""

    num_results = 2
    is_square = False

    complete: bool

    @staticmethod
    def infer(operand: TensorType, complete: bool) -> tuple[TensorType, TensorType]:
        Qr.check(operand)
        *batch, rows, columns = operand.shape
        size = rows if complete else min(rows, columns)
        return operand.with_shape((*batch, rows, size)), operand.with_shape((*batch, size, columns))

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, q: Tensor, r: Tensor, complete: bool) -> Tensor:
        """Of square or tall matrices (GQ + Q M) R^-T, where M is the lower triangle of R GR^T - GQ^T Q, mirrored.

        Of wide ones the columns beyond the square are Q times those of R (Roberts and Roberts, "QR and LQ
        decomposition matrix backpropagation algorithms for square, wide, and deep matrices", 2020).
        """
        rows, columns = operand.shape[-2:]
        if complete and rows > columns:
            raise UnsupportedError("there is no gradient of columns of Q that A does not say", advice="Use reduced.")
        to_q, to_r = g
        if columns > rows:
            beyond = operand[..., rows:]
            to_q = to_q + beyond @ matrix_transpose(to_r[..., rows:])
            share = _of_square(to_q, to_r[..., :rows], q, r[..., :rows])
            return concatenate([share, q @ to_r[..., rows:]], -1)
        return _of_square(to_q, to_r, q, r)

    @classmethod
    def matrices(cls) -> Iterator[np.ndarray]:
        yield from super().matrices()
        yield from rectangular()

    @classmethod
    def options(cls) -> Iterator[dict[str, Any]]:
        yield {"complete": False}

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        yield from super().samples()
        for matrix in rectangular():  # in f32, whose gradients are not taken
            yield Sample((matrix.astype(np.float32),), {"complete": True})


def _of_square(to_q: Tensor, to_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    inner = r @ matrix_transpose(to_r) - matrix_transpose(to_q) @ q
    low = lower_half(inner)
    share = to_q + q @ (low + matrix_transpose(low))
    return matrix_transpose(Solve(r, matrix_transpose(share))[0])


class Svd(MatrixRoutine, name="svd"):
    """U, s and V with U diag(s) V = A: s in descending order, and U and V square where that is `full`."""

    num_results = 4
    is_square = False
    reports, reported_as = "diverging", "svd"

    full: bool

    @staticmethod
    def infer(operand: TensorType, full: bool) -> tuple[TensorType, ...]:
        Svd.check(operand)
        *batch, rows, columns = operand.shape
        count = min(rows, columns)
        left, right = (rows, columns) if full else (count, count)
        shapes = (rows, left), (count,), (right, columns)
        return (*(operand.with_shape((*batch, *shape)) for shape in shapes), FOUND)

    @staticmethod
    def vjp(
        g: tuple[Tensor, ...], operand: Tensor, u: Tensor, s: Tensor, v: Tensor, found: Tensor, full: bool
    ) -> Tensor:
        """Townsend, "Differentiating the singular value decomposition" (2016), of the vectors that A says.

        Differences of equal values, and values of zero, divide nothing: what is a function of A alone has no share of
        them.
        """
        count = s.shape[-1]
        to_u, to_s, to_v = g[0][..., :count], g[1], matrix_transpose(g[2][..., :count, :])
        u, right = u[..., :count], matrix_transpose(v[..., :count, :])
        squares = s * s
        shares = inverted(expand_dims(squares, -2) - expand_dims(squares, -1))
        across_u = _skew(matrix_transpose(u) @ to_u) * shares
        across_v = _skew(matrix_transpose(right) @ to_v) * shares
        inner = across_u * expand_dims(s, -2) + expand_dims(s, -1) * across_v + on_diagonal(to_s)
        total = u @ inner @ matrix_transpose(right)
        over = expand_dims(inverted(s), -2)
        rows, columns = operand.shape[-2:]
        if rows > count:
            outside = to_u - u @ (matrix_transpose(u) @ to_u)
            total = total + (outside * over) @ matrix_transpose(right)
        if columns > count:
            outside = to_v - right @ (matrix_transpose(right) @ to_v)
            total = total + u @ matrix_transpose(outside * over)
        return total

    @classmethod
    def matrices(cls) -> Iterator[np.ndarray]:
        yield from super().matrices()
        yield from rectangular()

    @classmethod
    def options(cls) -> Iterator[dict[str, Any]]:
        yield {"full": False}


class SingularValues(MatrixRoutine, name="singular_values"):
    """The singular values in descending order."""

    num_results = 2
    is_square = False
    reports, reported_as = "diverging", "svdvals"

    @staticmethod
    def infer(operand: TensorType) -> tuple[TensorType, TensorType]:
        SingularValues.check(operand)
        *batch, rows, columns = operand.shape
        return operand.with_shape((*batch, min(rows, columns))), FOUND

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, values: Tensor, found: Tensor) -> Tensor:
        """U diag(g) V."""
        u, _, v, _ = Svd(operand, full=False)
        return (u * expand_dims(g[0], -2)) @ v

    @classmethod
    def matrices(cls) -> Iterator[np.ndarray]:
        yield from super().matrices()
        yield from rectangular()


class Eigh(MatrixRoutine, name="eigh"):
    """The eigenvalues in ascending order, and eigenvectors as columns, of the mean of each matrix and its transpose."""

    num_results = 3
    reports, reported_as = "diverging", "eigh"

    @staticmethod
    def infer(operand: TensorType) -> tuple[TensorType, TensorType, TensorType]:
        Eigh.check(operand)
        return operand.with_shape(operand.shape[:-1]), operand, FOUND

    @staticmethod
    def vjp(g: tuple[Tensor, ...], operand: Tensor, values: Tensor, vectors: Tensor, found: Tensor) -> Tensor:
        """The symmetric part of V (diag(g) + V^T G / (w_j - w_i)) V^T, where equal values divide nothing."""
        turned = matrix_transpose(vectors)
        shares = inverted(expand_dims(values, -2) - expand_dims(values, -1))
        return symmetric(vectors @ (on_diagonal(g[0]) + turned @ g[1] * shares) @ turned)


class Eigenvalues(MatrixRoutine, name="eigenvalues"):
    """The eigenvalues in ascending order of the mean of each matrix and its transpose."""

    num_results = 2
    reports, reported_as = "diverging", "eigvalsh"

    @staticmethod
    def infer(operand: TensorType) -> tuple[TensorType, TensorType]:
        Eigenvalues.check(operand)
        return operand.with_shape(operand.shape[:-1]), FOUND

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, values: Tensor, found: Tensor) -> Tensor:
        """V diag(g) V^T."""
        _, vectors, _ = Eigh(operand)
        return (vectors * expand_dims(g[0], -2)) @ matrix_transpose(vectors)


class PseudoInverse(MatrixRoutine, name="pseudo_inverse"):
    """The pseudo-inverses, in which singular values up to `rtol` times the largest are taken as 0."""

    num_results = 2
    is_square = False
    reports, reported_as = "diverging", "pinv"

    rtol: float

    @staticmethod
    def infer(operand: TensorType, rtol: float) -> tuple[TensorType, TensorType]:
        PseudoInverse.check(operand)
        *batch, rows, columns = operand.shape
        return operand.with_shape((*batch, columns, rows)), FOUND

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, result: Tensor, found: Tensor, rtol: float) -> Tensor:
        """Golub and Pereyra, "The differentiation of pseudo-inverses" (1973), where the rank stays what it is."""
        turned, to_result = matrix_transpose(result), g[0]
        back = matrix_transpose(to_result)
        left = back @ result @ turned
        right = turned @ result @ back
        return (left - operand @ (result @ left)) + (right - (right @ result) @ operand) - turned @ to_result @ turned

    @classmethod
    def matrices(cls) -> Iterator[np.ndarray]:
        yield from super().matrices()
        yield from rectangular()

    @classmethod
    def options(cls) -> Iterator[dict[str, Any]]:
        yield {"rtol": 1e-5}


def rectangular() -> Iterator[np.ndarray]:
    """Matrices that are not square, for samples."""
    rng = np.random.default_rng(2)
    for shape in ((4, 2), (2, 5), (2, 3, 1), (2, 1, 3), (3, 0), (0, 2)):
        yield well_conditioned(rng, shape)


def _skew(matrix: Tensor) -> Tensor:
    return matrix - matrix_transpose(matrix)


def symmetric(matrix: Tensor) -> Tensor:
    """The mean of a matrix and its transpose."""
    return (matrix + matrix_transpose(matrix)) * 0.5
