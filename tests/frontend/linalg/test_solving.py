"""Linear algebra that the host computes for a program: against NumPy and PyTorch, on both targets, where it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import MatrixError, ShapeError
from blu.runtime.cuda.driver import driver as drivers
from tests.frontend.linalg.cases import CASES, Case, general, leaves, positive
from tests.support.kernels.gpu_program import compile_program
from tests.support.programs.fake_cuda import FakeDriver

LINE = __file__


def weighted(found: Any) -> Any:
    """A number of all results that are floats, in which each element counts differently."""
    parts = [(item * np.cos(np.arange(np.prod(item.shape)) + 1.0).reshape(item.shape)).sum() for item in leaves(found)]
    return sum(parts[1:], parts[0])


def weighted_in_torch(found: Any) -> torch.Tensor:
    parts = [
        (item * torch.cos(torch.arange(item.numel(), dtype=torch.float64) + 1).reshape(item.shape)).sum()
        for item in leaves(found)
    ]
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_numpys_by_hand_and_compiled(case: Case) -> None:
    expected = leaves(case.numpys(*case.arrays))
    for found in (case.ours(*case.arrays), blu.jit(case.ours)(*case.arrays)):
        for one, other in zip(leaves(found), expected, strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32_stays_float32(case: Case) -> None:
    arrays = [item.astype(np.float32) for item in case.arrays]
    for one, other in zip(leaves(blu.jit(case.ours)(*arrays)), leaves(case.numpys(*case.arrays)), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(other).max())))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_torchs(case: Case) -> None:
    places = tuple(range(len(case.arrays)))
    found = blu.jit(blu.grad(lambda *arrays: weighted(case.ours(*arrays)), argnums=places))(*case.arrays)
    tensors = [torch.tensor(item, requires_grad=True) for item in case.arrays]
    weighted_in_torch(case.torchs(*tensors)).backward()
    for one, tensor in zip(found, tensors, strict=True):
        np.testing.assert_allclose(one, tensor.grad.numpy(), rtol=1e-9, atol=1e-10)


def chain(x: Any) -> Any:
    """Kernels before, between and after what the host computes."""
    factor = blu.linalg.cholesky(x * 2.0 + blu.eye(3, dtype=x.dtype))
    return blu.exp(-blu.linalg.solve(factor, blu.swapaxes(x, -1, -2) + 1.0)) * blu.linalg.det(x)[..., None, None]


def chain_in_numpy(x: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(x * 2.0 + np.eye(3))
    return np.exp(-np.linalg.solve(factor, x.mT + 1.0)) * np.linalg.det(x)[..., None, None]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_kernels_of_a_gpu_and_the_host_take_turns(target: str) -> None:
    x = positive(2, 3, 3)
    program = compile_program(lambda x: chain(x), x, target=target)
    np.testing.assert_allclose(program.interpret(x)[0], chain_in_numpy(x), rtol=1e-10)


def test_a_gpu_waits_for_the_host_and_the_host_for_it() -> None:
    """Copies of a fake GPU are done late: what is read before, is read too early."""
    x, y = general(2, 3, 3), general(2, 3, 2)
    traced = blu.jit(lambda x, y: blu.linalg.solve(blu.linalg.inv(x), y)).trace(
        blu.spec(x.shape, "f64"), blu.spec(y.shape, "f64")
    )
    drivers.use_driver(FakeDriver({}))
    try:
        program = traced.lower("sm_90a").compile()
        for scale in (1.0, 2.0, 3.0):
            np.testing.assert_allclose(np.asarray(program(x * scale, y)), x * scale @ y, rtol=1e-10)
        found = program(x * 0, y)
        with pytest.raises(MatrixError, match="inv: matrix 1 of 2 is singular"):
            np.asarray(found)
    finally:
        drivers.use_driver(None)


def test_loops_have_the_host_compute_in_each_step() -> None:
    x = positive(3, 3)

    def newton(x: Any) -> Any:
        return blu.fori_loop(0, 5, lambda _, y: (y + blu.linalg.inv(y) @ x) * 0.5, x)

    root = np.asarray(blu.jit(newton)(x))
    np.testing.assert_allclose(root @ root, x, atol=0.05 * np.abs(x).max())
    with pytest.raises(MatrixError, match="is singular"):
        blu.jit(newton)(x * 0)


def test_slices_are_one_more_dimension_of_the_batch() -> None:
    x, y = general(4, 3, 3), np.arange(12.0).reshape(4, 3)
    found = blu.jit(blu.vmap(blu.linalg.solve))(x, y)
    np.testing.assert_allclose(found, np.linalg.solve(x, y[..., None])[..., 0], rtol=1e-12)
    one = blu.jit(blu.vmap(blu.linalg.solve, in_axes=(None, 0)))(x[0], y)
    np.testing.assert_allclose(one, np.linalg.solve(x[0], y.T).T, rtol=1e-12)


def test_of_what_is_not_chosen_nothing_fails() -> None:
    safe = blu.jit(lambda x: blu.cond(blu.linalg.det(x) != 0, blu.linalg.inv, lambda x: x, x))
    np.testing.assert_array_equal(safe(np.zeros((2, 2))), np.zeros((2, 2)))
    np.testing.assert_allclose(safe(np.eye(2) * 2), np.eye(2) / 2)


@pytest.mark.parametrize(
    ("function", "x", "sentence"),
    [
        (lambda x: blu.linalg.inv(x), np.zeros((2, 2)), "inv: the matrix is singular"),
        (lambda x: blu.linalg.solve(x, x), np.stack([np.eye(2), np.ones((2, 2))]), "solve: matrix 1 of 2 is singular"),
        (lambda x: blu.linalg.cholesky(x), -np.eye(3), "cholesky: the matrix is not positive definite"),
        (lambda x: blu.grad(lambda x: blu.linalg.slogdet(x)[1])(x), np.zeros((2, 2)), "inv: the matrix is singular"),
    ],
)
def test_what_cannot_be_computed_names_the_users_line(function: Any, x: np.ndarray, sentence: str) -> None:
    for call in (function, blu.jit(function)):
        with pytest.raises(np.linalg.LinAlgError) as raised:
            np.asarray(call(x))
        assert sentence in str(raised.value) and isinstance(raised.value, MatrixError)
    assert raised.value.location and raised.value.location.startswith(LINE)


def test_other_matrices_of_the_batch_are_not_harmed() -> None:
    """What the host gives for those that it could not do is NaN."""
    from blu.plan.routines import run_routine

    x = np.stack([np.eye(2), np.zeros((2, 2)), np.eye(2) * 4])
    found, worst = run_routine("inverse", [x], {})
    np.testing.assert_array_equal(found, [np.eye(2), np.full((2, 2), np.nan), np.eye(2) / 4])
    assert worst == 2


def test_singular_matrices_have_a_determinant_with_a_gradient() -> None:
    for x in (np.zeros((1, 1)), np.array([[1.0, 2], [2, 4]]), np.diag([3.0, 0, 2]), np.zeros((3, 3))):
        gradient = np.asarray(blu.jit(blu.grad(blu.linalg.det))(x))
        minors = [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(len(x))]
            for i in range(len(x))
        ]
        np.testing.assert_allclose(gradient, minors, atol=1e-12)


def test_second_derivatives() -> None:
    x = general(3, 3)
    for ours, torchs in ((blu.linalg.det, torch.linalg.det), (lambda x: blu.linalg.slogdet(x)[1], torch.logdet)):
        expected = torch.autograd.functional.hessian(torchs, torch.tensor(x))
        np.testing.assert_allclose(blu.jit(blu.hessian(ours))(x), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_nothing_has_an_inverse_too(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    for name in ("inv", "det", "slogdet", "cholesky"):
        found = leaves(blu.jit(getattr(blu.linalg, name))(x))
        for one, other in zip(found, leaves(getattr(np.linalg, name)(x)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert np.asarray(blu.jit(blu.grad(lambda x: blu.sum(blu.linalg.inv(x))))(x)).shape == shape


def test_integers_and_halves_are_computed_in_floats() -> None:
    whole = np.array([[2, 1], [1, 3]])
    assert np.asarray(blu.linalg.inv(whole)).dtype == np.float64
    half = np.asarray(blu.linalg.inv(whole.astype(np.float16)))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, np.linalg.inv(whole), rtol=1e-3)


def test_complex_numbers_are_numpys_by_hand() -> None:
    x = general(2, 2) + 1j * general(2, 2)
    np.testing.assert_allclose(np.asarray(blu.linalg.inv(x)), np.linalg.inv(x))
    np.testing.assert_allclose(np.asarray(blu.linalg.slogdet(x)[0]), np.linalg.slogdet(x)[0])


@pytest.mark.parametrize(
    ("function", "shapes", "sentence"),
    [
        (blu.linalg.inv, [(3,)], "inv: takes matrices, of at least two dimensions"),
        (blu.linalg.det, [(2, 3)], "det: takes square matrices"),
        (blu.linalg.solve, [(2, 3), (2,)], "solve: takes square matrices"),
        (blu.linalg.solve, [(3, 3), (2,)], "there are not as many rows"),
        (blu.linalg.solve, [(2, 3, 3), (3, 3, 1)], "do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit(function: Any, shapes: list, sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        function(*map(np.zeros, shapes))


def test_a_donated_matrix_may_be_what_is_computed_on() -> None:
    x = positive(3, 3)
    step = blu.jit(lambda x: blu.linalg.inv(x), donate=("x",))
    np.testing.assert_allclose(step(blu.asarray(x.copy())), np.linalg.inv(x), rtol=1e-12)
