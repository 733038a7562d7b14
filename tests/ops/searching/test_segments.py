"""Sums, products, means and extremes of segments, beside loops over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.errors import OutOfRangeError, ShapeError

RNG = np.random.default_rng(15)
NAMES = ("sum", "prod", "mean", "max", "min")
SIZES = ((33, 5), (0, 2), (1, 1), (1025, 700))


def _limits(dtype: Any) -> tuple[Any, Any]:
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return -np.inf, np.inf


def expected(name: str, x: np.ndarray, segments: np.ndarray, count: int) -> np.ndarray:
    empty = {"sum": 0, "prod": 1, "mean": 0, "max": _limits(x.dtype)[0], "min": _limits(x.dtype)[1]}[name]
    wide = x if name in ("max", "min") else x.astype(np.float64)
    rows = [wide[segments % count == segment] for segment in range(count)]
    fold: Callable[..., Any] = getattr(np, name)
    return np.stack([fold(own, axis=0) if len(own) else np.full(x.shape[1:], empty, wide.dtype) for own in rows])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, ml_dtypes.bfloat16, np.float32])
def test_rows_of_a_segment_are_joined(dtype: Any) -> None:
    for length, count in SIZES if dtype == np.float32 else SIZES[:1]:
        x = RNG.integers(1, 4, (length, 3)).astype(dtype)
        segments = RNG.integers(-count, count, length)

        def all_of(x: Any, segments: Any, count: int = count) -> list[Any]:
            return [getattr(blu, f"segment_{name}")(x, segments, count) for name in NAMES]

        for name, found in zip(NAMES, blu.jit(all_of)(x, segments), strict=True):
            wanted = np.float32 if name == "mean" and np.issubdtype(dtype, np.integer) else dtype
            assert (found.dtype, found.shape) == (wanted, (count, 3)), name
            answer = expected(name, x, segments, count).astype(wanted)
            np.testing.assert_allclose(found.astype(np.float64), answer.astype(np.float64), rtol=4e-3, err_msg=name)


def test_flags_are_counted() -> None:
    x, segments = np.array([True, True, False]), np.array([1, 1, 0])
    assert blu.segment_sum(x, segments, 2).tolist() == [0, 2]
    assert blu.segment_max(x, segments, 3).tolist() == [False, True, False]
    assert blu.segment_mean(x, segments, 2).dtype == np.float32


def test_gradients_go_to_the_rows_that_were_joined() -> None:
    x, segments = np.array([3.0, 2.0, 5.0, 7.0]), np.array([1, 0, 1, 2])
    weights = np.array([1.0, 10.0, 100.0])
    wanted = {
        "sum": [10, 1, 10, 100],
        "prod": [50, 1, 30, 100],
        "mean": [5, 1, 5, 100],
        "max": [0, 1, 10, 100],
        "min": [10, 1, 0, 100],
    }
    for name, slopes in wanted.items():
        join = getattr(blu, f"segment_{name}")
        found = blu.jit(blu.grad(lambda x, join=join: (join(x, segments, 3) * weights).sum()))(x)
        np.testing.assert_allclose(found, slopes, err_msg=name)


def test_nan_is_seen_in_its_segment_alone() -> None:
    x, segments = np.array([np.nan, 1.0, 2.0]), np.array([0, 0, 1])
    for name in NAMES:
        np.testing.assert_array_equal(getattr(blu, f"segment_{name}")(x, segments, 2), [np.nan, 2.0])


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_fit_is_refused(name: str) -> None:
    join = getattr(blu, f"segment_{name}")
    with pytest.raises(ShapeError, match=rf"segment_{name}: there must be the number of a segment for each row"):
        join(np.ones((3, 2)), np.array([0, 1]), 2)
    with pytest.raises(OutOfRangeError, match="index 2 is out of range"):
        join(np.ones(2), np.array([0, 2]), 2)
