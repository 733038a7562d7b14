"""Functions whose results have as many elements as are found: NumPy's on arrays, and as many as `size` compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.errors import BluError, OutOfRangeError, ShapeError, TraceError

RNG = np.random.default_rng(5)
SHAPES = ((0,), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4), (70_001,))
A = RNG.integers(-3, 4, (4, 5)).astype(np.float32)


def flags_of(shape: tuple[int, ...], rate: float) -> np.ndarray:
    return RNG.uniform(size=shape) < rate


def filled(found: np.ndarray, size: int, fill: float) -> np.ndarray:
    """What is found, and so many more of what stands behind it."""
    rest = np.full((size - len(found), *found.shape[1:]), fill, found.dtype)
    return np.concatenate([found, rest])


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_positions_are_numpys(shape: tuple[int, ...], rate: float) -> None:
    x = flags_of(shape, rate)
    count = int(x.sum())
    expected = [np.flatnonzero(x), np.argwhere(x), *np.nonzero(x)]

    def found_by(size: int | None, fill: int) -> Callable[[Any], list[Any]]:
        options = {"size": size, "fill_value": fill}
        return lambda x: [blu.flatnonzero(x, **options), blu.argwhere(x, **options), *blu.nonzero(x, **options)]

    for one, other in zip(found_by(None, -1)(x), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    sizes = ((count, -1), (count + 3, 9))
    for found, (size, fill) in zip(blu.jit(lambda x: [found_by(*pair)(x) for pair in sizes])(x), sizes, strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, filled(other, size, fill))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.float16, ml_dtypes.bfloat16, np.float64])
def test_numbers_of_every_dtype_are_true_or_not(dtype: Any) -> None:
    x = np.array([[0, 1, 2], [-0.0, 3, 0]]).astype(dtype)
    assert blu.Array(x).flatnonzero().tolist() == [1, 2, 4]
    assert blu.jit(lambda x: x.nonzero(size=3))(x)[1].tolist() == [1, 2, 1]
    assert blu.argwhere(x, size=4).tolist() == [[0, 1], [0, 2], [1, 1], [-1, -1]]


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (2, 3, 4), (1, 33_000)])
def test_masks_keep_elements_and_slices(shape: tuple[int, ...], dtype: Any) -> None:
    x, mask = RNG.integers(0, 2, shape).astype(dtype), flags_of(shape, 0.5)
    np.testing.assert_array_equal(blu.compress(mask, x), x[mask])
    size = int(mask.sum()) + 2
    found = blu.jit(lambda mask, x: blu.compress(mask, x, size=size, fill_value=1))(mask, x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, filled(x[mask], size, 1))
    rows = {axis: flags_of((shape[axis],), 0.5) for axis in range(-1, len(shape))}
    sliced = blu.jit(
        lambda flags, x: [blu.compress(f, x, k, size=len(f) + 1) for k, f in zip(rows, flags, strict=True)]
    )
    for (axis, row), whole in zip(rows.items(), sliced(list(rows.values()), x), strict=True):
        expected = np.compress(row, x, axis)
        np.testing.assert_array_equal(blu.compress(row, x, axis), expected)
        np.testing.assert_array_equal(
            np.moveaxis(whole, axis, 0), filled(np.moveaxis(expected, axis, 0), len(row) + 1, 0)
        )


def test_gradients_of_what_a_mask_keeps_go_where_it_was() -> None:
    def loss(x: Any) -> Any:
        kept = blu.compress(x > 0, x, size=30)
        return (kept * kept).sum()

    np.testing.assert_allclose(blu.jit(blu.grad(loss))(A), np.where(A > 0, 2 * A, 0))


NAN = np.array([3, np.nan, -0.0, 1, 3, np.inf, np.nan, 0.0, 1, -np.inf], np.float32)
WITH_REPEATS = {
    "nan": NAN,
    "matrix": A,
    "one": A[:1, :1],
    "none": A[:0],
    "a number": A[0, 0],
    "bools": flags_of((9,), 0.5),
    "bytes": A.astype(np.int8),
    "halves": NAN.astype(np.float16),
    "many": RNG.integers(0, 5000, 40_001),
}


@pytest.mark.parametrize("equal_nan", [True, False])
@pytest.mark.parametrize("name", WITH_REPEATS)
def test_different_elements_are_numpys(name: str, equal_nan: bool) -> None:
    x = np.asarray(WITH_REPEATS[name])
    ask = {"return_index": True, "return_inverse": True, "return_counts": True, "equal_nan": equal_nan}
    expected = np.unique(x, **ask)
    for one, other in zip(blu.unique(x, **ask), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    count = len(expected[0])
    sizes = (count, count + 2)
    unique = blu.jit(lambda x: [blu.unique(x, **ask, size=size, fill_value=5) for size in sizes])
    for size, found in zip(sizes, unique(x), strict=True):
        values, first, inverse, counts = map(np.asarray, found)
        assert values.dtype == x.dtype and inverse.shape == x.shape
        np.testing.assert_array_equal(values, filled(expected[0], size, 5))
        np.testing.assert_array_equal(first, filled(expected[1], size, -1))
        np.testing.assert_array_equal(inverse, expected[2])
        np.testing.assert_array_equal(counts, filled(expected[3], size, 0))


def test_only_what_is_asked_of_different_elements_comes_and_the_last_again() -> None:
    x = np.array([2, 1, 2, 7])
    assert blu.jit(lambda x: blu.unique(x, size=5))(x).tolist() == [1, 2, 7, 7, 7]
    values, counts = blu.jit(lambda x: x.unique(return_counts=True, size=3))(x)
    assert values.tolist() == [1, 2, 7] and counts.tolist() == [1, 2, 1]
    assert blu.unique(A, axis=0).shape == np.unique(A, axis=0).shape


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_elements_are_repeated_by_numbers_that_are_computed(axis: int | None) -> None:
    length = A.size if axis is None else A.shape[axis]
    counts = RNG.integers(0, 4, length)
    expected = np.repeat(A, counts, axis)
    np.testing.assert_array_equal(blu.repeat(blu.Array(A), blu.Array(counts), axis), expected)
    np.testing.assert_array_equal(blu.repeat(A, tuple(counts.tolist()), axis), expected)
    total = int(counts.sum())
    found = blu.jit(lambda x, counts: x.repeat(counts + 0, axis, size=total + 2))(A, counts)
    place = axis or 0
    np.testing.assert_array_equal(np.take(found, range(total), place), expected)
    last = (A.ravel() if axis is None else A).take([-1, -1], place)
    np.testing.assert_array_equal(np.take(found, [total, total + 1], place), last)
    np.testing.assert_array_equal(
        blu.jit(lambda x, k: blu.repeat(x, k, axis, size=2 * length))(A, 2), np.repeat(A, 2, axis)
    )


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("flatnonzero", lambda x, size: blu.flatnonzero(x > 0, size=size)),
        ("nonzero", lambda x, size: blu.nonzero(x > 0, size=size)),
        ("argwhere", lambda x, size: blu.argwhere(x > 0, size=size)),
        ("compress", lambda x, size: blu.compress(x > 0, x, size=size)),
        ("unique", lambda x, size: blu.unique(x, size=size)),
        ("repeat", lambda x, size: blu.repeat(x, (x * 0).astype("i64") + 2, size=size)),
        ("bincount", lambda x, size: blu.bincount(x.astype("i64"), size=size)),
    ],
)
def test_a_size_that_is_too_small_and_one_that_lacks_are_errors(name: str, function: Callable[..., Any]) -> None:
    x = np.array([3.0, 1, 2, 5])
    with pytest.raises(IndexError, match=f"{name} .*size=3"):
        blu.jit(lambda x: function(x, 3))(x)
    with pytest.raises(BluError, match=rf"test_selecting\.py:\d+: {name}: .*\n.*size=") as caught:
        blu.jit(lambda x: function(x, None))(x)
    assert isinstance(caught.value, TraceError | ShapeError)
    with pytest.raises(ShapeError, match="size must not be negative, got -1"):
        blu.jit(lambda x: function(x, -1))(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: blu.nonzero(x[0, 0], size=1), "no dimensions"),
        (lambda x: blu.compress(x[0] > 0, x, size=1), r"a condition \[5\] is not one for all elements of \[4, 5\]"),
        (lambda x: blu.compress(x[0] > 0, x, 0, size=1), r"not one for slices along axis 0 of \[4, 5\]"),
        (lambda x: blu.unique(x, axis=0, size=1), "compared by NumPy alone"),
        (lambda x: blu.unique(x[:0], size=1), "none are different"),
        (lambda x: blu.repeat(x, x.argmax(1)[:3], 0, size=4), "one number for each element"),
        (lambda x: blu.repeat(x, (1.5,), 0), "repeats must be integers"),
        (lambda x: x[x > 0], r"blu\.compress\(mask, x, size=most\)"),
    ],
)
def test_mistakes_are_named_at_their_line(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(BluError, match=rf"(?s)test_selecting\.py:\d+: .*{message}"):
        blu.jit(function)(A)


def test_mistakes_with_arrays_are_named() -> None:
    for function in (blu.nonzero, blu.argwhere):
        with pytest.raises(ShapeError, match="no dimensions"):
            function(np.float32(1))
    with pytest.raises(ShapeError, match=r"a condition \[4\] is not one for all elements"):
        blu.compress(A[:, 0] > 0, A)
    with pytest.raises(
        OutOfRangeError, match="repeat makes more than size=8 elements, or repeats one less than 0 times"
    ):
        blu.jit(lambda x, counts: blu.repeat(x, counts, 0, size=8))(A, np.array([2, -1, 2, 1]))


def test_numpys_own_dtypes_are_sorted_as_a_whole_as_well() -> None:
    x = np.array([[3, 1], [2, 3]], np.uint16)
    assert blu.sort(x, None, descending=True).tolist() == [3, 3, 2, 1]
    assert blu.argsort(x, None, descending=True).tolist() == [0, 3, 2, 1]


def test_an_argument_that_there_is_not_is_named_as_users_know_the_function() -> None:
    """Also in compiled functions, where it was an error of another kind."""
    for call in (blu.bincount, blu.unique, blu.nonzero):
        with pytest.raises(
            TypeError, match=r"^(bincount|unique|nonzero)\(\) got an unexpected keyword argument 'minlenth'"
        ):
            (lambda x, call=call: call(x, minlenth=3))(np.array([1, 2]))
    with pytest.raises(TypeError, match="did you mean 'minlength'"):
        blu.jit(lambda x: blu.bincount(x, minlenth=3))(np.array([1, 2]))
