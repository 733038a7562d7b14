"""Counts, histograms and quantiles against NumPy's, on arrays and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.errors import BluError, OutOfRangeError

RNG = np.random.default_rng(6)
A = RNG.normal(size=(3, 4, 5)).astype(np.float32)
HOLES = np.where(RNG.uniform(size=(6, 9)) < 0.4, np.nan, RNG.normal(size=(6, 9)))
HOLES[0] = np.nan
METHODS = ("linear", "lower", "higher", "nearest", "midpoint")


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("length", [0, 1, 7, 1025, 60_001])
def test_integers_are_counted(length: int, dtype: Any) -> None:
    x = RNG.integers(0, 100, length).astype(dtype)
    weights = RNG.uniform(size=length)
    for found in (blu.bincount(x, minlength=3), blu.jit(lambda x: blu.bincount(x, size=120))(x)):
        expected = np.bincount(x, minlength=max(len(found), 3))
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected)
    found = blu.jit(lambda x, weights: blu.bincount(x, weights, size=100))(x, weights)
    np.testing.assert_allclose(found, np.bincount(x, weights, 100), rtol=1e-12)
    np.testing.assert_allclose(blu.bincount(x, weights), np.bincount(x, weights), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_sums_of_weights_are_in_their_dtype(dtype: Any) -> None:
    """Many of them, which a half could not add up one by one."""
    x, weights = np.repeat(np.arange(3), 3000), np.ones(9000, dtype)
    wanted = np.float64 if dtype == np.int32 else dtype
    for found in (blu.bincount(x, weights), blu.jit(lambda x, w: blu.bincount(x, w, size=3))(x, weights)):
        assert found.dtype == wanted
        np.testing.assert_array_equal(np.asarray(found, np.float64), np.full(3, 3000).astype(wanted).astype(np.float64))


def test_the_gradient_of_weights_is_that_of_their_count() -> None:
    x, slopes = np.array([2, 0, 2, 1]), np.array([1.0, 2, 4])
    found = blu.jit(blu.grad(lambda w: (blu.bincount(x, w, size=3) * slopes).sum()))(np.zeros(4))
    assert found.tolist() == [4, 1, 4, 2]


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (33,), (4, 50), (50_001,)])
def test_histograms_are_numpys(shape: tuple[int, ...], dtype: Any) -> None:
    x = RNG.uniform(0, 200, shape).astype(dtype)
    weights = RNG.uniform(size=shape)
    cases: list[dict[str, Any]] = [
        {},
        {"bins": 7, "range": (20.5, 100.25)},
        {"bins": np.array([3, 10, 10.5, 150])},
        {"bins": (5, 7)},
    ]
    found = blu.jit(lambda x: [blu.histogram(x, **case) for case in cases])(x)
    for (counts, edges), case in zip(found, cases, strict=True):
        expected, bounds = np.histogram(x, **case)
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_allclose(edges, bounds, rtol=1e-6)
        assert counts.dtype == np.int64
    summed, _ = blu.histogram(x, 4, (0, 200), weights)
    np.testing.assert_allclose(summed, np.histogram(x, 4, (0, 200), weights=weights)[0], rtol=1e-12)
    if x.size:
        dense, _ = blu.histogram(x, 4, (-10, 200), density=True)
        np.testing.assert_allclose(dense, np.histogram(x, 4, (-10, 200), density=True)[0], rtol=1e-6)


def test_equal_numbers_lie_in_the_midst_of_their_bins_and_nan_in_none() -> None:
    counts, edges = blu.histogram(np.full(5, 2.0), 4)
    assert counts.tolist() == [0, 0, 5, 0] and edges.tolist() == [1.5, 1.75, 2, 2.25, 2.5]
    assert blu.histogram(np.array([0.5, np.nan, np.inf, -1, 1]), 2, (0, 1))[0].tolist() == [0, 2]
    halves = np.array([0.1, 0.25, 0.9], np.float16)
    counts, edges = blu.histogram(halves, 2, (0, 0.5))
    assert counts.tolist() == [1, 1] and edges.dtype == np.float16


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 1), ()])
def test_quantiles_are_numpys(axis: Any, method: str) -> None:
    parts = [0.0, 0.1, 0.5, 0.77, 1.0]
    cases = [(q, axis, method, keepdims) for q in (parts, 0.3) for keepdims in (False, True)]
    for case, found in zip(cases, blu.jit(lambda x: [blu.quantile(x, *one) for one in cases])(A), strict=True):
        q, axis, method, keepdims = case
        expected = np.quantile(A.astype(np.float64), q, axis, method=method, keepdims=keepdims)
        assert found.dtype == np.float32 and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("length", [1, 2, 3, 64, 4097])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.float16, ml_dtypes.bfloat16, np.float64])
def test_medians_of_every_dtype(dtype: Any, length: int) -> None:
    x = (
        RNG.integers(0, 2, (2, length)).astype(dtype)
        if dtype == np.bool_
        else RNG.normal(0, 40, (2, length)).astype(dtype)
    )
    wide = x.astype(np.float64)
    found = blu.median(x, axis=1)
    assert found.dtype == (x.dtype if x.dtype.kind not in "iub" else np.float64)
    np.testing.assert_array_equal(found, np.median(wide, axis=1).astype(found.dtype))
    np.testing.assert_array_equal(blu.Array(x).median(), np.median(wide).astype(found.dtype))


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_nan_are_skipped_or_make_the_result_nan(axis: int | None) -> None:
    found = blu.jit(
        lambda x: [
            blu.nanmedian(x, axis),
            *(blu.nanquantile(x, [0.1, 0.6], axis, method, True) for method in METHODS),
            blu.median(x, axis),
        ]
    )(HOLES)
    expected = [
        np.nanmedian(HOLES, axis),
        *(np.nanquantile(HOLES, [0.1, 0.6], axis, method=method, keepdims=True) for method in METHODS),
        np.median(HOLES, axis),
    ]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_infinities_are_reached_only_where_they_stand() -> None:
    x = np.array([-np.inf, -np.inf, 1, 2, np.inf])
    found = blu.jit(lambda x: blu.quantile(x, [0, 0.1, 0.2, 0.5, 0.75, 0.8, 1]))(x)
    assert found.tolist() == [-np.inf, -np.inf, -np.inf, 1, 2, np.inf, np.inf]
    assert blu.median(x[:2]).tolist() == -np.inf and blu.quantile(x[1:3], 1.0).tolist() == 1


def test_parts_may_be_computed_and_have_gradients() -> None:
    x = np.array([4.0, 1, 3])
    found = blu.jit(lambda x, q: (blu.quantile(x, q), blu.grad(lambda q: blu.quantile(x, q).sum())(q)))
    values, slopes = found(x, np.array([[0.25, 0.75], [1.5, np.nan]]))
    np.testing.assert_array_equal(values, [[2, 3.5], [np.nan, np.nan]])
    np.testing.assert_allclose(slopes, [[4, 2], [0, 0]])


def test_gradients_of_the_middle_go_to_the_two_in_it() -> None:
    x = np.array([[4.0, 1, 3, 9], [1, 1, 1, 1]])
    found = np.asarray(blu.jit(blu.grad(lambda x: blu.median(x, axis=1).sum()))(x))
    assert found[0].tolist() == [0.5, 0, 0.5, 0] and found[1].sum() == 1


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.7, 2, 3, np.inf])
@pytest.mark.parametrize(
    ("left", "right"),
    [((0, 3), (4, 3)), ((1, 1), (1, 1)), ((33, 7), (65, 7)), ((3, 0), (2, 0)), ((2, 1, 5, 3), (4, 2, 3))],
)
def test_distances_are_those_of_differences(left: tuple[int, ...], right: tuple[int, ...], p: float) -> None:
    x, y = RNG.normal(size=left).astype(np.float32), RNG.normal(size=right).astype(np.float32)
    found = blu.jit(lambda x, y: blu.cdist(x, y, p))(x, y)
    apart = np.abs(x[..., :, None, :].astype(np.float64) - y[..., None, :, :])
    if not left[-1]:
        expected = apart.sum(-1)
    elif p in (0, np.inf):
        expected = apart.max(-1) if p else (apart != 0).sum(-1)
    else:
        expected = (apart**p).sum(-1) ** (1 / p)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=4e-6)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: blu.quantile(x, 1.5), "q must be from 0 to 1, got 1.5"),
        (lambda x: blu.quantile(x, [0.5, float("nan")]), "q must be from 0 to 1, got nan"),
        (lambda x: blu.quantile(x, 0.5, method="nearer"), "linear, lower, higher, nearest, midpoint, got 'nearer'"),
        (lambda x: blu.median(x[:0], axis=0), "have no elements"),
        (lambda x: blu.median(x, axis=3), "out of range"),
        (lambda x: blu.histogram(x, 0), "at least one bin"),
        (lambda x: blu.histogram(x, -1), "negative"),
        (lambda x: blu.histogram(x, 3, (1, 0)), "to one as large"),
        (lambda x: blu.histogram(x, 3, (0, float("inf"))), "finite number"),
        (lambda x: blu.histogram(x, (3, 2, 5)), "from low to high"),
        (lambda x: blu.histogram(x, [3]), "two numbers or more"),
        (lambda x: blu.histogram(x, 3, weights=x[0]), "not one for each"),
        (lambda x: blu.bincount(x, size=3), "must be integers"),
        (lambda x: blu.bincount(x.argmax(1), size=3), "one dimension"),
        (lambda x: blu.bincount(x[0].argmax(0), x[0], size=3), "not one for each"),
        (lambda x: blu.cdist(x, x[0, 0]), "takes rows of one length"),
        (lambda x: blu.cdist(x, x[..., 1:]), "takes rows of one length"),
        (lambda x: blu.cdist(x, x, -1), "p must be 0 or more"),
        (lambda x: blu.cdist(x, x, "fro"), "p must be 0 or more"),
    ],
)
def test_mistakes_are_named_at_their_line(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(BluError, match=rf"test_statistics\.py:\d+: .*{message}"):
        blu.jit(function)(A)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_other_numbers_than_are_counted_are_errors(wrong: int) -> None:
    x = np.array([0, wrong, 1])
    with pytest.raises(OutOfRangeError, match="bincount has size=3 counts"):
        blu.jit(lambda x: blu.bincount(x, size=3))(x)
    if wrong < 0:
        with pytest.raises(OutOfRangeError, match="from 0 up, and one is -1"):
            blu.bincount(x)
