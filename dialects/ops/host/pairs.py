"""Complex matrices as pairs of tensors, in the formulas of gradients of what the host computes."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import i32
from blu.dialects.ops.creation import Iota
from blu.dialects.tensor.arithmetic import where
from blu.dialects.tensor.arrangement import concatenate, expand_dims, matrix_transpose
from blu.dialects.tensor.tensor import Tensor


@dataclass(frozen=True)
class PairMatrix:
    """A complex matrix: its real and imaginary parts."""

    real: Tensor
    imag: Tensor

    @property
    def parts(self) -> tuple[Tensor, Tensor]:
        return self.real, self.imag

    @property
    def turned(self) -> PairMatrix:
        """The conjugate transpose."""
        return PairMatrix(matrix_transpose(self.real), -matrix_transpose(self.imag))

    def __add__(self, other: PairMatrix) -> PairMatrix:
        return PairMatrix(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: PairMatrix) -> PairMatrix:
        return PairMatrix(self.real - other.real, self.imag - other.imag)

    def __neg__(self) -> PairMatrix:
        return PairMatrix(-self.real, -self.imag)

    def __matmul__(self, other: PairMatrix) -> PairMatrix:
        real = self.real @ other.real - self.imag @ other.imag
        return PairMatrix(real, self.real @ other.imag + self.imag @ other.real)

    def __mul__(self, other: PairMatrix | Tensor) -> PairMatrix:
        """Times real or complex numbers that broadcast, element by element."""
        if isinstance(other, Tensor):
            return PairMatrix(self.real * other, self.imag * other)
        real = self.real * other.real - self.imag * other.imag
        return PairMatrix(real, self.real * other.imag + self.imag * other.real)

    def __getitem__(self, key: tuple) -> PairMatrix:
        return PairMatrix(self.real[key], self.imag[key])

    def diagonal(self) -> PairMatrix:
        """The elements of the diagonal, along the last dimension."""
        return PairMatrix(self.real.diagonal(), self.imag.diagonal())

    def lower_half(self) -> PairMatrix:
        """The lower triangle, with half of the diagonal."""
        return PairMatrix(*map(lower_half, self.parts))

    def symmetric(self) -> PairMatrix:
        """The mean of the matrix and its conjugate transpose."""
        total = self + self.turned
        return PairMatrix(total.real * 0.5, total.imag * 0.5)

    def skew(self) -> PairMatrix:
        """The matrix less its conjugate transpose."""
        return self - self.turned


def beside(left: PairMatrix, right: PairMatrix) -> PairMatrix:
    """The columns of one, and then those of the other."""
    return PairMatrix(concatenate([left.real, right.real], -1), concatenate([left.imag, right.imag], -1))


def on_diagonal(values: Tensor) -> Tensor:
    """Matrices with these on their diagonals."""
    row, column = _places(values.shape[-1])
    return where(row == column, expand_dims(values, -1), 0.0)


def inverted(values: Tensor) -> Tensor:
    """One over each, and 0 of 0."""
    is_zero = values == 0
    return where(is_zero, 0.0, 1.0 / where(is_zero, 1.0, values))


def lower_half(matrix: Tensor) -> Tensor:
    """The lower triangle, with half of the diagonal."""
    row, column = _places(matrix.shape[-1])
    return where(column < row, matrix, where(column == row, matrix * 0.5, 0.0))


def _places(size: int) -> tuple[Tensor, Tensor]:
    """The row and the column of each element of a square matrix."""
    row, column = (Iota(shape=(size, size), axis=axis, dtype=i32) for axis in (0, 1))
    return row, column
