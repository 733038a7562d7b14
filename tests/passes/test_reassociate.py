"""Sums in another order: no less exact than before, and what they save."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import blu

ROWS, COLUMNS, TERMS = 512, 384, 16


def product(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((TERMS, ROWS), (TERMS, COLUMNS)))


def norm(a: Any, b: Any) -> Any:
    return blu.sqrt(blu.sum(blu.square(a.swapaxes(0, 1) @ b)))


def test_the_norm_of_a_product_is_more_exact_than_its_squares_in_f32() -> None:
    a, b = product(0)
    exact = np.linalg.norm(a.T.astype(np.float64) @ b)
    assert float(blu.jit(norm)(a, b)) == pytest.approx(exact, rel=1e-7)


def test_the_norm_of_a_product_whose_terms_cancel() -> None:
    a, b = product(1)
    a[TERMS // 2 :], b[TERMS // 2 :] = a[: TERMS // 2], -b[: TERMS // 2]
    a[0] *= 1 + 2.0**-12
    exact = np.linalg.norm(a.T.astype(np.float64) @ b)
    assert float(blu.jit(norm)(a, b)) == pytest.approx(exact, rel=1e-5)
    b[TERMS // 2 :], a[0] = 0, 0
    b[: TERMS // 2] = 0
    assert float(blu.jit(norm)(a, b)) == 0


@functools.partial(blu.jit, donate=("p", "m"))
def update(p: Any, m: Any, a: Any, b: Any) -> tuple:
    gradient = a.swapaxes(0, 1) @ b
    size = blu.sqrt(blu.sum(blu.square(gradient)))
    m = 0.5 * m + gradient / size
    return p - m, m, size


def test_a_clipped_gradient_is_never_in_memory() -> None:
    """Two parameters are updated over themselves where the gradient is made; exact to rounding."""
    a, b = product(2)
    rng = np.random.default_rng(3)
    p, m = (rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
    program = update.trace(p, m, a, b).compile().program
    assert program.plan.arena_bytes < p.nbytes
    assert [spec.input for spec in program.outputs[:2]] == [0, 1]
    gradient = a.T.astype(np.float64) @ b
    expected_m = 0.5 * m + gradient / np.linalg.norm(gradient)
    expected_p = p - expected_m
    found_p, found_m, _ = update(p, m, a, b)
    np.testing.assert_allclose(found_m, expected_m, atol=1e-6)
    np.testing.assert_allclose(found_p, expected_p, atol=1e-6)


@functools.partial(blu.jit, donate=("x", "y"))
def crossed(x: Any, y: Any, a: Any, b: Any) -> tuple:
    made = a.swapaxes(0, 1) @ b
    return y + made, x - made


def test_results_over_each_others_operands() -> None:
    """The first result may lie over what the second one reads: everything is read before anything is written."""
    a, b = product(4)
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
    made = a.T @ b
    expected = y + made, x - made
    for found, wanted in zip(crossed(x, y, a, b), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_large_sum_of_everything_uses_all_threads() -> None:
    x = np.random.default_rng(6).standard_normal((1000, 300)).astype(np.float32)
    program = blu.jit(lambda x: blu.sum(x)).trace(x).compile().program
    assert max(launch.blocks for launch in program.plan.launches) > 1
    assert float(blu.jit(lambda x: blu.sum(x))(x)) == pytest.approx(x.astype(np.float64).sum(), abs=1e-2)


def test_gradients_of_slices_are_put_side_by_side() -> None:
    x = np.random.default_rng(7).standard_normal((4, 6)).astype(np.float32)

    def loss(x: Any) -> Any:
        return blu.sum(x[:, 4:] * 3) + blu.sum(blu.exp(x[:, :1])) + blu.sum(x[:, 1:4] * x[:, 1:4])

    found = np.asarray(blu.grad(loss)(x))
    expected = np.concatenate([np.exp(x[:, :1]), 2 * x[:, 1:4], np.full((4, 2), 3)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
