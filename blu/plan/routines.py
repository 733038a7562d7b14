"""What the host computes for a program, between its kernels: routines of NumPy's, which call LAPACK and pocketfft.

Each takes arrays and numbers by name, and gives a tuple of arrays. Matrices are the last two dimensions; those before
them are batches. What may fail gives last of all, as a 0-d array of int64, 0 or one more than the number of the last
matrix of the batch that it failed for, whose results are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
Routine = Callable[..., Arrays]


def _may_fail(cores: tuple[int, ...]) -> Callable[[Routine], Routine]:
    """Of a routine that raises LinAlgError: one that says which matrix it was. `cores` are the numbers of dimensions
    that each of its results has for one matrix."""

    def wrap(function: Routine) -> Routine:
        def run(*operands: np.ndarray, **numbers: Any) -> Arrays:
            try:
                return (*function(*operands, **numbers), np.array(0, np.int64))
            except np.linalg.LinAlgError:
                return _one_by_one(function, cores, operands, numbers)

        return run

    return wrap


def _one_by_one(
    function: Routine, cores: tuple[int, ...], operands: tuple[np.ndarray, ...], numbers: dict[str, Any]
) -> Arrays:
    batch, worst = operands[0].shape[:-2], 0
    # Of matrices of ones on the diagonal no routine fails: their results have the shapes.
    well = [np.broadcast_to(np.eye(*item.shape[-2:], dtype=item.dtype), item.shape) for item in operands]
    results = [np.array(item) for item in function(*well, **numbers)]
    for number, place in enumerate(np.ndindex(*batch)):
        try:
            found = function(*(item[place] for item in operands), **numbers)
        except np.linalg.LinAlgError:
            shapes = (result.shape[result.ndim - core :] for result, core in zip(results, cores, strict=True))
            found, worst = tuple(np.full(shape, np.nan) for shape in shapes), number + 1
        for result, value in zip(results, found, strict=True):
            result[place] = value
    return (*results, np.array(worst, np.int64))


@_may_fail((2,))
def inverse(operand: np.ndarray) -> Arrays:
    """The inverses of matrices."""
    return (np.linalg.inv(operand),)


@_may_fail((2,))
def solve(operand: np.ndarray, right: np.ndarray) -> Arrays:
    """What the matrices times it are those on the right."""
    return (np.linalg.solve(operand, right),)


@_may_fail((2,))
def cholesky(operand: np.ndarray) -> Arrays:
    """The lower triangular factors of symmetric positive definite matrices."""
    return (np.linalg.cholesky(_symmetric(operand)),)


def determinant(operand: np.ndarray) -> Arrays:
    """The determinants of matrices."""
    return (np.asarray(np.linalg.det(operand)),)


def slogdet(operand: np.ndarray) -> Arrays:
    """The signs of determinants, and the logarithms of their sizes."""
    sign, logarithm = np.linalg.slogdet(operand)
    return np.asarray(sign), np.asarray(logarithm)


@_may_fail((2,))
def cofactors(operand: np.ndarray) -> Arrays:
    """The matrices of cofactors: det(A) times the transposed inverse, which those without an inverse have as well.

    By singular values, of A = U diag(s) V: det(U) det(V) U diag(of each s the product of the others) V.
    """
    u, s, vh = np.linalg.svd(operand)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    others = np.where(np.eye(s.shape[-1], dtype=np.bool_), 1, s[..., None, :]).prod(-1)
    return (((u * (others * sign[..., None])[..., None, :]) @ vh).astype(operand.dtype),)


def _symmetric(operand: np.ndarray) -> np.ndarray:
    """The mean of matrices and their (conjugate) transposes."""
    return operand * operand.dtype.type(0.5) + np.conj(operand.mT) * operand.dtype.type(0.5)


def qr(operand: np.ndarray, complete: bool) -> Arrays:
    """Orthonormal and upper triangular factors; with `complete` the first are square."""
    q, r = np.linalg.qr(operand, "complete" if complete else "reduced")
    return q, r


@_may_fail((2, 1, 2))
def svd(operand: np.ndarray, full: bool) -> Arrays:
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""
    u, s, vh = np.linalg.svd(operand, full)
    return u, s, vh


@_may_fail((1,))
def singular_values(operand: np.ndarray) -> Arrays:
    """Singular values in descending order."""
    return (np.linalg.svd(operand, compute_uv=False),)


@_may_fail((1, 2))
def eigh(operand: np.ndarray) -> Arrays:
    """Eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns."""
    values, vectors = np.linalg.eigh(_symmetric(operand))
    return values, vectors


@_may_fail((1,))
def eigenvalues(operand: np.ndarray) -> Arrays:
    """Eigenvalues of symmetric matrices in ascending order."""
    return (np.linalg.eigvalsh(_symmetric(operand)),)


@_may_fail((2,))
def pseudo_inverse(operand: np.ndarray, rtol: float) -> Arrays:
    """Pseudo-inverses, in which singular values up to `rtol` times the largest are taken as 0."""
    return (np.linalg.pinv(operand, rtol),)


def fourier(real: np.ndarray, imag: np.ndarray, ndim: int, norm: Any, inverse: bool) -> Arrays:
    """Fourier transforms of complex numbers over the last dimensions, or the ones back."""
    transform = np.fft.ifftn if inverse else np.fft.fftn
    found = transform(_complex(real, imag), axes=range(-ndim, 0), norm=norm)
    return found.real, found.imag


def real_fourier(operand: np.ndarray, ndim: int, norm: Any) -> Arrays:
    """Fourier transforms of real numbers over the last dimensions, of the last of which half says all."""
    found = np.fft.rfftn(operand, axes=range(-ndim, 0), norm=norm)
    return found.real, found.imag


def inverse_real_fourier(real: np.ndarray, imag: np.ndarray, ndim: int, norm: Any, size: int) -> Arrays:
    """The real numbers that have such transforms, `size` of them along the last dimension."""
    sizes = (*real.shape[real.ndim - ndim : -1], size)
    return (np.fft.irfftn(_complex(real, imag), sizes, axes=range(-ndim, 0), norm=norm),)


def _complex(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    found = np.empty(real.shape, np.result_type(real, np.complex64))
    found.real, found.imag = real, imag
    return found


def _on_pairs(function: Routine) -> Routine:
    """A routine of complex matrices as one of their real and imaginary parts, which complex results are given as."""

    def run(*operands: np.ndarray, **numbers: Any) -> Arrays:
        parts = zip(operands[::2], operands[1::2], strict=True)
        return tuple(_parts(function(*(_complex(*pair) for pair in parts), **numbers)))

    return run


def _parts(results: tuple[Any, ...]) -> Iterator[np.ndarray]:
    for result in results:
        yield from (result.real, result.imag) if result.dtype.kind == "c" else (result,)


@_may_fail((1, 2))
def _eigenpairs(operand: np.ndarray) -> Arrays:
    """Eigenvalues of matrices, and eigenvectors as columns."""
    values, vectors = np.linalg.eig(operand)
    return values, vectors


ROUTINES: dict[str, Routine] = {
    "inverse": inverse,
    "solve": solve,
    "determinant": determinant,
    "cofactors": cofactors,
    "slogdet": slogdet,
    "cholesky": cholesky,
    "qr": qr,
    "svd": svd,
    "singular_values": singular_values,
    "eigh": eigh,
    "eigenvalues": eigenvalues,
    "pseudo_inverse": pseudo_inverse,
    "fourier": fourier,
    "real_fourier": real_fourier,
    "inverse_real_fourier": inverse_real_fourier,
    "complex_inverse": _on_pairs(inverse),
    "complex_solve": _on_pairs(solve),
    "complex_slogdet": _on_pairs(slogdet),
    "complex_cholesky": _on_pairs(cholesky),
    "complex_qr": _on_pairs(qr),
    "complex_svd": _on_pairs(svd),
    "complex_eigh": _on_pairs(eigh),
    "complex_eig": _on_pairs(_eigenpairs),
}
"""All of them, by the names of the ops that they are."""


def run_routine(name: str, operands: list[np.ndarray], numbers: dict[str, Any]) -> Arrays:
    """The results of a routine; what is not finite is no reason to warn."""
    with np.errstate(all="ignore"):
        return ROUTINES[name](*operands, **numbers)
