"""Eigenvalues and eigenvectors of matrices that need not be symmetric, which are complex."""

from __future__ import annotations

from typing import Any

from blu.dialects.ops.host.complex_matrices import ComplexEig
from blu.dialects.tensor.complex_tensor import Complex
from blu.dialects.tensor.function import public
from blu.frontend.complexes.parts import as_complex
from blu.frontend.linalg.factors import Eigenpairs
from blu.frontend.linalg.matrices import matrices

__all__ = ["eig", "eigvals"]


@public
def eig(x: Any) -> Eigenpairs:
    """Eigenvalues, in no order, and eigenvectors of length 1 as columns, of matrices [..., N, N]: complex numbers.

    There is a gradient where all eigenvalues differ, and of what does not depend on the phases of vectors.
    """
    [matrix], _ = matrices(x, square=True)
    return eigenpairs(as_complex(matrix))


@public
def eigvals(x: Any) -> Any:
    """Eigenvalues, in no order, of matrices [..., N, N]: complex numbers."""
    [matrix], _ = matrices(x, square=True)
    return eigenpairs(as_complex(matrix)).eigenvalues


def eigenpairs(matrix: Complex) -> Eigenpairs:
    """Of a complex matrix."""
    found = ComplexEig(matrix.real, matrix.imag)
    return Eigenpairs(Complex(*found[:2]), Complex(*found[2:4]))
