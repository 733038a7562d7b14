"""Rows 7 and 48: NaN, infinities, zeros of both signs, subnormal, tiny and huge numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import blu
from tests.support.programs import special_cases

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
TABLES = {"unary": special_cases.UNARY, "binary": special_cases.BINARY}
NAN, INF = np.nan, np.inf


def by_function(table: str) -> dict[str, list[special_cases.Case]]:
    found: dict[str, list[special_cases.Case]] = {}
    for case in special_cases.cases(TABLES[table]):
        found.setdefault(case.function, []).append(case)
    return found


def is_right(found: float, wanted: float | bool, epsilon: float) -> bool:
    """The same number, sign of zero included; multiples of pi to rounding."""
    if isinstance(wanted, bool) or np.isnan(wanted):
        return bool(found) == wanted if isinstance(wanted, bool) else bool(np.isnan(found))
    if wanted == 0 or np.isinf(wanted):
        return found == wanted and np.signbit(found) == np.signbit(wanted)
    return bool(abs(found - wanted) <= 2 * epsilon * abs(wanted))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("table", TABLES)
def test_row_07_special_cases_are_the_array_api_standards(table: str, dtype: str) -> None:
    functions = by_function(table)
    columns = [
        [
            np.array(column, np.float64).astype(FLOATS[dtype])
            for column in zip(*(case.operands for case in cases), strict=True)
        ]
        for cases in functions.values()
    ]
    run = blu.jit(lambda rows: [getattr(blu, name)(*row) for name, row in zip(functions, rows, strict=True)])
    epsilon = float(ml_dtypes.finfo(FLOATS[dtype]).eps)
    wrong = [
        f"{case}, got {value}"
        for cases, found in zip(functions.values(), run(columns), strict=True)
        for case, value in zip(cases, np.asarray(found).astype(np.float64), strict=True)
        if not is_right(value, case.result, epsilon)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_tables_are_as_long_as_the_standards() -> None:
    counts = {table: sum(map(len, by_function(table).values())) for table in TABLES}
    assert counts["unary"] > 140 and counts["binary"] > 600


def specials(dtype: Any) -> np.ndarray:
    """Numbers of every kind, some of them twice."""
    info = ml_dtypes.finfo(dtype)
    small, tiny, huge = float(info.smallest_subnormal), float(info.tiny), float(info.max)
    row = [NAN, 1, -0.0, INF, 0.0, -INF, small, -small, NAN, huge, -huge, tiny, -tiny, -0.0, 0.0, -1, INF, 3 * small]
    return np.array(row, np.float64).astype(dtype)


def bits(array: Any) -> np.ndarray:
    array = np.ascontiguousarray(array)
    whole = array.view(f"u{array.dtype.itemsize}")
    return np.where(np.isnan(array.astype(np.float64)), np.iinfo(whole.dtype).max, whole)


@pytest.mark.parametrize("dtype", FLOATS)
def test_row_07_sort_and_argsort_keep_every_bit_and_order(dtype: str) -> None:
    x = specials(FLOATS[dtype])
    rows = np.stack([np.roll(x, 5 * shift) for shift in range(4)])
    run = blu.jit(
        lambda x: (blu.sort(x), blu.argsort(x), blu.sort(x, descending=True), blu.argsort(x, descending=True))
    )
    rising, order, falling, falling_order = map(np.asarray, run(rows))
    expected = np.argsort(rows.astype(np.float64), axis=-1, kind="stable")
    assert np.array_equal(order, expected)
    assert np.array_equal(bits(rising), bits(np.take_along_axis(rows, expected, -1)))
    keys = np.where(np.isnan(rows.astype(np.float64)), INF, -rows.astype(np.float64))
    nans_last = np.lexsort(
        (np.broadcast_to(np.arange(rows.shape[1]), rows.shape), keys, np.isnan(rows.astype(np.float64)))
    )
    assert np.array_equal(falling_order, nans_last)
    assert np.array_equal(bits(falling), bits(np.take_along_axis(rows, nans_last, -1)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_row_07_extremes_comparisons_and_sums_are_numpys(dtype: str) -> None:
    x = specials(FLOATS[dtype])
    rows = np.stack([x, np.nan_to_num(x.astype(np.float64), posinf=1, neginf=-1).astype(x.dtype), np.flip(x)])
    pairs = np.meshgrid(x, x)
    run = blu.jit(
        lambda rows, a, b: (
            [f(rows, -1) for f in (blu.max, blu.min, blu.argmax, blu.argmin, blu.sum, blu.prod)],
            [f(a, b) for f in (blu.less, blu.equal, blu.greater_equal, blu.not_equal, blu.maximum, blu.minimum)],
        )
    )
    folded, compared = run(rows, *pairs)
    wide, (a, b) = rows.astype(np.float64), [pair.astype(np.float64) for pair in pairs]
    with np.errstate(all="ignore"):
        expected = [f(wide, -1) for f in (np.max, np.min, np.argmax, np.argmin, np.sum, np.prod)]
        pointwise = [f(a, b) for f in (np.less, np.equal, np.greater_equal, np.not_equal, np.maximum, np.minimum)]
    for found, wanted in zip([*folded[:4], *compared], [*expected[:4], *pointwise], strict=True):
        np.testing.assert_array_equal(np.asarray(found).astype(wanted.dtype), wanted)
    for found, wanted in zip(folded[4:], expected[4:], strict=True):
        assert np.array_equal(np.isnan(np.asarray(found).astype(np.float64)), np.isnan(wanted))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_row_07_subnormal_numbers_are_kept(dtype: str) -> None:
    info = np.finfo(FLOATS[dtype])
    small, tiny = info.smallest_subnormal, info.tiny
    x = np.array([small, -small, 5 * small, tiny / 2, -tiny / 4, tiny - small], info.dtype)

    @blu.jit
    def f(x: Any) -> Any:
        return [
            x + x,
            x * 0.5,
            x / 2,
            blu.sqrt(blu.absolute(x)),
            -x,
            x - x * 2,
            blu.where(x > 0, x, 0),
            blu.sum(x),
            x.reshape(2, 3) @ x[:3],
        ]

    doubled, halved, divided, root, negated, differed, chosen, total, product = map(np.asarray, f(x))
    for found, wanted in (
        (doubled, x + x),
        (halved, x * info.dtype.type(0.5)),
        (divided, x / info.dtype.type(2)),
        (root, np.sqrt(np.abs(x))),
        (negated, -x),
        (differed, x - x * 2),
        (chosen, np.where(x > 0, x, 0)),
        (total, np.sum(x)),
        (product, np.zeros(2)),
    ):
        np.testing.assert_array_equal(found, wanted)


ROWS = np.array(
    [
        [-INF, -INF, -INF],
        [INF, 0, 1],
        [NAN, 0, 1],
        [-INF, 0, 1],
        [-INF, -INF, 2],
        [3e38, -3e38, 0],
        [-3e38, -3e38, -3e38],
        [1e-45, -0.0, 0],
        [INF, INF, -INF],
        [88.9, 88.9, 88.9],
    ],
    np.float32,
)


def test_row_07_softmax_of_special_rows_is_torchs() -> None:
    run = blu.jit(lambda x: (blu.softmax(x, axis=-1), blu.log_softmax(x, axis=-1), blu.logsumexp(x, axis=-1)))
    tensor = torch.tensor(ROWS)
    expected = (torch.softmax(tensor, -1), torch.log_softmax(tensor, -1), torch.logsumexp(tensor, -1))
    for found, wanted in zip(run(ROWS), expected, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=3e-7, atol=1e-45)


def test_row_07_attention_to_nothing_is_zero() -> None:
    q = np.random.default_rng(0).standard_normal((1, 2, 8)).astype(np.float32)
    hidden = np.array([[False, False], [True, False]])
    found = np.asarray(blu.attention(q, q, q, mask=hidden))
    assert not found[0, 0].any() and np.allclose(found[0, 1], q[0, 0])


POINTS = (5e-324, 1e-310, 1e-45, 1e-40, 1.2e-38, 1e-30, 1e-20, 1e-10, 1e-8, 1e-7, 1e-6, 1e-4, 1e-3, 0.1, 0.3, 0.5)


def ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the exact value, which is given in more digits."""
    unit = np.spacing(np.abs(exact.astype(found.dtype)))
    return np.abs(found.astype(np.longdouble) - exact) / unit


@pytest.mark.parametrize(("dtype", "largest"), [(np.float32, 88.5), (np.float64, 709.5)])
def test_row_48_log1p_and_expm1_are_right_at_tiny_and_huge_numbers(dtype: Any, largest: float) -> None:
    near = np.unique(np.array([sign * value for sign in (1, -1) for value in POINTS], dtype))
    far = np.array([1, 3, 17, 1e5, 1e20, 3e38], dtype)
    log_points = np.concatenate([near, far, np.array([-0.9, -0.999999], dtype)])
    exp_points = np.concatenate([near, np.array([1, 3, 20, 50, largest, -1, -3, -20, -90, -800], dtype)])
    logs, exps = map(np.asarray, blu.jit(lambda x, y: (blu.log1p(x), blu.expm1(y)))(log_points, exp_points))
    assert ulps(logs, np.log1p(log_points.astype(np.longdouble))).max() <= 2
    assert ulps(exps, np.expm1(exp_points.astype(np.longdouble))).max() <= 2
    assert not np.signbit(logs[log_points > 0]).any() and np.array_equal(np.signbit(exps), np.signbit(exp_points))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_48_logsumexp_is_right_at_tiny_and_huge_numbers(dtype: Any) -> None:
    huge = float(np.finfo(dtype).max) / 2
    rows = [[huge, huge], [-huge, -huge], [huge, -huge], [1e-30, -1e-30], [1000, 1000.5], [-1000, -1001], [0.0, -800]]
    rows += [[1e4, 0], [-3, -0.05], [20, 1], [710, 709], [88.7, 88.8]]
    x = np.array(rows, dtype)
    wide = x.astype(np.longdouble)
    largest = wide.max(axis=1, keepdims=True)
    exact = (largest + np.log(np.exp(wide - largest).sum(axis=1, keepdims=True)))[:, 0]
    folded, paired = map(np.asarray, blu.jit(lambda x: (blu.logsumexp(x, axis=1), blu.logaddexp(x[:, 0], x[:, 1])))(x))
    # Near a zero of the result (-3 and -0.05) the last place of the operands is what can be told apart.
    unit = np.spacing(np.maximum(np.abs(exact.astype(dtype)), dtype(0.5)))
    for found in (folded, paired):
        assert (np.abs(found.astype(np.longdouble) - exact) / unit).max() <= 2
    assert np.array_equal(np.asarray(blu.logsumexp(x[:, :1], axis=1)), x[:, 0])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_floor_division_goes_with_the_remainder_for_infinities_as_in_numpy_and_torch(dtype: str) -> None:
    """The six cases in which the array API standard has floor(x / y), each as a function and as an operator."""
    pairs = [(INF, 3), (INF, -3), (-INF, 3), (-INF, -3), (3, -INF), (-3, INF)]
    x, y = (np.array(column, FLOATS[dtype]) for column in zip(*pairs, strict=True))
    found = blu.jit(lambda x, y: (blu.floor_divide(x, y), x // y, x % y))(x, y)
    with np.errstate(invalid="ignore"):
        expected, remainder = x // y, x % y
    assert np.array_equal(expected, [NAN, NAN, NAN, NAN, -1, -1], equal_nan=True)
    assert np.array_equal(torch.floor_divide(torch.tensor(x), torch.tensor(y)).numpy(), expected, equal_nan=True)
    for quotient in found[:2]:
        np.testing.assert_array_equal(np.asarray(quotient), expected)
    np.testing.assert_array_equal(np.asarray(found[2]), remainder)
