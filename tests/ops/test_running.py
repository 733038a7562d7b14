"""Running products, extremes and sums of exponentials: NumPy's numbers, and gradients at their hard places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.errors import DTypeError, ShapeError
from blu.passes.cpu.others import choice

RNG = np.random.default_rng(12)
SHAPES = (
    (0, 0),
    (1, 0),
    (2, 0),
    (33, 0),
    (3, 31, 1),
    (2, 0, 1),
    (17, 40, 0),
    (2, 9, 5, 1),
    (2, 3, 7, -1),
    (1, 8193, 1),
)
CUT = ((choice.LONG + choice.PIECE + 1, 0), (3, choice.LONG + 1, -1))
"""Shapes, and the axis behind them; those that are cut into pieces."""
INF = np.inf


def log_add_exp(x: np.ndarray, axis: int) -> np.ndarray:
    return np.logaddexp.accumulate(x, axis)


NUMPYS: dict[str, Callable[..., np.ndarray]] = {
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "logcumsumexp": log_add_exp,
}


def drawn(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Numbers around one, so that products stay of that size."""
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return RNG.normal(1, 0.02, shape).astype(dtype)


def check(name: str, cases: list[tuple[np.ndarray, int]], rounding: float) -> None:
    functions = blu.jit(
        lambda arrays: [getattr(blu, name)(x, axis) for x, (_, axis) in zip(arrays, cases, strict=True)]
    )
    for found, (x, axis) in zip(functions([x for x, _ in cases]), cases, strict=True):
        is_float = x.dtype.kind not in "iub"
        expected = NUMPYS[name](x.astype(np.float64) if is_float else x, axis)
        assert found.dtype == (x.dtype if is_float else expected.dtype) and found.shape == x.shape
        # Of each factor or term, half a unit of what numbers are carried in; of what is written, one of the dtype.
        slack = rounding + x.shape[axis] * np.finfo(np.float64 if x.dtype == np.float64 else np.float32).eps
        np.testing.assert_allclose(np.asarray(found, expected.dtype), expected, rtol=slack if is_float else 0)


@pytest.mark.parametrize("name", NUMPYS)
@pytest.mark.parametrize(
    ("dtype", "rounding"), [(np.float16, 2**-11), (ml_dtypes.bfloat16, 2**-8), (np.float32, 0), (np.float64, 0)]
)
def test_floats_of_all_lengths(name: str, dtype: Any, rounding: float) -> None:
    check(name, [(drawn(shape, dtype), axis) for *shape, axis in SHAPES], rounding)


@pytest.mark.parametrize("name", NUMPYS)
def test_long_rows_in_pieces(name: str) -> None:
    check(name, [(drawn(shape, np.float32), axis) for *shape, axis in CUT], 0)


@pytest.mark.parametrize("name", ["cummax", "cummin", "cumprod"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.int64])
def test_integers(name: str, dtype: Any) -> None:
    if name == "cumprod":  # as i64 or, in NumPy alone, as u64
        found = [np.asarray(blu.cumprod(drawn(shape, dtype), axis, dtype)) for *shape, axis in SHAPES[:6]]
        assert all(item.dtype == dtype for item in found)
        x = drawn((5, 4), dtype)
        np.testing.assert_array_equal(blu.cumprod(x, 0, dtype), np.cumprod(x, 0, dtype))
        return
    check(name, [(drawn(shape, dtype), axis) for *shape, axis in SHAPES], 0)


def test_no_axis_no_dimension_and_bools() -> None:
    x = drawn((3, 4), np.float32)
    for name, numpys in NUMPYS.items():
        np.testing.assert_allclose(getattr(blu, name)(x), numpys(x.ravel(), 0), rtol=1e-6)
        assert getattr(blu, name)(x[0, 0], 0).tolist() == pytest.approx(float(x[0, 0]))
    flags = np.array([False, True, False])
    assert blu.cummax(flags).tolist() == [False, True, True] and blu.cummin(~flags).tolist() == [True, False, False]
    assert blu.cummax(x[0, 0], 0, True)[1].tolist() == 0


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_positions_are_those_of_the_last_of_equals(name: str) -> None:
    better = {"cummax": np.greater_equal, "cummin": np.less_equal}[name]
    x = RNG.integers(-3, 4, (5, 23)).astype(np.float32)
    x[1, 7] = x[1, 9] = np.nan
    values, places = blu.jit(lambda x: getattr(blu, name)(x, 1, return_indices=True))(x)
    for row, found, where in zip(x, np.asarray(values), np.asarray(places), strict=True):
        best = 0
        for place in range(len(row)):
            if np.isnan(row[place]) or better(row[place], row[best]):
                best = place
            assert where[place] == best
            np.testing.assert_array_equal(found[place], row[best])
    turned = blu.cummax(x.T, 0, return_indices=True)[1]
    np.testing.assert_array_equal(turned.numpy().T, blu.cummax(x, -1, return_indices=True)[1])


def test_special_values() -> None:
    row = np.array([-INF, -INF, 3, -INF, 900, -900, INF, 1, INF, np.nan, 2], np.float32)
    for name, numpys in NUMPYS.items():
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(getattr(blu, name)(row, 0), numpys(row, 0), rtol=1e-6)


def test_halves_round_once_at_each_element() -> None:
    x = np.full(3000, 1.0, ml_dtypes.bfloat16)
    expected = np.log(np.arange(1, 3001)) + 1
    np.testing.assert_array_equal(blu.logcumsumexp(x).numpy(), expected.astype(x.dtype))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_gradients_of_sums_of_exponentials_have_no_overflow(scale: float, axis: int) -> None:
    x = (RNG.normal(size=(4, 57, 3)) * scale).astype(np.float32)
    x[0, :5] = x[1, 20:] = -INF
    g = RNG.normal(size=x.shape).astype(np.float32)
    g[2] = 0
    found = blu.jit(blu.grad(lambda x: (blu.logcumsumexp(x, axis) * g).sum()))(np.where(np.isinf(x), -1e30, x))
    wide, slopes = np.moveaxis(x, axis, 0).astype(np.float64), np.moveaxis(g, axis, 0)
    sums = np.logaddexp.accumulate(wide, 0)
    expected = np.zeros_like(wide)
    with np.errstate(invalid="ignore"):
        for place in range(len(wide)):
            expected[: place + 1] += np.nan_to_num(np.exp(wide[: place + 1] - sums[place])) * slopes[place]
    allowed = np.moveaxis(np.isfinite(np.where(x == -INF, 0, x)), axis, 0) & (sums > -INF)
    error = np.abs(np.moveaxis(np.asarray(found), axis, 0) - expected)[allowed].max()
    assert error < 3e-6 * max(1.0, scale)  # results themselves are rounded at their size
    hidden = np.asarray(blu.jit(blu.grad(lambda x: (blu.logcumsumexp(x, axis) * g).sum()))(x))
    assert np.isfinite(hidden).all() and (hidden[x == -INF] == 0).all()


def by_rows(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(blu, name)(x, 1)


@pytest.mark.parametrize("name", [*NUMPYS, "cumsum"])
def test_derivatives_forward_and_twice_and_of_many(name: str) -> None:
    """Along directions, as differences are; the gradient's own gradient; and of slices as of each."""
    function = by_rows(name)
    x, dx = RNG.uniform(0.5, 2, (2, 3, 7))
    step = 1e-6
    _, found = blu.jit(lambda x, dx: blu.jvp(function, (x,), (dx,)))(x, dx)
    expected = (function(x + step * dx).numpy() - function(x - step * dx).numpy()) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    slope = blu.jit(blu.grad(lambda x: (function(x) ** 2).sum()))
    twice = blu.jit(blu.grad(lambda x: (blu.grad(lambda x: (function(x) ** 2).sum())(x) * dx).sum()))(x)
    expected = (slope(x + step * dx).numpy() - slope(x - step * dx).numpy()) / (2 * step)
    np.testing.assert_allclose(twice, expected, rtol=1e-6, atol=1e-7)
    stacked = np.stack([x, dx])
    np.testing.assert_array_equal(blu.jit(blu.vmap(slope))(stacked), [slope(x), slope(dx)])


def test_gradients_of_products_are_right_where_elements_are_zero() -> None:
    x = np.array([[2.0, 0.0, 3.0, 5.0], [0.0, 0.0, 2.0, 1.0], [1.0, -2.0, 0.5, 0.0]])
    found = blu.jit(blu.grad(lambda x: blu.cumprod(x, 1).sum()))(x)
    expected = np.zeros_like(x)
    for place in range(4):
        others = np.where(np.arange(4) == place, 1.0, x)
        expected[:, place] = np.cumprod(others, 1)[:, place:].sum(1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_gradients_of_extremes_go_to_where_they_come_from() -> None:
    x = np.array([[1.0, 3, 3, 2, 5], [np.nan, 1, np.nan, 9, 0]])
    g = np.array([[1.0, 2, 4, 8, 16]] * 2)
    found = blu.jit(blu.grad(lambda x: (blu.cummax(x, 1) * g).sum()))(x)
    np.testing.assert_array_equal(found, [[1, 2, 12, 0, 16], [3, 0, 28, 0, 0]])


def test_many_equal_gradients_of_halves_are_added_in_more() -> None:
    x = np.zeros(4000, np.float16)
    x[0] = 1
    found = blu.jit(blu.grad(lambda x: blu.cummax(x).astype("f32").sum()))(x)
    assert found[0].tolist() == 4000 and not found[1:].numpy().any()


def test_mistakes_are_named() -> None:
    x = drawn((3, 4), np.float32)
    for name in NUMPYS:
        with pytest.raises(ShapeError, match=rf"test_running\.py:\d+: {name}: axis 2 is out of range"):
            blu.jit(lambda x, name=name: getattr(blu, name)(x, 2))(x)
    with pytest.raises(DTypeError, match="is neither a tensor nor a number"):
        blu.jit(lambda x: blu.cummax("x"))(x)
