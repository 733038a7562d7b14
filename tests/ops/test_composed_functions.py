"""Functions composed of others against NumPy's, all in one program, and their gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.errors import BluError, ShapeError

RNG = np.random.default_rng(11)
A = RNG.uniform(-3, 3, (3, 4)).astype(np.float32)
B = RNG.uniform(-3, 3, (3, 4)).astype(np.float32)
SQUARE = RNG.uniform(-1, 1, (2, 3, 3)).astype(np.float32)
K = RNG.integers(-4, 5, (3, 4)).astype(np.int32)
SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, -np.nan, 3e38, 1e-45], np.float32)
SORTED = np.array([-2.0, -1, -1, 0, 2, np.inf, np.nan], np.float32)
HALVES = np.array([-1.0, 0, 0, 0.5, np.nan], np.float16)
SIDES = ("left", "right")
TIES = np.repeat(np.arange(6), 3)[:17]
ODD = 2 * K[::-1] + 1
NONE = np.zeros((0, 3), np.float32)
MASK = np.array([True, False, True, True])

Case = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]


def same(name: str, *arrays: np.ndarray, **options: Any) -> Case:
    """NumPy's function of the name."""
    numpys = getattr(np, name, None) or getattr(np.linalg, name)
    return (
        lambda *tensors: getattr(blu, name)(*tensors, **options),
        lambda *arrays: numpys(*arrays, **options),
        arrays,
    )


def _layer_norm(x: np.ndarray, axis: Any) -> np.ndarray:
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + np.float32(1e-5))


CASES: dict[str, list[Case]] = {
    "signs": [
        *(same(name, x) for name in ("signbit", "nan_to_num") for x in (SPECIAL, A)),
        *(same(name, x) for name in ("positive", "real", "imag", "conj") for x in (A, K)),
        same("signbit", K),
        same("nan_to_num", SPECIAL, nan=2.0, posinf=7.0, neginf=-7.0),
        same("isclose", SPECIAL, SPECIAL, equal_nan=True),
        same("isclose", A, A * np.float32(1.00002)),
    ],
    "lengths": [
        same("hypot", A, B),
        *(same("fmod", *pair) for pair in ((A, B), (K, ODD), (SPECIAL[:, None], SPECIAL), (MASK, ODD))),
        *(same("fmod", K.astype(dtype), ODD[:1].astype(dtype)) for dtype in (np.int8, np.uint8, np.float16)),
        same("allclose", A, A * np.float32(1.00002)),
        *(same("allclose", x, x, equal_nan=equal) for x in (SPECIAL, NONE) for equal in (False, True)),
        same("hypot", SPECIAL[:, None], SPECIAL),
        *(
            same("vector_norm", A, axis=axis, ord=order)
            for axis in (None, 0)
            for order in (0, 1, 2, 3, np.inf, -np.inf)
        ),
        *(same("matrix_norm", SQUARE, ord=order) for order in ("fro", 1, -1, np.inf, -np.inf)),
        same("vector_norm", A, axis=1, keepdims=True),
        same("matrix_norm", SQUARE, keepdims=True, ord=1),
        same("vecdot", A, B),
        same("vecdot", SQUARE, SQUARE[0], axis=-2),
        same("cross", SQUARE, SQUARE[0]),
        same("cross", A, B, axis=0),
    ],
    "running": [
        same("diff", A),
        same("diff", A, axis=0, n=2),
        same("diff", A, axis=0, prepend=A[:1], append=B),
        same("diff", MASK),
        same("diff", A[0], n=5),
        *(same("cumprod", x, axis=axis) for x in (A, K) for axis in (None, 0, 1)),
        same("cumprod", NONE, axis=0),
    ],
    "arranged": [
        same("roll", A, shift=(1, -2), axis=(0, 1)),
        same("roll", A, shift=3),
        same("roll", A, shift=1, axis=(0, 1)),
        same("repeat", A, repeats=2),
        same("repeat", A, repeats=(0, 3, 1), axis=0),
        same("repeat", A, repeats=[2], axis=1),
        same("meshgrid", A[0], B[1], K[0]),
        same("meshgrid", A[0], B[1], indexing="ij"),
        same("meshgrid", A[0]),
        same("unstack", A, axis=1),
        same("matrix_transpose", SQUARE),
    ],
    "searching": [
        *(same("searchsorted", SORTED, x, side=side) for x in (SPECIAL, SORTED) for side in SIDES),
        *(same("searchsorted", x, x, side=side) for x in (HALVES, MASK[1:]) for side in SIDES),
        *(same("searchsorted", SORTED[-size:], SPECIAL, side=side) for size in range(1, 7) for side in SIDES),
        *(same("searchsorted", TIES[:size], TIES - 1, side=side) for size in (8, 9, 17) for side in SIDES),
        same("searchsorted", NONE[:, 0], A),
        same("isin", K, K[:2, :2]),
        same("isin", K, K[:1, :2], invert=True),
        same("isin", A, NONE),
        *(same("count_nonzero", x, axis=axis, keepdims=True) for x in (K, MASK) for axis in (None, 0)),
    ],
    "options": [
        (lambda x: [x.sum(0), x.max(-1), x.mean(0), x.std(-1), x.argmax(0)], lambda x: [x, x, x, x * 0, 0], (A[0, 0],)),
        (lambda x: blu.einsum("kii->ik", x), lambda x: np.einsum("kii->ik", x), (SQUARE,)),
        (lambda x, y: blu.einsum("ii,jk->jk", x, y), lambda x, y: np.einsum("ii,jk->jk", x, y), (SQUARE[0], A)),
        (lambda x: blu.softmax(x, (0, 1)), lambda x: np.exp(x) / np.exp(x).sum(), (A,)),
        (lambda x: blu.softmax(x, (0, -1)), lambda x: np.exp(x) / np.exp(x).sum((0, 2), keepdims=True), (SQUARE,)),
        (lambda x: blu.softmax(x, 0), np.ones_like, (A[0, 0],)),
        (lambda x: blu.top_k(x, 2, axis=0)[0], lambda x: -np.sort(-x, 0)[:2], (A,)),
        (lambda x: blu.top_k(x, 2, largest=False)[1], lambda x: np.argsort(x, 1)[:, :2], (A,)),
        (lambda x: blu.linspace(-1, 3, 8, endpoint=False), lambda x: np.linspace(-1, 3, 8, False, dtype="f4"), (A,)),
        *(
            (lambda x, a=axis: blu.argmax(x, a, True), lambda x, a=axis: np.argmax(x, a, keepdims=True), (SQUARE,))
            for axis in (None, 1)
        ),
        (lambda x: blu.argmin(x, (2, 0)), lambda x: x.swapaxes(0, 1).reshape(3, 6).argmin(1), (SQUARE,)),
        (
            lambda x: blu.argmax(x, (0, -1), True),
            lambda x: x.swapaxes(0, 1).reshape(3, 6).argmax(1)[None, :, None],
            (SQUARE,),
        ),
        (lambda x: blu.argmax(x, ()), lambda x: np.zeros((3, 4), np.int64), (A,)),
        *(same(name, x, axis=1, dtype=np.float64) for name in ("var", "std") for x in (A, K)),
        same("var", K, dtype=np.float32),
        (
            lambda x: blu.layer_norm(x, A, B, axis=(-2, -1)),
            lambda x: _layer_norm(x, (1, 2)) * A + B,
            (np.stack([A, B]),),
        ),
        (
            lambda x: blu.layer_norm(x, A[0, :3], axis=1),
            lambda x: _layer_norm(x, 1) * A[0, :3, None],
            (np.stack([A, B]),),
        ),
        (
            lambda x: blu.rms_norm(x, eps=0.0, axis=(0, 2)),
            lambda x: x / np.sqrt((x * x).mean((0, 2), keepdims=True)),
            (SQUARE,),
        ),
        *(same(name, x, axis=None) for name in ("sort", "argsort") for x in (A, A[0, 0], A > 0, NONE)),
        (lambda x: blu.sort(x, None, descending=True), lambda x: -np.sort(-x, None), (A,)),
        same("round", A, decimals=2),
        same("round", A * 100, decimals=-1),
        same("round", K * 7, decimals=-1),
        same("round", K, decimals=2),
    ],
}


@pytest.mark.filterwarnings("ignore:variance of 1 elements")
@pytest.mark.parametrize("group", CASES)
def test_they_give_what_numpys_give(group: str) -> None:
    cases = CASES[group]
    found = blu.jit(lambda rows: [case[0](*row) for case, row in zip(cases, rows, strict=True)], name=group)(
        [list(case[2]) for case in cases]
    )
    for number, (case, results) in enumerate(zip(cases, found, strict=True)):
        with np.errstate(all="ignore"):
            expected = case[1](*case[2])
        if not isinstance(expected, list | tuple):
            results, expected = [results], [expected]
        for one, other in zip(results, expected, strict=True):
            message = f"case {number}"
            assert one.shape == np.shape(other), message
            assert one.dtype == np.asarray(other).dtype, message
            np.testing.assert_allclose(np.asarray(one), other, rtol=2e-6, atol=2e-6, err_msg=message)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_nextafter_is_exact(dtype: Any) -> None:
    """All halves, and floats of random bits with their extremes, towards both infinities and zero."""
    wide = np.dtype(dtype).itemsize
    bits = np.dtype(f"u{wide}")
    ends = np.array([np.inf, -np.inf, 0.0, np.nan, 1.0], dtype)
    if wide == 2:
        x = np.arange(2**16, dtype=np.uint16).view(dtype)
    else:
        limits = np.finfo(dtype)
        extremes = np.array([0, limits.smallest_subnormal, limits.tiny, limits.max, np.inf, 1, 2, np.nan], dtype)
        x = RNG.integers(0, 2 ** (8 * wide) - 1, 20_000, bits).view(dtype)
        scales = (2.0 ** np.arange(limits.minexp - limits.nmant, limits.maxexp)).astype(dtype)
        x = np.concatenate([x, extremes, -extremes, scales, -scales])
    found = np.asarray(blu.jit(blu.nextafter)(x[:, None], ends))
    with np.errstate(all="ignore"):
        expected = np.where(
            x[:, None] == ends, ends, np.nextafter(x[:, None], ends)
        )  # NumPy's half of -0 towards 0 is -0
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found.view(bits)[numbers], expected.view(bits)[numbers])
    assert np.isnan(found[np.isnan(expected)]).all()


def test_gradients_are_those_of_differences() -> None:
    def loss(x: Any) -> Any:
        parts = (
            blu.hypot(x, x[::-1] + 1),
            blu.fmod(x * 3, x[::-1] + 0.3),
            *(blu.cdist(x, x[::-1] * 2, p) for p in (1, 2, 3, 0.5, np.inf)),
            blu.quantile(x, [0.2, 0.5, 1], axis=0),
            blu.median(x * x),
            blu.cumprod(x, 1),
            blu.diff(x, n=2),
            blu.vector_norm(x, axis=1),
            blu.matrix_norm(x, ord=1),
            blu.cross(x, x[::-1] * 2),
            blu.repeat(x, (2, 0, 1), axis=0),
            blu.softmax(x, (0, 1)),
            blu.layer_norm(x, x * x, x, axis=(0, 1)),
            blu.rms_norm(x, axis=0),
            blu.einsum("ii->i", x),
        )
        return sum(((index + 1) * part * part).sum() for index, part in enumerate(parts))

    x = RNG.uniform(0.5, 2, (3, 3))
    found = np.asarray(blu.jit(blu.grad(loss))(x))
    value, step = blu.jit(loss), 1e-6
    for place in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        slope = (float(value(x + moved)) - float(value(x - moved))) / (2 * step)
        assert found[place] == pytest.approx(slope, rel=1e-5)


def test_gradients_where_roots_and_products_have_none() -> None:
    """At zero: of norms it is 0, and of running products with zeros in them it is finite and right."""
    zero = np.zeros((2, 3))
    norms = blu.jit(blu.grad(lambda x: blu.vector_norm(x, axis=1).sum() + blu.hypot(x, x).sum()))(zero)
    np.testing.assert_array_equal(norms, zero)
    for order in (0, 0.5, 1, 1.5, 2, 3, np.inf):
        np.testing.assert_array_equal(blu.jit(blu.grad(lambda x, p=order: blu.cdist(x, x[:1], p).sum()))(zero), zero)
    x = np.array([2.0, 0.0, 3.0])
    np.testing.assert_allclose(blu.jit(blu.grad(lambda x: blu.cumprod(x, 0).sum()))(x), [1.0, 2 + 6, 0.0])


def test_positions_of_what_is_true_are_as_many_as_asked_for() -> None:
    flags = np.array([0, 3, 0, 1, 1])
    found = blu.jit(lambda x: (blu.flatnonzero(x, size=3), blu.flatnonzero(x, size=5, fill_value=9)))(flags)
    assert [item.tolist() for item in found] == [[1, 3, 4], [1, 3, 4, 9, 9]]
    assert blu.jit(lambda x: blu.flatnonzero(x, size=2))(np.zeros(0)).tolist() == [-1, -1]
    with pytest.raises(IndexError, match="flatnonzero finds more than size=2 elements"):
        blu.jit(lambda x: blu.flatnonzero(x, size=2))(flags)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: blu.repeat(x, blu.argmax(x, 1), axis=0), "must be known"),
        (lambda x: blu.repeat(x, (1, 2), axis=0), "one number for each element"),
        (lambda x: blu.roll(x, (1, 2), (0, 1, 0)), "equally many axes"),
        (lambda x: blu.meshgrid(x, indexing="yx"), "xy or ij"),
        (lambda x: blu.searchsorted(x, x), "one dimension"),
        (lambda x: blu.searchsorted(x[0], x, side="up"), "left or right"),
        (lambda x: blu.cross(x, x), "three elements"),
        (lambda x: blu.vecdot(x, x[:, :2]), "different sizes"),
        (lambda x: blu.matrix_norm(x, ord="max"), "no norm of order"),
        (lambda x: blu.vector_norm(x, ord="fro"), "no norm of order"),
        (lambda x: blu.diff(x, n=-1), "negative"),
        (lambda x: blu.flatnonzero(x, size=-1), "negative"),
        (lambda x: blu.einsum("ii", x), "two sizes"),
        (lambda x: blu.positive(x > 0), "does not take bool"),
        (lambda x: x[0, 0].sum(axis=1), "out of range"),
        (lambda x: blu.argmax(x, (0, 2)), "out of range"),
        (lambda x: blu.argmax(x, (0, -2)), "same dimension twice"),
        (lambda x: blu.argmax(x[:0]), "no elements"),
        (lambda x: blu.var(x, dtype="i32"), "does not hold fractions"),
        (lambda x: blu.layer_norm(x, x[0], axis=(0, 1)), r"are \[3, 4\], got f32\[4\]"),
    ],
)
def test_mistakes_are_named_at_their_line(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(BluError, match=rf"test_composed_functions\.py:\d+: .*{message}"):
        blu.jit(function)(A)


def test_one_array_in_place_of_a_sequence_is_its_rows() -> None:
    """As NumPy has it; one without rows is told. It was an error about a Python condition."""
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(blu.concatenate(x), np.concatenate(x))
    np.testing.assert_array_equal(blu.jit(lambda x: blu.stack(x, 1))(x), np.stack(x, 1))
    for given in (lambda x: map(blu.sin, (x, x)), lambda x: (item for item in (x, x)), lambda x: {0: x, 1: x}.values()):
        assert blu.jit(lambda x, given=given: blu.concatenate(given(x)))(x).shape == (4, 3)
    for given, message in (
        (np.float32(3), r"takes a sequence of tensors, got f32\[\]"),
        (x[:0], "at least one tensor"),
    ):
        with pytest.raises(ShapeError, match=message):
            blu.concatenate(given)
