"""Factors of matrices."""

from __future__ import annotations

from typing import Any

from blu.dialects.ops.host.factorization import Cholesky
from blu.dialects.tensor.arrangement import matrix_transpose
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import converted
from blu.dialects.tensor.tensor import Tensor
from blu.frontend.linalg.matrices import matrices

__all__ = ["cholesky"]


@public
def cholesky(x: Any, upper: bool = False) -> Tensor:
    """The lower triangular L with L L^T = x of symmetric positive definite matrices [..., N, N], or its transpose.

    What is factored is the mean of x and its transpose, so that gradients are symmetric (as in JAX). MatrixError, a
    numpy.linalg.LinAlgError, where a matrix is not positive definite.
    """
    [matrix], dtype = matrices(x, square=True)
    found = converted(Cholesky(matrix)[0], dtype)
    return matrix_transpose(found) if upper else found
