"""Factors of matrices, by LAPACK on the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.core.dtypes import TensorType, i32
from blu.dialects.ops.creation import Iota
from blu.dialects.ops.host.linear_algebra import Solve
from blu.dialects.ops.host.routine import FOUND, MatrixRoutine
from blu.dialects.tensor.arithmetic import where
from blu.dialects.tensor.arrangement import matrix_transpose
from blu.dialects.tensor.tensor import Tensor


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


def lower_half(matrix: Tensor) -> Tensor:
    """The lower triangle, with half of the diagonal."""
    size = matrix.shape[-1]
    row, column = (Iota(shape=(size, size), axis=axis, dtype=i32) for axis in (0, 1))
    return where(column < row, matrix, where(column == row, matrix * 0.5, 0.0))


def symmetric(matrix: Tensor) -> Tensor:
    """The mean of a matrix and its transpose."""
    return (matrix + matrix_transpose(matrix)) * 0.5
