"""gelu and sigmoid, and their gradients, far from 0: within units in the last place, down to the smallest numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import compile_program

FLOATS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
LARGEST_EXPONENTIAL = {"f32": 88, "f64": 708, "f16": 11, "bf16": 88}


def probability(x: mp.mpf) -> mp.mpf:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def slope(x: mp.mpf) -> mp.mpf:
    return probability(x) + x * mp.npdf(x)


def logistic(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-x))


def errors(found: np.ndarray, x: np.ndarray, function: Callable[[mp.mpf], mp.mpf]) -> np.ndarray:
    """In units in the last place of the exact value; one is never less than the smallest number of the dtype."""
    info = ml_dtypes.finfo(found.dtype)
    lowest = round(np.log2(float(info.smallest_subnormal)))
    with mp.workprec(120):
        exact = [function(mp.mpf(float(item))) for item in x]
        units = [mp.mpf(2) ** max(int(mp.frexp(value)[1]) - 1 - info.nmant, lowest) for value in exact]
        found_exactly = [mp.mpf(float(item)) for item in found]
        return np.array(
            [float(abs(a - b) / unit) for a, b, unit in zip(found_exactly, exact, units, strict=True)], np.float64
        )


def lost_below_normal(x: np.ndarray, factor: Callable[[mp.mpf], mp.mpf]) -> np.ndarray:
    """What a factor of x that is subnormal, and one of the smallest numbers off, costs x / 2 times the factor."""
    tiny = float(ml_dtypes.finfo(x.dtype).smallest_normal)
    is_subnormal = np.array([abs(factor(mp.mpf(float(item)))) < 2 * tiny for item in x])
    return np.where(is_subnormal, np.abs(x.astype(np.float64)) / 2, 0)


def points(low: float, high: float, dtype: Any, count: int = 600) -> np.ndarray:
    return np.random.default_rng(0).uniform(low, high, count).astype(dtype)


@pytest.mark.parametrize(("dtype", "bound"), [("f32", 2.5), ("f64", 4), ("f16", 0.51), ("bf16", 0.51)])
def test_gelu_is_right_from_minus_40_to_40(dtype: str, bound: float) -> None:
    x = np.concatenate([points(-40, 40, FLOATS[dtype]), points(-15, 0, FLOATS[dtype])])
    found = np.asarray(blu.jit(lambda x: blu.gelu(x, "erf"))(x))
    allowed = lost_below_normal(x, lambda x: 2 * probability(x)) if dtype in ("f32", "f64") else 0
    assert (errors(found, x, lambda x: x * probability(x)) - allowed).max() <= bound


@pytest.mark.parametrize(("dtype", "bound"), [("f32", 3.5), ("f64", 4), ("f16", 0.51), ("bf16", 0.51)])
def test_the_gradient_of_gelu_is_right_from_minus_40_to_40(dtype: str, bound: float) -> None:
    """But about -0.75, where it is 0, a difference of larger numbers."""
    x = np.concatenate([points(-40, -2, FLOATS[dtype]), points(-15, -2, FLOATS[dtype]), points(0, 40, FLOATS[dtype])])
    found = np.asarray(blu.jit(blu.grad(lambda x: blu.gelu(x, "erf").sum()))(x))
    allowed = lost_below_normal(x, mp.npdf) if dtype in ("f32", "f64") else 0
    assert (errors(found, x, slope) - allowed).max() <= bound


def test_gelu_of_special_numbers_and_its_second_derivative_are_the_formulas() -> None:
    x = np.array([0.0, -0.0, np.nan, np.inf, -1e30, 1e30, 3.4e38, -41, 41, 1e-45], np.float32)
    found = np.asarray(blu.jit(lambda x: blu.gelu(x, "erf"))(x))
    np.testing.assert_array_equal(found, np.array([0, -0.0, np.nan, np.inf, 0, 1e30, 3.4e38, 0, 41, 0], np.float32))
    assert np.signbit(found[1])
    x = np.linspace(-10, 10, 81)
    twice = np.asarray(blu.jit(blu.grad(lambda x: blu.grad(lambda x: blu.gelu(x, "erf").sum())(x).sum()))(x))
    np.testing.assert_allclose(twice, (2 - x * x) * np.exp(-x * x / 2) / np.sqrt(2 * np.pi), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("dtype", "bound"), [("f32", 2), ("f64", 2), ("f16", 0.51), ("bf16", 0.51)])
def test_sigmoid_is_right_down_to_the_smallest_numbers(dtype: str, bound: float) -> None:
    largest = LARGEST_EXPONENTIAL[dtype]
    x = np.concatenate([points(-1.08 * largest, 1.08 * largest, FLOATS[dtype]), points(-30, 30, FLOATS[dtype])])
    x = np.concatenate([x, points(-1.08 * largest, -largest, FLOATS[dtype])])
    found = np.asarray(blu.jit(blu.sigmoid)(x))
    assert errors(found, x, logistic).max() <= bound
    ends = np.asarray(blu.sigmoid(np.array([-np.inf, np.inf, np.nan], FLOATS[dtype])))
    np.testing.assert_array_equal(ends.astype(np.float64), [0, 1, np.nan])


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_silu_and_the_gradient_of_sigmoid_keep_what_sigmoid_gives(dtype: str) -> None:
    """Where sigmoid is subnormal, they have its absolute error times |x|."""
    largest = LARGEST_EXPONENTIAL[dtype]
    x = points(-1.04 * largest, -0.9 * largest, FLOATS[dtype])
    value, gradient = blu.jit(lambda x: (blu.silu(x), blu.grad(lambda x: blu.sigmoid(x).sum())(x)))(x)
    assert (errors(np.asarray(value), x, lambda x: x * logistic(x)) - lost_below_normal(x, logistic)).max() <= 3
    assert errors(np.asarray(gradient), x, lambda x: logistic(x) * logistic(-x)).max() <= 3


def test_tails_on_gpus_are_those_of_their_exponentials() -> None:
    """Exponentials of f32 end at 2^-126 there, those of f64 do not."""
    x = np.concatenate([points(-12.9, 5, np.float32, 128), points(-740, -700, np.float32, 128)])
    y = x.astype(np.float64)
    program = compile_program(lambda x, y: (blu.gelu(x, "erf"), blu.sigmoid(x), blu.sigmoid(y)), x, y)
    gelu, narrow, wide = program.interpret(x, y)
    assert errors(gelu[:128], x[:128], lambda x: x * probability(x)).max() <= 2.5
    assert errors(narrow[:128], x[:128], logistic).max() <= 4 and not narrow[128:].any()
    # The interpreter rounds products of f64 before it adds to them, which costs exp about 400 units.
    with mp.workprec(120):
        exact = np.array([float(logistic(mp.mpf(float(item)))) for item in y])
    np.testing.assert_allclose(wide, exact, rtol=1e-12, atol=5e-324)
