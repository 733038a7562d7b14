"""Gradients of gamma's, beta's and dirichlet's numbers by their concentrations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import blu
from blu import random

COUNT = 20_000
KEY = random.key(3)


@pytest.mark.parametrize(("dtype", "tolerance"), [("f64", 1e-7), ("f32", 5e-7)])
def test_numbers_of_gamma_keep_their_share(dtype: str, tolerance: float) -> None:
    """The gradient is the difference of SciPy's inverse distribution functions beside the concentration."""
    row = np.array([0.01, 0.3, 0.99, 1.0, 1.5, 3, 12, 200, 1e4]).astype("float32" if dtype == "f32" else "float64")
    a = np.tile(row, (30, 1))

    def drawn(a: Any) -> tuple[Any, Any]:
        numbers = random.gamma(KEY, a, dtype=dtype)
        return numbers.sum(), numbers

    slopes, numbers = (np.asarray(item, np.float64) for item in blu.jit(blu.grad(drawn, has_aux=True))(a))
    wide, step = a.astype(np.float64), 1e-5 * a
    lower = [stats.gamma(wide + sign * step).ppf(stats.gamma(wide).cdf(numbers)) for sign in (1, -1)]
    upper = [stats.gamma(wide + sign * step).isf(stats.gamma(wide).sf(numbers)) for sign in (1, -1)]
    pairs = zip(lower, upper, strict=True)
    above, below = (np.where(numbers < wide, low, high) for low, high in pairs)
    large = numbers > 1e-30  # where SciPy's have all their digits
    np.testing.assert_allclose(slopes[large], ((above - below) / (2 * step))[large], rtol=tolerance)
    assert large.mean() > 0.9 and np.isfinite(slopes).all() and (slopes >= 0).all()


def test_logarithms_of_what_vanishes_have_gradients() -> None:
    """Beta's numbers of small concentrations are those of logarithms below all floats; one of two is all there is."""
    slopes = np.asarray(blu.grad(lambda a: random.beta(KEY, a, a, (1000,)).sum())(np.float32(1e-3)))
    assert np.isfinite(slopes)
    wrong = blu.grad(lambda a: random.gamma(KEY, a).sum())(np.array([np.nan, -1.0, 2.0]))
    assert np.isnan(np.asarray(wrong)).tolist() == [True, True, False]
    assert blu.grad(lambda a: random.gamma(KEY, a).sum())(np.zeros((0, 2))).shape == (0, 2)


def test_means_move_as_they_must() -> None:
    """The mean of log x is digamma(a) - digamma(a + b) for beta, and so for dirichlet's."""
    a, b = np.float64(0.7), np.float64(2.5)
    mean = blu.grad(lambda a, b: blu.log(random.beta(KEY, a, b, (COUNT,), "f64")).mean(), argnums=(0, 1))
    by_a, by_b = (float(item) for item in blu.jit(mean)(a, b))
    assert by_a == pytest.approx(special.polygamma(1, a) - special.polygamma(1, a + b), rel=0.05)
    assert by_b == pytest.approx(-special.polygamma(1, a + b), rel=0.05)
    given = np.array([0.5, 1.0, 4.0])
    shares = blu.jit(blu.grad(lambda a: blu.log(random.dirichlet(KEY, a, (COUNT,), "f64"))[:, 0].mean()))(given)
    expected = special.polygamma(1, given) * [1, 0, 0] - special.polygamma(1, given.sum())
    np.testing.assert_allclose(np.asarray(shares), expected, rtol=0.05)


def test_derivatives_forward_and_again() -> None:
    """The mean of x^2 is a^2 + a, whose second derivative is 2."""
    a = np.float64(1.7)
    square = lambda a: (random.gamma(KEY, a, (COUNT,), "f64") ** 2).mean()  # noqa: E731
    value, slope = (float(item) for item in blu.jit(lambda a: blu.jvp(square, (a,), (blu.ones((), "f64"),)))(a))
    assert value == pytest.approx(a * a + a, rel=0.05) and slope == pytest.approx(2 * a + 1, rel=0.05)
    first = float(blu.grad(square)(a))
    assert first == pytest.approx(slope, rel=1e-12)
    assert float(blu.grad(blu.grad(square))(a)) == pytest.approx(2, rel=0.1)
