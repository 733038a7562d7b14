"""x[...], take and its relatives, and sorting, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices, integer_array_indices

from blu.dialects.core.dtypes import TensorType, bool_, f32, i32
from blu.errors import BluError, DTypeError, OutOfRangeError, ShapeError, TraceError
from blu.frontend.functional import functional as blu
from tests.support.programs.traced import evaluated, traced

X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_basic_indexing_is_numpys(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    key = data.draw(basic_indices(shape, allow_newaxis=True, allow_ellipsis=True, max_dims=6))
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    expected = array[key]
    found = evaluated(lambda x: x[key], array)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=40, deadline=None)
@given(integer_array_indices(X.shape, result_shape=array_shapes(min_dims=0, max_dims=2, max_side=3)))
def test_integer_arrays_index_as_numpys(key: tuple) -> None:
    np.testing.assert_array_equal(evaluated(lambda x, *parts: x[parts], X, *key), X[key])
    np.testing.assert_array_equal(evaluated(lambda x: x[tuple(map(np.asarray, key))], X), X[key])


ROWS, COLUMNS = np.array([1, 0, -1]), np.array([[0], [2]])


@pytest.mark.parametrize(
    "key",
    [
        (0, ROWS),
        (slice(None), ROWS, 0),
        (0, slice(None), ROWS),
        (ROWS, slice(None), 1),
        (slice(1), ROWS, slice(None, None, -1)),
        (ROWS, None, COLUMNS),
        (Ellipsis, ROWS, COLUMNS),
        (slice(None), ROWS, slice(None), COLUMNS),
        (0, ROWS, None, COLUMNS),
        ([1, 0, 1],),
        (np.int64(1), Ellipsis, np.array(2)),
        (np.array([True, False]),),
        (Ellipsis, np.arange(20).reshape(4, 5) % 3 == 0),
    ],
)
def test_mixed_indices(key: tuple) -> None:
    expected = X[key]
    found = evaluated(lambda x: x[key], X)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def test_indices_known_only_at_run_time() -> None:
    index = np.array(2, np.int32)
    np.testing.assert_array_equal(evaluated(lambda x, i: x[:, i], X, index), X[:, index])
    np.testing.assert_array_equal(evaluated(lambda x, i: x[:, i, 1:], X, index), X[:, index, 1:])
    small = np.array([1, 0], np.uint8)
    np.testing.assert_array_equal(evaluated(lambda x, i: x[i], X, small), X[small])


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (2, OutOfRangeError, "index 2 is out of range for axis 0 of size 2"),
        ((0, -4), OutOfRangeError, "index -4 is out of range for axis 1 of size 3"),
        ((0,) * 5, ShapeError, "5 indices are too many"),
        ((Ellipsis, Ellipsis), ShapeError, "one Ellipsis"),
        (1.0, DTypeError, "indices must be integers"),
        (True, DTypeError, "blu.where"),
        ("x", DTypeError, "indices must be integers"),
        (slice(0, 2, 0), ShapeError, "zero"),
        (slice("a"), ShapeError, "cannot be read"),
        (np.array([0, 9]), OutOfRangeError, "index 9 is out of range for an axis of size 2"),
        (np.array([0.5]), DTypeError, "indices must be integers"),
    ],
)
def test_wrong_indices(key: Any, error: type[BluError], message: str) -> None:
    with pytest.raises(error) as raised:
        traced(lambda x: x[key], [TensorType(X.shape, f32)])
    assert message in str(raised.value)


def test_masks_say_what_to_do() -> None:
    with pytest.raises(TraceError, match=r"blu\.where"):
        traced(lambda x, mask: x[mask], [TensorType((2,), f32), TensorType((2,), bool_)])


def test_one_wrong_index_of_several_is_found_at_run_time() -> None:
    """A column beyond its row must not read the next row."""
    with pytest.raises(IndexError):
        evaluated(lambda x, i, j: x[i, j], X, np.array([0]), np.array([3]))


def test_take_and_relatives() -> None:
    indices = np.array([[1, -1], [0, 2]], np.int32)
    for axis in (None, 1, -2):
        expected = np.take(X, indices, axis)
        np.testing.assert_array_equal(evaluated(lambda x, i, axis=axis: blu.take(x, i, axis), X, indices), expected)
    along = np.array([[[[1]], [[0]], [[3]]]])
    expected = np.take_along_axis(X, along, 2)
    np.testing.assert_array_equal(evaluated(lambda x, i: blu.take_along_axis(x, i, 2), X, along), expected)
    added = evaluated(lambda x: blu.scatter_add(x, [0, 0, -1], 1.5, axis=1), X)
    expected = X.copy()
    np.add.at(expected, (slice(None), [0, 0, -1]), 1.5)
    np.testing.assert_array_equal(added, expected)
    hot = evaluated(lambda i: blu.one_hot(i, 3), np.array([0, 2, 5]))
    np.testing.assert_array_equal(hot, np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]], np.float32))
    for wrong in (lambda x: blu.take(x, [0, 2], axis=0), lambda x: blu.take_along_axis(x, np.full((1, 1, 1, 1), 9), 0)):
        with pytest.raises(OutOfRangeError, match="out of range for an axis of size 2"):
            traced(wrong, [TensorType(X.shape, f32)])


def test_windows() -> None:
    start = np.array(2, np.int32)
    found = evaluated(lambda x, i: blu.dynamic_slice(x, (0, i, 1, 0), (1, 1, 2, 5)), X, start)
    np.testing.assert_array_equal(found, X[:1, 2:3, 1:3])
    found = evaluated(lambda x, i: blu.dynamic_update_slice(x, blu.full((2, 1, 4, 5), 7), (0, i, 9, 9)), X, start)
    expected = X.copy()
    expected[:, 2] = 7
    np.testing.assert_array_equal(found, expected)


def test_sorting() -> None:
    values = np.array([[3, 1, 3, 2, 1], [0, np.nan, -1, np.inf, 0]], np.float32)
    np.testing.assert_array_equal(evaluated(blu.sort, values), np.sort(values))
    np.testing.assert_array_equal(evaluated(blu.argsort, values), np.argsort(values, kind="stable"))
    order = evaluated(lambda x: blu.argsort(x, descending=True), values)
    np.testing.assert_array_equal(order, [[0, 2, 3, 1, 4], [3, 0, 4, 2, 1]])
    top, places = evaluated(lambda x: x.top_k(3), values)
    np.testing.assert_array_equal(places, [[0, 2, 3], [3, 0, 4]])
    np.testing.assert_array_equal(top, np.take_along_axis(values, places, 1))
    flags = np.array([True, False, True])
    assert evaluated(blu.sort, flags).tolist() == [False, True, True]
    with pytest.raises(ShapeError, match=r"k must be in 0\.\.5"):
        traced(lambda x: x.top_k(6), [TensorType((2, 5), i32)])
