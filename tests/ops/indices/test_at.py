"""`x.at[key]`, put_along_axis and masked_scatter against NumPy's assignments and `ufunc.at`, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.errors import BluError, DTypeError, OutOfRangeError, ShapeError, TraceError
from tests.support.kernels.gpu_program import compile_program

RNG = np.random.default_rng(3)
ROWS = np.array([2, 0, -1, 2, 2])
KEYS: dict[str, Any] = {
    "integer": 1,
    "integers": (-1, 2, 0),
    "slice": slice(1, 3),
    "whole": (Ellipsis,),
    "nothing": slice(2, 2),
    "strides": (slice(None, None, 2), slice(None, None, -1)),
    "last": (Ellipsis, slice(0, 1)),
    "none": (None, slice(1), None, 2),
    "rows": ROWS,
    "no_rows": np.zeros(0, int),
    "columns": (slice(None), ROWS),
    "pairs": (ROWS, ROWS[::-1] % 3),
    "apart": (ROWS, slice(1), ROWS[:, None] % 2),
    "table": np.array([[0, 1], [1, 0]]),
    "mixed": (0, slice(None), np.array([1, 1])),
    "one": np.array(1),
    "list": [0, 0, 1],
    "mask": (slice(None), np.array([True, False, True, True])),
}
UFUNCS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
UFUNCS |= {"min": np.minimum, "max": np.maximum}


def numpys(x: np.ndarray, key: Any, values: Any, how: str) -> np.ndarray:
    found = x.copy()
    if how == "set":
        found[key] = values
    else:
        UFUNCS[how].at(found, key, values)
    return found


def drawn(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Small whole numbers other than 0: their sums and products are exact in all dtypes."""
    signs = np.asarray(RNG.integers(0, 2, shape) * 2 - 1, dtype)
    return np.where(RNG.integers(0, 2, shape), 1, 2).astype(dtype) * signs


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int64, np.int8])
def test_keys_write_as_numpys(dtype: Any) -> None:
    x = drawn((3, 4, 3), dtype)
    ways = [way for way in ("set", *UFUNCS) if way != "divide" or np.dtype(dtype).kind != "i"]
    keys = KEYS.values() if dtype == np.float32 else [KEYS[name] for name in ("strides", "rows", "pairs")]
    cases = [(key, drawn(x[key].shape, dtype) if how != "max" else 1, how) for key in keys for how in ways]

    def program(x: Any, updates: list[Any]) -> list[Any]:
        return [getattr(x.at[key], how)(new) for (key, _, how), new in zip(cases, updates, strict=True)]

    found = blu.jit(program)(x, [values for _, values, _ in cases])
    for (key, values, how), one in zip(cases, found, strict=True):
        np.testing.assert_array_equal(np.asarray(one), numpys(x, key, values, how), err_msg=f"{how} at {key}")
        assert one.dtype == dtype


def test_what_is_set_stays_as_it_is_bit_by_bit() -> None:
    x, special = np.zeros(6, np.float32), np.array([-0.0, np.nan, np.inf, 1e-45], np.float32)
    at = np.array([5, 1, 1, 3])
    found = np.asarray(blu.jit(lambda x, v, i: x.at[i].set(v))(x, special, at))
    np.testing.assert_array_equal(found.view(np.int32), numpys(x, at, special, "set").view(np.int32))
    flags = np.array([True, False, True])
    places = np.array([0, 0, 1])
    found = blu.jit(lambda x, v, i: x.at[i].set(v))(flags, ~flags, places)
    np.testing.assert_array_equal(found, numpys(flags, places, ~flags, "set"))


def test_indices_of_run_time_and_many_of_them() -> None:
    x, at = drawn((7, 3), np.float64), RNG.integers(-7, 7, 100)
    values = RNG.uniform(0.9, 1.1, (100, 3))
    for how in ("set", *UFUNCS):
        found = blu.jit(lambda x, i, v, how=how: getattr(x.at[i], how)(v))(x, at, values)
        np.testing.assert_allclose(found, numpys(x, at, values, how), rtol=1e-12, err_msg=how)


def test_on_a_gpu_and_under_vmap() -> None:
    x, at = drawn((3, 7, 2), np.float32), RNG.integers(-7, 7, (3, 40))
    values = drawn((3, 40, 2), np.float32)
    for how in ("set", "multiply"):

        def program(x: Any, i: Any, v: Any, how: str = how) -> Any:
            return getattr(x.at[i], how)(v)

        expected = np.stack([numpys(*row, how) for row in zip(x, at, values, strict=True)])
        np.testing.assert_array_equal(blu.jit(blu.vmap(program))(x, at, values), expected)
        compiled = compile_program(program, x[0], at[0], values[0])
        (found,) = compiled.interpret(x[0], at[0], values[0])
        np.testing.assert_array_equal(found, expected[0])


def test_masks_take_one_value_for_all_places() -> None:
    x, row = drawn((3, 4), np.float32), drawn((4,), np.float32)
    masks = (x > 0, np.array([True, False, True]), np.zeros(3, bool))
    for mask in masks:
        for values in (np.float32(5), *([row] if mask.ndim == 1 else [])):
            for how in ("set", *UFUNCS):
                found = blu.jit(lambda x, m, v, how=how: getattr(x.at[m], how)(v))(x, mask, values)
                np.testing.assert_array_equal(found, numpys(x, mask, values, how))
    with pytest.raises(ShapeError, match="not one for all places"):
        blu.jit(lambda x, m, v: x.at[m].set(v))(x, masks[0], row)
    with pytest.raises(ShapeError, match="does not fit the first dimensions"):
        blu.jit(lambda x, m: x.at[m].set(0))(x, np.ones(4, bool))
    with pytest.raises(TraceError, match="known only when the compiled function runs"):
        blu.jit(lambda x, m: x.at[m].get())(x, masks[0])


def test_arrays_have_it_as_well() -> None:
    x = drawn((3, 4), np.float32)
    array = blu.asarray(x)
    for key in (1, (slice(None), np.array([3, 0, 3])), (Ellipsis, slice(None, None, -2))):
        np.testing.assert_array_equal(array.at[key].get(), x[key])
        np.testing.assert_array_equal(array.at[key].add(2), numpys(x, key, 2, "add"))
        np.testing.assert_array_equal(blu.at(x)[key].max(0), numpys(x, key, 0, "max"))
    np.testing.assert_array_equal(array, x)


@pytest.mark.parametrize("how", ["set", "add", "subtract", "multiply", "divide", "min", "max"])
@pytest.mark.parametrize("key", [ROWS, (slice(None), 1), (slice(None, None, -2),), (ROWS, ROWS % 2)], ids=str)
def test_gradients_equal_differences(key: Any, how: str) -> None:
    x = RNG.uniform(0.5, 2, (3, 2))
    values, weights = RNG.uniform(0.5, 2, x[key].shape), RNG.uniform(-1, 1, x.shape)
    _check_gradients(
        lambda x, v: blu.sum(getattr(x.at[key], how)(v) * weights),
        lambda x, v: (numpys(x, key, v, how) * weights).sum(),
        [x, values],
    )


def _check_gradients(function: Callable[..., Any], meaning: Callable[..., Any], points: list[np.ndarray]) -> None:
    gradients = blu.jit(blu.grad(function, argnums=tuple(range(len(points)))))(*points)
    for place, gradient in enumerate(gradients):
        numeric = np.zeros_like(points[place])
        for at in np.ndindex(numeric.shape):
            step = np.zeros_like(numeric)
            step[at] = 1e-6
            ends = ([*points[:place], points[place] + s * step, *points[place + 1 :]] for s in (1, -1))
            after, before = (meaning(*end) for end in ends)
            numeric[at] = (after - before) / 2e-6
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-8)


def test_gradients_of_infinities_elsewhere_are_numbers() -> None:
    x = np.array([np.inf, 1, 2])
    at = np.array([1, 1])
    for how in ("multiply", "divide", "min", "max", "set"):
        found = blu.jit(blu.grad(lambda x, v, how=how: getattr(x.at[at], how)(v)[1:].sum(), argnums=(0, 1)))(x, x[1:])
        assert all(np.isfinite(part).all() for part in found), how


def test_an_index_outside_is_the_error_of_reading() -> None:
    x, at = np.zeros((3, 2), np.float32), np.array([0, 3])
    for how in ("set", "add", "multiply", "min"):
        with pytest.raises(OutOfRangeError, match="index 3 is out of range for an axis of size 3"):
            blu.jit(lambda x, how=how: getattr(x.at[at], how)(1))(x)
        with pytest.raises(OutOfRangeError, match="index -4 is out of range for axis 0"):
            blu.jit(lambda x, how=how: getattr(x.at[-4], how)(1))(x)
        with pytest.raises(IndexError, match="index 3 is out of range for a dimension of size 3"):
            blu.jit(lambda x, i, how=how: getattr(x.at[i], how)(1))(x, at)
        with pytest.raises(IndexError, match=r"out of (range|bounds)"):
            blu.jit(lambda x, i, how=how: getattr(x.at[0, i], how)(1))(x, at)


def test_mistakes() -> None:
    x = np.zeros((3, 2), np.float32)
    with pytest.raises(ShapeError, match=r"at: values of f32\[3\] do not broadcast to the selected shape \[2, 2\]"):
        blu.jit(lambda x, v: x.at[1:].set(v))(x, np.zeros(3, np.float32))
    with pytest.raises(DTypeError, match="only floats can be divided, got i64"):
        blu.jit(lambda x: x.at[0].divide(2))(np.arange(3))
    with pytest.raises(DTypeError, match="only floats can be divided, got i64"):
        blu.put_along_axis(np.arange(3), np.zeros(1, int), 2, how="divide")
    with pytest.raises(ShapeError, match="how must be one of add, set, subtract, multiply, power, divide, min, max"):
        blu.put_along_axis(x, np.zeros((1, 2), int), 2, 0, how="mean")
    with pytest.raises(BluError, match="3 indices are too many"):
        blu.at(x)[0, 0, 0].set(1)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_put_along_axis_is_numpys(axis: int, dtype: Any) -> None:
    x = drawn((3, 4), dtype)
    shapes = [(2, 4), (1, 1)] if axis == 0 else [(3, 5), (3, 1), (1, 2)]
    places = [RNG.integers(-x.shape[axis], x.shape[axis], shape) for shape in shapes]
    values = [drawn(shape, dtype) for shape in shapes]

    def program(x: Any, places: list[Any], values: list[Any]) -> list[Any]:
        pairs = zip(places, values, strict=True)
        return [blu.put_along_axis(x, at, new, axis) for at, part in pairs for new in (part, 7)]

    found = iter(blu.jit(program)(x, places, values))
    for at, part in zip(places, values, strict=True):
        for new in (part, 7):
            expected = x.copy()
            np.put_along_axis(expected, at, new, axis)
            np.testing.assert_array_equal(next(found), expected)


def test_put_along_axis_joins_what_falls_together() -> None:
    x, at = drawn((3, 4), np.float64), np.array([[1, 1, 0], [3, 3, 3], [0, 1, 2]])
    values = RNG.uniform(0.5, 2, at.shape)
    places = (np.arange(3)[:, None], at)
    for how in UFUNCS:
        found = blu.jit(lambda x, i, v, how=how: blu.put_along_axis(x, i, v, 1, how=how))(x, at, values)
        np.testing.assert_allclose(found, numpys(x, places, values, how), rtol=1e-14)
    with pytest.raises(IndexError, match="index 6 is out of range for a dimension of size 4"):
        blu.jit(lambda x, i: blu.put_along_axis(x, i, 0))(x, at + 3)


def test_masked_scatter_takes_values_in_order() -> None:
    x, mask = RNG.uniform(1, 2, (3, 4)), RNG.integers(0, 2, (3, 4)).astype(bool)
    scatter = blu.jit(blu.masked_scatter)
    for flags in (mask, ~mask, mask[0], np.zeros((3, 4), bool), np.ones((3, 4), bool)):
        whole = np.broadcast_to(flags, x.shape)
        values = RNG.uniform(3, 4, (6, 2))
        expected = x.copy()
        expected[whole] = values.ravel()[: whole.sum()]
        np.testing.assert_array_equal(scatter(x, flags, values), expected)
    assert scatter(np.zeros((0, 2)), np.zeros((0, 2), bool), np.zeros(0)).shape == (0, 2)
    np.testing.assert_array_equal(scatter(x, np.zeros((3, 4), bool), np.zeros(0)), x)
    for count in (0, 11):
        with pytest.raises(IndexError, match=f"masked_scatter has {count} values, fewer than the mask has places"):
            scatter(x, np.ones((3, 4), bool), np.zeros(count))

    def meaning(x: np.ndarray, values: np.ndarray) -> Any:
        found = x.copy()
        found[mask] = values[: mask.sum()]
        return (found * weights).sum()

    weights = RNG.uniform(-1, 1, x.shape)
    points = [x, RNG.uniform(3, 4, 12)]
    _check_gradients(lambda x, v: blu.sum(blu.masked_scatter(x, mask, v) * weights), meaning, points)


def test_powers_at_a_key() -> None:
    x, at = RNG.uniform(1, 2, (4, 3)), np.array([2, 0, 2])
    values = RNG.uniform(0.5, 1.5, (3, 3))
    expected = x.copy()
    np.power.at(expected, at, values)
    np.testing.assert_allclose(blu.jit(lambda x, v: x.at[at].power(v))(x, values), expected, rtol=1e-14)
    np.testing.assert_array_equal(blu.asarray([2, 3]).at[1].power(2), [2, 9])
    for how in ("power", "subtract"):
        with pytest.raises(DTypeError, match=f"bools have no {how}"):
            getattr(blu.asarray([True]).at[0], how)(1)


def test_ways_that_there_are_not_are_said() -> None:
    with pytest.raises(
        AttributeError, match=r"x.at\[key\] has no attribute 'substract': did you mean 'subtract'"
    ) as raised:
        _ = blu.asarray([1.0]).at[0].substract
    assert raised.value.__notes__ == ["It has add, set, subtract, multiply, power, divide, min, max, get."]
