"""Sums down columns: chains, whose sums are added up in chains, so that many rows cost few digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.passes.cpu.rows.chains import CHAIN, steps_of
from blu.runtime.host import set_threads

LIMIT = 1.5e-7
ROWS = (0, 1, CHAIN - 1, CHAIN, CHAIN + 1, 5 * CHAIN + 3, CHAIN**2 + CHAIN + 1)
MANY = (16_384, 100_001)
DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8)


def _error(found: Any, expected: np.ndarray) -> float:
    """The norm of the difference, by the norm of what is right."""
    found = np.asarray(found).astype(np.float64)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def _drawn(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).random(shape) + 0.25).astype(dtype)


REDUCED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "leading": ((-1, 7), (0,)),
    "one vector": ((-1, 16), (0,)),
    "many columns": ((-1, 70), (0,)),
    "middle": ((2, -1, 5), (1,)),
    "two leading": ((-1, 3, 6), (0, 1)),
    "first of three": ((3, -1, 2), (0, 1)),
    "around a middle": ((-1, 3, 2), (0, 2)),
    "short last": ((3, -1, 3), (1, 2)),
}


@pytest.mark.parametrize("rows", MANY)
@pytest.mark.parametrize("case", REDUCED)
def test_many_rows_cost_few_digits(case: str, rows: int) -> None:
    shape, axes = REDUCED[case]
    x = _drawn(*(rows if size < 0 else size for size in shape))
    total, mean, variance = blu.jit(lambda x: (blu.sum(x, axes), blu.mean(x, axes), blu.var(x, axes)))(x)
    wide = x.astype(np.float64)
    assert _error(total, wide.sum(axes)) < LIMIT
    assert _error(mean, wide.mean(axes)) < LIMIT
    assert _error(variance, wide.var(axes)) < 2 * LIMIT


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("case", REDUCED)
def test_any_number_of_rows(case: str, rows: int) -> None:
    """In all dtypes, beside reductions that do not round: each has a kernel of its own in one program."""
    shape, axes = REDUCED[case]
    drawn = _drawn(*(rows if size < 0 else size for size in shape)) * 4
    arrays = [drawn.astype(dtype) for dtype in DTYPES]
    results = blu.jit(lambda items: [blu.sum(item, axes) for item in items])(arrays)
    for x, result in zip(arrays, results, strict=True):
        found, exact = np.asarray(result), x.astype(np.float64).sum(axes)
        if not np.issubdtype(found.dtype, np.integer):
            tolerance = {np.float32: 1e-6, np.float64: 2e-15}.get(x.dtype.type, 2**-8)
            np.testing.assert_allclose(found.astype(np.float64), exact, tolerance, err_msg=x.dtype.name)
        else:
            np.testing.assert_array_equal(found, exact.astype(np.int64).astype(found.dtype), err_msg=x.dtype.name)


@pytest.mark.parametrize("rows", [1, CHAIN + 1, CHAIN**2 + 1])
def test_products_and_extrema_in_one_program(rows: int) -> None:
    x = 1 + (_drawn(rows, 5) - 0.75) / 1000
    product, least = blu.jit(lambda x: (blu.prod(x, 0), blu.min(x, 0)))(x)
    np.testing.assert_allclose(product, x.astype(np.float64).prod(0), 1e-5)
    np.testing.assert_array_equal(least, x.min(0))


def test_nan_and_infinities_stay_what_they_are() -> None:
    x = np.zeros((3 * CHAIN, 4), np.float32)
    x[CHAIN, 0], x[CHAIN + 1, 1], x[2 * CHAIN, 2] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(blu.jit(lambda x: blu.sum(x, 0))(x), [np.nan, np.inf, -np.inf, 0])


def _norms(x: Any, weight: Any, bias: Any) -> Any:
    mean, variance = blu.mean(x, (0, 1, 2)), blu.var(x, (0, 1, 2))
    return ((x - mean) * blu.rsqrt(variance + 1e-5) * weight + bias) ** 3


PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[tuple[int, ...]]]] = {
    "sum": (lambda x: blu.sum(x, 0), [(100_001, 7)]),
    "wide": (lambda x: blu.sum(x, 0), [(3000, 700)]),
    "gradient of a norm": (blu.grad(lambda *given: _norms(*given).mean(), (0, 1, 2)), [(16, 32, 32, 24), (24,), (24,)]),
    "bias": (blu.grad(lambda bias, x: ((x + bias) ** 2).mean()), [(33,), (20_000, 33)]),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_bits_do_not_depend_on_threads(program: str) -> None:
    function, shapes = PROGRAMS[program]
    compiled, given, results = blu.jit(function), [_drawn(*shape) for shape in shapes], []
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            found = compiled(*given)
            results.append([np.asarray(item).tobytes() for item in (found if isinstance(found, tuple) else [found])])
    finally:
        set_threads(2)
    assert results[0] == results[1] == results[2]


def test_loops_of_chains_have_few_steps_each() -> None:
    assert steps_of(CHAIN, 1, CHAIN) == [1]
    assert steps_of(CHAIN + 1, 1, CHAIN) == [CHAIN, 1]
    assert steps_of(CHAIN**2 + 1, 1, CHAIN) == [CHAIN**2, CHAIN, 1]
    assert steps_of(10, CHAIN, CHAIN) == [1, 1]
    assert steps_of(100_000, 3, 0) == [1]
