"""Linear algebra of complex matrices in compiled functions: NumPy's values, PyTorch's gradients, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import BluError

RNG = np.random.default_rng(6)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


A, B, TALL, V, WEIGHTS = numbers(2, 3, 3), numbers(2, 3, 2), numbers(4, 2), numbers(3), numbers(20)
H = A @ A.conj().mT + np.eye(3)
WIDE = TALL.T.copy()
CASES: tuple[Callable[..., Any], ...] = (
    lambda m, a, h, t: [m.inv(a), m.solve(a, B), m.solve(a[0], V), m.solve(a, V), m.solve(B[:, :2], t[:2]), m.det(a)],
    lambda m, a, h, t: [*m.slogdet(a), m.cholesky(h), m.cholesky(h, upper=True), *m.qr(t), *m.qr(t, mode="complete")],
    lambda m, a, h, t: [*m.svd(t), *m.svd(t, full_matrices=False), m.svdvals(a), *m.eigh(h), m.eigvalsh(h), *m.eig(a)],
    lambda m, a, h, t: [m.eigvals(a), m.pinv(t), m.pinv(a), m.matrix_rank(a), m.norm(a), m.norm(t, 2), m.norm(t, 1)],
    lambda m, a, h, t: [m.norm(t, "nuc", keepdims=True), m.norm(a, axis=1), m.cond(a), m.cond(a, 1), m.cond(t, -2)],
    lambda m, a, h, t: [m.matrix_power(a, 3), m.matrix_power(a, -2), m.matrix_power(a, 0), m.matrix_norm(a)],
    lambda m, a, h, t: [m.inv(a[:, :0, :0]), m.det(a[:0]), m.eigvals(a[:0]), m.solve(h, a.real)],
)


def test_values_are_numpys() -> None:
    compiled = blu.jit(lambda a, h, t: [case(blu.linalg, a, h, t) for case in CASES])
    for place, (case, found) in enumerate(zip(CASES, compiled(A, H, TALL), strict=True)):
        expected = case(np.linalg, A, H, TALL)
        assert len(found) == len(expected)
        for one, other in zip(found, map(np.asarray, expected), strict=True):
            assert np.asarray(one).dtype == other.dtype, place
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12, err_msg=f"case {place}")


@pytest.mark.parametrize("rank", [2, 1])
def test_what_is_nearest_is_numpys(rank: int) -> None:
    a = TALL if rank == 2 else TALL[:, :1] @ np.array([[1.0, 2j]])
    for right in (numbers(4), numbers(4, 3), RNG.normal(size=4)):
        found, expected = blu.jit(blu.linalg.lstsq)(a, right), np.linalg.lstsq(a, right)
        np.testing.assert_allclose(found.x, expected[0], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.residuals, (abs(a @ expected[0] - right) ** 2).sum(0), rtol=1e-10)
        assert int(found.rank) == expected[2] == rank
        np.testing.assert_allclose(found.s, expected[3], rtol=1e-10, atol=1e-12)


def test_eigenvalues_of_real_matrices_are_complex() -> None:
    for dtype, wanted in ((np.float64, np.complex128), (np.float32, np.complex64), (np.int32, np.complex128)):
        turn = np.array([[0, -1], [1, 0]], dtype)
        values, vectors = blu.jit(blu.linalg.eig)(turn)
        assert values.dtype == vectors.dtype == wanted
        np.testing.assert_allclose(sorted(values.tolist(), key=lambda z: z.imag), [-1j, 1j], atol=1e-7)
        assert blu.linalg.eigvals(turn).dtype == wanted


def both(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is made of the two results of a call."""
    return lambda m, x: (lambda found: found[0] @ found[-1])(function(m, x))


GRADIENTS: tuple[tuple[np.ndarray, Callable[..., Any]], ...] = (
    *(
        (A[0], function)
        for function in (lambda m, x: m.inv(x), lambda m, x: m.det(x), lambda m, x: m.matrix_power(x, -2))
    ),
    *((A[0], lambda m, x, part=part: m.slogdet(x)[part]) for part in (0, 1)),
    *((matrix, lambda m, x, part=part: m.qr(x)[part]) for matrix in (TALL, WIDE, A[0]) for part in (0, 1)),
    *((matrix, lambda m, x: m.svd(x, full_matrices=False)[1]) for matrix in (TALL, WIDE)),
    *((matrix, lambda m, x, part=part: abs(m.svd(x)[part])[:2, :2]) for matrix in (A[0], A[1]) for part in (0, 2)),
    *((matrix, both(lambda m, x: m.svd(x, full_matrices=False))) for matrix in (TALL, WIDE)),
    *((H[0], function) for function in (lambda m, x: m.eigh(x)[0], lambda m, x: abs(m.eigh(x)[1]))),
    *((matrix, lambda m, x: m.eigvals(x)) for matrix in (A[0], A[0].real.copy())),
    (A[0], lambda m, x: abs(m.eig(x)[1])),
    *((TALL, function) for function in (lambda m, x: m.pinv(x), lambda m, x: m.norm(x, 2), lambda m, x: m.norm(x))),
    (A[0], lambda m, x: m.solve(x, x.mT @ x)),
)


def test_gradients_are_torchs() -> None:
    def gradient(x: Any, function: Any) -> Any:
        def loss(x: Any) -> Any:
            found = function(blu.linalg, x)
            return blu.sum((found * WEIGHTS[: found.size].reshape(found.shape)).real)

        return blu.grad(loss)(x)

    compiled = blu.jit(lambda xs: [gradient(x, function) for x, (_, function) in zip(xs, GRADIENTS, strict=True)])
    found = compiled([x for x, _ in GRADIENTS])
    for place, (one, (x, function)) in enumerate(zip(found, GRADIENTS, strict=True)):
        tensor = torch.tensor(x, requires_grad=True)
        result = function(torch.linalg, tensor)
        (result * torch.tensor(WEIGHTS[: result.numel()]).reshape(result.shape)).real.sum().backward()
        expected = tensor.grad.resolve_conj().numpy()
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-10, err_msg=f"case {place}")


def test_gradients_of_cholesky_are_hermitian() -> None:
    """PyTorch's are those of one triangle: the Hermitian parts are the same."""
    weights = WEIGHTS[:9].reshape(3, 3)
    found = np.asarray(blu.jit(blu.grad(lambda x: blu.sum((blu.linalg.cholesky(x) * weights).real)))(H[0]))
    tensor = torch.tensor(H[0], requires_grad=True)
    (torch.linalg.cholesky(tensor) * torch.tensor(weights)).real.sum().backward()
    expected = tensor.grad.resolve_conj().numpy()
    np.testing.assert_allclose(found, (expected + expected.conj().T) / 2, rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda a: blu.linalg.inv(0 * a), "inv: matrix 1 of 2 is singular"),
        (lambda a: blu.linalg.cholesky(-1 * (a @ a.conj().mT)), "cholesky: matrix 1 of 2 is not positive definite"),
        (lambda a: blu.linalg.inv(a[0, 0]), "inv: takes matrices"),
        (lambda a: blu.linalg.eig(a[:, :2]), "eig: takes square matrices"),
        (lambda a: blu.linalg.qr(a, mode="r"), "mode must be reduced or complete"),
        (lambda a: blu.linalg.solve(a, a[:, :2]), "not as many"),
    ],
)
def test_what_cannot_be_computed_names_function_and_line(call: Any, sentence: str) -> None:
    with pytest.raises(BluError, match=rf"(?s)test_linalg\.py:\d+: .*{sentence}"):
        np.asarray(blu.jit(lambda a: call(a))(A)[0])
