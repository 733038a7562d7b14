"""Distributions: samples against SciPy's distribution functions, shapes, dtypes, parameters that are arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import blu
from blu import random
from blu.errors import ArgumentError, DTypeError, ShapeError

COUNT = 20_000
KEY = random.key(7)

CONTINUOUS: dict[str, tuple[Callable[..., Any], Any]] = {
    "exponential": (lambda **given: random.exponential(KEY, **given), stats.expon()),
    "laplace": (lambda **given: random.laplace(KEY, **given), stats.laplace()),
    "gumbel": (lambda **given: random.gumbel(KEY, **given), stats.gumbel_r()),
    "logistic": (lambda **given: random.logistic(KEY, **given), stats.logistic()),
    "cauchy": (lambda **given: random.cauchy(KEY, **given), stats.cauchy()),
    "trunc_normal": (lambda **given: random.trunc_normal(KEY, -0.5, 2.0, **given), stats.truncnorm(-0.5, 2)),
    "far trunc_normal": (lambda **given: random.trunc_normal(KEY, 4.0, 9.0, **given), stats.truncnorm(4, 9)),
    "gamma of 0.3": (lambda **given: random.gamma(KEY, 0.3, **given), stats.gamma(0.3)),
    "gamma of 1": (lambda **given: random.gamma(KEY, 1.0, **given), stats.gamma(1)),
    "gamma of 40": (lambda **given: random.gamma(KEY, 40, **given), stats.gamma(40)),
    "beta of 0.4 and 3": (lambda **given: random.beta(KEY, 0.4, 3.0, **given), stats.beta(0.4, 3)),
    "beta of 2 and 2": (lambda **given: random.beta(KEY, 2, 2, **given), stats.beta(2, 2)),
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_have_their_distribution(name: str, dtype: str) -> None:
    """By Kolmogorov and Smirnov's test; with a fixed key a right sampler passes always."""
    draw, expected = CONTINUOUS[name]
    found = np.asarray(draw(shape=(COUNT,), dtype=dtype))
    assert found.shape == (COUNT,) and np.isfinite(found).all() and len(np.unique(found)) > 0.9 * COUNT
    assert stats.kstest(found.astype(np.float64), expected.cdf).pvalue > 1e-3
    # A shift by a twentieth of the middle half would be found.
    shifted = found + 0.05 * (expected.ppf(0.75) - expected.ppf(0.25))
    assert stats.kstest(shifted.astype(np.float64), expected.cdf).pvalue < 1e-3


@pytest.mark.parametrize("rate", [0.0, 0.1, 3.0, 9.99, 10.0, 60.0, 1e5])
def test_counts_have_their_probabilities(rate: float) -> None:
    found = np.asarray(random.poisson(KEY, rate, (COUNT,)))
    assert found.dtype == np.int32 and found.min() >= 0
    if not rate:
        assert not found.any()
        return
    expected = stats.poisson(rate)
    edges = np.unique(expected.ppf(np.linspace(0.05, 0.95, 12)))
    counts = np.histogram(found, [-0.5, *(edges + 0.5), np.inf])[0]
    shares = np.diff([0, *expected.cdf(edges), 1])
    assert stats.chisquare(counts, COUNT * shares).pvalue > 1e-3
    assert stats.chisquare(np.roll(counts, 1), COUNT * shares).pvalue < 1e-3 or len(np.unique(shares.round(2))) < 3


# Of each function one: shapes do not depend on its numbers.
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize("name", [name for name in CONTINUOUS if not name.endswith((" of 1", " of 40", " of 2 and 2"))])
def test_shapes_and_halves(name: str, shape: tuple[int, ...]) -> None:
    found = CONTINUOUS[name][0](shape=shape, dtype="bf16")
    assert found.shape == shape and str(found.dtype) == "bfloat16"


def test_parameters_may_be_arrays() -> None:
    a = np.array([[0.5], [4.0], [30.0]], np.float32)
    found = np.asarray(blu.jit(lambda key, a: random.gamma(key, a, (3, COUNT)))(KEY, a))
    for row, shape in zip(found, a[:, 0], strict=True):
        assert stats.kstest(row, stats.gamma(shape).cdf).pvalue > 1e-3
    assert random.gamma(KEY, a).shape == (3, 1) and random.beta(KEY, a, a[:, 0]).shape == (3, 3)
    rates = np.array([0.5, 20.0, -1.0, np.nan, np.inf])
    counts = np.asarray(random.poisson(KEY, rates, (COUNT, 5), "i64"))
    assert np.abs(counts[:, :2].mean(axis=0) - rates[:2]).max() < 0.15 and (counts[:, 2:] == -1).all()
    assert np.isnan(np.asarray(random.gamma(KEY, np.array([-1.0, np.nan])))).all()
    bounds = np.array([0.0, 1.0])
    drawn = np.asarray(random.trunc_normal(KEY, bounds, bounds + 1, (1000, 2)))
    assert (drawn >= bounds).all() and (drawn <= bounds + 1).all()


def test_shares_add_up_to_one() -> None:
    concentration = np.array([0.02, 0.5, 3.0])
    found = np.asarray(random.dirichlet(KEY, concentration, (COUNT,), "f64"))
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-12)
    np.testing.assert_allclose(found.mean(axis=0), concentration / concentration.sum(), atol=0.01)
    assert stats.kstest(found[:, 2], stats.beta(3, 0.52).cdf).pvalue > 1e-3
    assert random.dirichlet(KEY, np.ones((4, 2))).shape == (4, 2)


def test_choices() -> None:
    values = np.arange(10, 16)
    found = np.asarray(random.choice(KEY, values, (COUNT,)))
    assert stats.chisquare(np.bincount(found - 10)).pvalue > 1e-3
    weights = np.array([0, 1, 2, 0, 5, 2.0])
    counts = np.bincount(np.asarray(random.choice(KEY, 6, (COUNT,), probabilities=weights)), minlength=6)
    assert not counts[weights == 0].any()
    assert stats.chisquare(counts[weights > 0], COUNT * weights[weights > 0] / 10).pvalue > 1e-3
    for probabilities in (None, weights + 1):
        drawn = random.choice(KEY, values, (2, 3), replace=False, probabilities=probabilities)
        assert sorted(np.asarray(drawn).ravel()) == values.tolist()
    firsts = [int(random.choice(random.key(seed), 3, (1,), False, [1, 0, 3])[0]) for seed in range(200)]
    assert 0.6 < np.mean(np.array(firsts) == 2) < 0.9 and 1 not in firsts


def test_other_keys_give_other_numbers_and_equal_ones_the_same() -> None:
    for draw in (random.gamma, random.poisson):
        first, again, other = (np.asarray(draw(random.key(seed), 20.0, (50,))) for seed in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        assert (first != other).mean() > 0.5


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ArgumentError, match="gamma's concentration must be above 0, got 0"):
        random.gamma(KEY, 0)
    with pytest.raises(ArgumentError, match="poisson's rate must not be below 0, got -1"):
        random.poisson(KEY, -1)
    with pytest.raises(ArgumentError, match=r"trunc_normal needs low < high, got 2 and 1"):
        random.trunc_normal(KEY, 2, 1)
    with pytest.raises(DTypeError, match="of an integer dtype, not f32"):
        random.poisson(KEY, 1.0, dtype="f32")
    with pytest.raises(DTypeError, match="of a float dtype, not i32"):
        random.gumbel(KEY, dtype="i32")
    with pytest.raises(ShapeError, match=r"parameters of shape \[3\] do not broadcast to \[1\]"):
        random.gamma(KEY, np.ones(3), (1,))
    with pytest.raises(ShapeError, match="dirichlet needs a concentration for each"):
        random.dirichlet(KEY, 1.0)
    with pytest.raises(ShapeError, match="there are 3 elements, and 4 are to be drawn"):
        random.choice(KEY, 3, (4,), replace=False)
    with pytest.raises(ShapeError, match="3 elements have as many probabilities"):
        random.choice(KEY, 3, probabilities=[1, 2])
