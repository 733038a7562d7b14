"""Inverses, systems of equations and determinants, by LAPACK on the host.

The gradients are those of Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.core.dtypes import TensorType, f32, f64
from blu.dialects.core.op import ErrorSample, Operand, Sample
from blu.dialects.ops.host.routine import FOUND, HostRoutine, MatrixRoutine, check_dtype, well_conditioned
from blu.dialects.tensor.arrangement import expand_dims, matrix_transpose
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError


class Inverse(MatrixRoutine, name="inverse"):
    """The inverses of matrices, and whether all of them have one."""

    num_results = 2
    reports, reported_as = "singular", "inv"

    @staticmethod
    def infer(operand: TensorType) -> tuple[TensorType, TensorType]:
        Inverse.check(operand)
        return operand, FOUND

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, result: Tensor, found: Tensor) -> Tensor:
        """-A^-T G A^-T."""
        turned = matrix_transpose(result)
        return -(turned @ g[0] @ turned)


class Solve(HostRoutine, name="solve"):
    """X with `operand` X = `right`, whose dimensions before the last two are equal, and whether there is one of all."""

    num_results = 2
    reports, reported_as = "singular", "solve"

    operand: Operand
    right: Operand

    @staticmethod
    def infer(operand: TensorType, right: TensorType) -> tuple[TensorType, TensorType]:
        Inverse.check(operand)
        check_dtype(right)
        if operand.dtype != right.dtype:
            raise DTypeError(f"operands must have one dtype, got {operand} and {right}")
        if len(right.shape) != len(operand.shape) or right.shape[:-1] != operand.shape[:-1]:
            raise ShapeError(f"{operand} times what gives {right}: the rows, or the batches, are not as many")
        return right, FOUND

    @staticmethod
    def vjp(
        g: tuple[Tensor, Tensor], operand: Tensor, right: Tensor, result: Tensor, found: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of the right side A^-T G, and of the matrix -(A^-T G) X^T."""
        share, _ = Solve(matrix_transpose(operand), g[0])
        return -(share @ matrix_transpose(result)), share

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(1)
        for dtype in (f32, f64):
            for shape, columns in (((1, 1), 1), ((3, 3), 2), ((2, 4, 4), 3), ((3, 3), 0), ((0, 0), 2), ((0, 2, 2), 1)):
                right = rng.uniform(-2, 2, (*shape[:-1], columns))
                sides = well_conditioned(rng, shape), right
                yield Sample(tuple(side.astype(dtype.numpy) for side in sides))

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        matrix = TensorType((3, 3), f32)
        yield ErrorSample((matrix.with_shape((2, 3)), matrix), {}, "square matrices")
        yield ErrorSample((matrix, matrix.with_dtype(f64)), {}, "one dtype")
        yield ErrorSample((matrix, matrix.with_shape((2, 3))), {}, "the rows, or the batches")
        yield ErrorSample((matrix, matrix.with_shape((2, 3, 3))), {}, "the rows, or the batches")


class Determinant(MatrixRoutine, name="determinant"):
    """The determinants of matrices."""

    @staticmethod
    def infer(operand: TensorType) -> TensorType:
        Determinant.check(operand)
        return operand.with_shape(operand.shape[:-2])

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor) -> Tensor:
        """The cofactors, which singular matrices have as well."""
        factors, _ = Cofactors(operand)
        return _on_matrices(g) * factors


class Cofactors(MatrixRoutine, name="cofactors"):
    """The matrices of cofactors, det(A) A^-T where there is an inverse: the gradients of determinants."""

    num_results = 2
    reports, reported_as = "diverging", "the gradient of det"

    @staticmethod
    def infer(operand: TensorType) -> tuple[TensorType, TensorType]:
        Cofactors.check(operand)
        return operand, FOUND

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, result: Tensor, found: Tensor) -> Tensor:
        """With T = A^-T and C = det(A) T: <G, T> C - C G^T T. Singular matrices have none here."""
        inverse, _ = Inverse(operand)
        turned = matrix_transpose(inverse)
        along = (g[0] * turned).sum(axis=(-2, -1))
        return _on_matrices(along) * result - result @ matrix_transpose(g[0]) @ turned


class Slogdet(MatrixRoutine, name="slogdet"):
    """The signs of determinants (0 of singular matrices), and the logarithms of their sizes (-inf)."""

    num_results = 2

    @staticmethod
    def infer(operand: TensorType) -> tuple[TensorType, TensorType]:
        Slogdet.check(operand)
        type_ = operand.with_shape(operand.shape[:-2])
        return type_, type_

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, sign: Tensor, logarithm: Tensor) -> Tensor:
        """Of the logarithm A^-T; the sign has none."""
        inverse, _ = Inverse(operand)
        return _on_matrices(g[1]) * matrix_transpose(inverse)


def _on_matrices(numbers: Tensor) -> Tensor:
    """A number of each matrix, for all of its elements."""
    return expand_dims(numbers, (-2, -1))
