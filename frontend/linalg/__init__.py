"""Linear algebra in compiled functions, on all targets, with gradients: NumPy's names and meanings.

    @blu.jit
    def log_density(x, mean, covariance):
        factor = blu.linalg.cholesky(covariance)
        white = blu.linalg.solve(factor, x - mean)
        return -0.5 * blu.sum(white * white) - blu.sum(blu.log(blu.diagonal(factor)))

The host computes these with LAPACK, as NumPy has it, between a program's kernels. On a GPU, matrices are copied to the
host and back, which waits, and the program is no CUDA graph. Matrices are the last two dimensions of float32 or
float64, those before are batches. Halves are computed in float32, and integers in the floats that NumPy makes of them.
"""

from blu import errors
from blu.dialects.tensor.arithmetic import matmul
from blu.dialects.tensor.arrangement import matrix_transpose
from blu.frontend.functional.creation import diagonal
from blu.frontend.functional.linear import outer, tensordot, trace
from blu.frontend.functional.norms import cross, matrix_norm, vecdot, vector_norm
from blu.frontend.linalg.eigen import eig, eigvals
from blu.frontend.linalg.factors import (
    QR,
    SVD,
    Eigenpairs,
    LeastSquares,
    cholesky,
    eigh,
    eigvalsh,
    lstsq,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
)
from blu.frontend.linalg.measures import cond, matrix_power, norm
from blu.frontend.linalg.solving import SignAndLogarithm, det, inv, slogdet, solve

__all__ = [
    "QR",
    "SVD",
    "Eigenpairs",
    "LeastSquares",
    "SignAndLogarithm",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
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

__getattr__ = errors.guessing(globals())
