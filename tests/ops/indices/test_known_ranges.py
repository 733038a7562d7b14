"""Indices that are known to be inside of an axis are not checked, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu

X = np.arange(35, dtype=np.float32).reshape(7, 5)
INDICES = np.array([3, -9, 6, 0, 12], np.int32)
LARGEST = np.iinfo(np.int32).max

KNOWN: dict[str, Callable[..., Any]] = {
    "clip": lambda x, i, np: np.take(x, np.clip(i, 0, 6), axis=0),
    "from the end": lambda x, i, np: np.take(x, np.clip(i, -7, -1), axis=0),
    "maximum and minimum": lambda x, i, np: np.take(x, np.minimum(np.maximum(i, -7), 6), axis=0),
    "positions": lambda x, i, np: np.take(x, 6 - np.arange(7), axis=0),
    "where": lambda x, i, np: np.take(x, np.where(i > 0, 6, np.arange(5)), axis=0),
    "moved": lambda x, i, np: np.take(x, np.concatenate([np.clip(i, 0, 2) + 2, np.arange(5) - 7], 0).reshape(5, 2), 0),
    "truth": lambda x, i, np: np.take(x, (i > 0).astype("int32"), axis=1),
    "in the table": lambda x, i, np: np.take(x, np.take(np.arange(7), np.clip(i, 0, 6)), axis=0),
    "along": lambda x, i, np: np.take_along_axis(x[:5], np.clip(i, 0, 4).reshape(5, 1), axis=1),
    "order": lambda x, i, np: np.take_along_axis(x, np.argsort(x, axis=0), axis=0),
    "largest": lambda x, i, np: np.take(x, np.argmax(x, axis=0) - 7 + np.argmin(x, axis=0), axis=0),
}
UNKNOWN: dict[str, Callable[..., Any]] = {
    "argument": lambda x, i: blu.take(x, i, axis=0),
    "one too far": lambda x, i: blu.take(x, i.clip(0, 7), axis=0),
    "one too few": lambda x, i: blu.take(x, i.clip(-8, 6), axis=0),
    "one side": lambda x, i: blu.take(x, blu.maximum(i, 0), axis=0),
    "one way": lambda x, i: blu.take(x, blu.where(i > 0, 6, i), axis=0),
    "sum that wraps around": lambda x, i: blu.take(x, i.clip(0, 1) + LARGEST, axis=0),
    "of floats": lambda x, i: blu.take(x, x[0].clip(0, 6).astype("i32"), axis=0),
}


def _checks(function: Callable[..., Any]) -> int:
    traced = blu.jit(function).trace(blu.spec(X.shape, "f32"), blu.spec(INDICES.shape, "i32"))
    return traced.lower(stop="linalg").text.count('"plan.check"')


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_be_outside_is_checked(name: str):
    assert _checks(UNKNOWN[name]) == 1


def test_what_is_inside_is_not_checked_and_right():
    def all_of(x: Any, i: Any, library: Any = blu) -> list[Any]:
        return [function(x, i, library) for function in KNOWN.values()]

    assert _checks(lambda x, i: all_of(x, i)) == 0
    given = blu.jit(lambda x, i: all_of(x, i))(X, INDICES)
    for name, found, expected in zip(KNOWN, given, all_of(X, INDICES, np), strict=True):
        np.testing.assert_array_equal(found, expected, name)


def test_positions_of_the_largest_are_not_checked():
    def largest(x: Any, i: Any) -> Any:
        return blu.top_k(x, 2)

    assert _checks(largest) == 0
    for found, expected in zip(blu.jit(largest)(X, INDICES), (X[:, :2:-1], [[4, 3]] * 7), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_long_chain_of_ops_is_looked_through_as_far_as_it_pays():
    def steps(x: Any, i: Any, count: int) -> Any:
        place = i.clip(0, 1)
        for _ in range(count):
            place = blu.minimum(place, 6)
        return blu.take(x, place, axis=0)

    assert _checks(lambda x, i: steps(x, i, 60)) == 0
    assert _checks(lambda x, i: steps(x, i, 200)) == 1
