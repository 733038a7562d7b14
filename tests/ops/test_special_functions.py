"""lgamma, digamma and erfinv beside many digits of mpmath's."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest

import blu

POINTS = np.concatenate(
    [
        np.linspace(-6.3, 12, 300),
        10.0 ** np.arange(-20, 20, 3),
        -(10.0 ** np.arange(-20.0, -1, 3)),
        [7.999999, 8, 171.5, 1e300, 0.5, 1, 2],
    ]
)
INSIDE = np.concatenate(
    [
        np.linspace(-0.9999999, 0.9999999, 300),
        1 - 10.0 ** np.arange(-16, -1.0),
        10.0 ** np.arange(-300, -1.0, 7),
        [0.5, -0.5, np.nextafter(0.5, 0)],
    ]
)


def _lgamma(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(abs(mpmath.gamma(x))) if x < 0 else mpmath.loggamma(x)


def digits_of(function: Callable, points: np.ndarray) -> np.ndarray:
    with mpmath.workdps(60):
        return np.array([float(function(mpmath.mpf(float(point)))) for point in points])


FUNCTIONS = {
    "lgamma": (_lgamma, POINTS, 40, lambda x: mpmath.digamma(x)),
    "digamma": (mpmath.digamma, POINTS, 20, lambda x: mpmath.polygamma(1, x)),
    "erfinv": (mpmath.erfinv, INSIDE, 12, lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(mpmath.erfinv(x) ** 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_right_to_some_units_in_the_last_place(name: str) -> None:
    """Of the larger of the result and 1, but for erfinv: of the result."""
    function, points, units, _ = FUNCTIONS[name]
    expected = digits_of(function, points)
    found = np.asarray(getattr(blu, name)(points))
    scale = np.abs(expected) if name == "erfinv" else np.maximum(np.abs(expected), 1)
    assert (np.abs(found - expected) / scale).max() < units * 2**-52
    narrow = points[np.abs(points) < 1e38].astype(np.float32)
    narrow = narrow[np.abs(narrow) < 1] if name == "erfinv" else narrow
    expected = digits_of(function, narrow)
    found = np.asarray(getattr(blu, name)(narrow)).astype(np.float64)
    fits = np.abs(expected) < np.finfo(np.float32).max
    scale = np.maximum(np.abs(expected), 1e-30 if name == "erfinv" else 1e-7)[fits]
    assert (np.abs(found - expected)[fits] / scale).max() < 2**-23


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    _, points, _, slope = FUNCTIONS[name]
    points = points[(np.abs(points) < 1 - 1e-9) & (np.abs(points) > 1e-6)] if name == "erfinv" else POINTS[::7]
    points = np.concatenate([points, [0.0]]) if name == "erfinv" else points[(np.abs(points) > 1e-3) & (points < 1e6)]
    expected = digits_of(slope, points)
    found = np.asarray(blu.grad(lambda x: blu.sum(getattr(blu, name)(x)))(points))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_special_values() -> None:
    points = np.array([0.0, -0.0, -1, -2, np.inf, np.nan])
    np.testing.assert_array_equal(blu.lgamma(points), [np.inf] * 5 + [np.nan])
    np.testing.assert_array_equal(blu.digamma(points), [-np.inf, np.inf, np.nan, np.nan, np.inf, np.nan])
    found = np.asarray(blu.erfinv(np.array([0.0, -0.0, 1, -1, 1.5, -np.inf, np.nan])))
    np.testing.assert_array_equal(found, [0, -0.0, np.inf, -np.inf, np.nan, np.nan, np.nan])
    assert np.signbit(found[1]) and blu.lgamma(-np.inf) == np.inf


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves(dtype: str) -> None:
    x = blu.asarray(np.linspace(0.1, 0.9, 9)).astype(dtype)
    wide = np.asarray(x).astype(np.float64)
    for name, (function, *_) in FUNCTIONS.items():
        found = getattr(blu, name)(x)
        assert found.dtype == x.dtype
        expected = digits_of(function, wide).astype(np.asarray(x).dtype)
        np.testing.assert_array_equal(np.asarray(found), expected)
