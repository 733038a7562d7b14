"""arange and linspace in every dtype: NumPy's numbers, and errors for what has no end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import blu

INF = math.inf
DTYPES = (None, "int32", "int64", "uint8", "int8", "float16", "float32", "float64")
RANGES: list[tuple[Any, ...]] = [
    (2.1, -2.9, -1.0),
    (0, 5, 0.5),
    (-2.5, 2.5, 0.7),
    (5, 0, -1),
    (1.9, 9.9, 1.9),
    (-3.7, 4, 1),
    (5,),
    (2.7,),
    (0, 10, 3),
    (10, 0, -3),
    (True, 5),
    (np.int64(5),),
    (np.float32(3.5),),
    (0.0, 0.0, -1.0),
    (0, 5, INF),
    (0, -5, INF),
    (0, 1e-320, 1e10),
]
LINES = [(0, 5, 4), (-1.5, 1.5, 4), (0, 1, 0), (0, 1, 1), (0, 1, 2), (0, 0.7, 8), (1, 0, 11), (0, 10, 7), (5, 2, 3)]


def same(found: Any, expected: np.ndarray, what: str) -> None:
    found = np.asarray(found)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), what
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    # NumPy takes a range's step from its first two numbers, rounded.
    error = 4 * float(np.finfo(expected.dtype).eps)
    np.testing.assert_allclose(found, expected, rtol=error, atol=8 * error, err_msg=what)


def test_ranges_are_numpys_in_every_dtype() -> None:
    cases = [(numbers, dtype) for numbers in RANGES for dtype in DTYPES if dtype != "uint8" or min(numbers[:2]) >= 0]
    results = blu.jit(lambda: [blu.arange(*numbers, dtype=dtype) for numbers, dtype in cases])()
    for (numbers, dtype), found in zip(cases, results, strict=True):
        same(found, np.arange(*numbers, dtype=dtype), f"arange{numbers} as {dtype}")


def test_evenly_spaced_numbers_are_numpys_and_end_where_asked() -> None:
    cases = [(numbers, dtype) for numbers in LINES for dtype in ("int32", "float32", "float64")]
    results = blu.jit(lambda: [blu.linspace(*numbers, dtype=dtype) for numbers, dtype in cases])()
    for (numbers, dtype), found in zip(cases, results, strict=True):
        expected = np.linspace(*numbers, dtype=dtype)
        same(found, expected, f"linspace{numbers} as {dtype}")
        assert numbers[2] < 2 or np.asarray(found)[-1] == expected[-1], f"linspace{numbers} as {dtype}"


@pytest.mark.parametrize(
    "numbers",
    [(INF,), (math.nan,), (0, 1, math.nan), (0, INF, INF), (-INF, 0), (1e300,), (0, 5, 1e-300)],
)
def test_a_range_without_an_end_is_refused(numbers: tuple[float, ...]) -> None:
    with pytest.raises(blu.BluError, match=r"arange: from .* has no end, or one too far away"):
        blu.arange(*numbers)


@pytest.mark.parametrize(("count", "message"), [(-1, "there cannot be -1 numbers"), (2.5, "integers, got 2.5")])
def test_a_count_that_is_none_is_refused(count: Any, message: str) -> None:
    with pytest.raises(blu.BluError, match=f"linspace: .*{message}"):
        blu.linspace(0, 1, count)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace_between_arrays(count: int, endpoint: bool) -> None:
    """Also between what only the run knows. They were an error about a Python condition."""
    low, high = np.array([1.0, 2, -3]), np.array([[4.0], [0.5]])
    found = blu.jit(
        lambda low, high: [
            blu.linspace(*ends, count, dtype="f64", endpoint=endpoint) for ends in ((low, high), (0, low), (high, 2.5))
        ]
    )(low, high)
    for item, ends in zip(found, ((low, high), (0, low), (high, 2.5)), strict=True):
        np.testing.assert_allclose(item, np.linspace(*ends, count, endpoint=endpoint), rtol=1e-14, atol=1e-15)
    slope = blu.grad(lambda end: blu.sum(blu.linspace(0, end, 3, dtype="f64")))(2.0)
    assert float(slope) == 1.5
