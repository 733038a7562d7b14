"""`blu.cond` and `blu.switch` give what the chosen function gives, in values, gradients, and in what is wrong in it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import OutOfRangeError

X = np.array([0.0, 0.5, -2.0, 3.0])


@pytest.mark.parametrize("predicate", [np.bool_(True), np.bool_(False), np.int32(-3), np.float32(0)])
def test_a_predicate_chooses(predicate: Any) -> None:
    found = blu.jit(lambda p, x: blu.cond(p, lambda x: {"a": blu.exp(x)}, lambda x: {"a": x * 2}, x))(predicate, X)
    np.testing.assert_allclose(found["a"], np.exp(X) if predicate else X * 2, rtol=1e-15)


def test_numbers_take_the_dtype_of_what_the_other_function_gives() -> None:
    program = blu.jit(lambda p, x: blu.cond(p, lambda: (1, x[0]), lambda: (x[1], 2)))
    for predicate, expected in ((True, (1, 0)), (False, (0.5, 2))):
        found = program(np.bool_(predicate), X.astype(np.float32))
        assert [item.dtype for item in found] == [np.float32] * 2
        assert tuple(map(float, found)) == expected


@pytest.mark.parametrize("index", [-7, 0, 1, 2, 3, 9])
def test_an_index_chooses_and_is_clamped(index: int) -> None:
    branches = [lambda x: x, lambda x: x + 1, lambda x: x * 5, lambda x: -x]
    found = blu.jit(lambda i, x: blu.switch(i, branches, x))(np.int32(index), X)
    np.testing.assert_array_equal(found, branches[min(max(index, 0), 3)](X))


@pytest.mark.parametrize("predicate", [True, False])
def test_the_gradient_is_that_of_the_chosen_function_alone(predicate: bool) -> None:
    """That of the other one is not a number here."""

    def loss(x: Any, w: Any, p: Any) -> Any:
        return blu.sum(blu.cond(p, lambda x: blu.sin(x) * w, lambda x: blu.sqrt(x) * blu.log(x), x))

    x = X if predicate else np.array([0.25, 1.0, 2.0, 3.0])
    dx, dw = blu.jit(blu.grad(loss, argnums=(0, 1)))(x, X, np.bool_(predicate))
    expected = np.cos(x) * X if predicate else np.log(x) / (2 * np.sqrt(x)) + 1 / np.sqrt(x)
    np.testing.assert_allclose(dx, expected, rtol=1e-13)
    np.testing.assert_allclose(dw, np.sin(x) if predicate else 0 * x, rtol=1e-13)


def test_gradients_of_gradients_of_a_choice() -> None:
    def curvature(x: Any, p: Any) -> Any:
        return blu.grad(blu.grad(lambda x: blu.cond(p, blu.sin, lambda x: x * x * x, x)))(x)

    assert np.isclose(blu.jit(curvature)(0.5, np.bool_(True)), -np.sin(0.5), rtol=1e-13)
    assert np.isclose(blu.jit(curvature)(0.5, np.bool_(False)), 3.0, rtol=1e-13)


def test_only_the_chosen_function_is_wrong() -> None:
    program = blu.jit(lambda i, x, p: blu.cond(p, lambda: x[i], lambda: x[0] * 2))
    assert float(program(np.int64(99), X, np.bool_(False))) == 0
    with pytest.raises(OutOfRangeError, match="index 99 is out of range for a dimension of size 4"):
        program(np.int64(99), X, np.bool_(True))
    divided = blu.jit(lambda n, p: blu.cond(p, lambda: blu.cond(n > 5, lambda: 7 // n, lambda: n), lambda: 7 // n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert int(divided(np.int64(0), np.bool_(True))) == 0
    with pytest.warns(RuntimeWarning, match="integer division by zero"):
        divided(np.int64(0), np.bool_(False))


def test_choices_in_steps_and_steps_in_choices() -> None:
    def largest(x: Any, p: Any) -> Any:
        maxima = blu.scan(lambda c, v: (blu.cond(v > c, lambda: v, lambda: c), c), x[0], x)[0]
        sums = blu.cond(p, lambda: blu.scan(lambda c, v: (c + v, c + v), 0.0, x)[1], lambda: x)
        return maxima, sums

    compiled = blu.jit(largest)
    for predicate in (True, False):
        maximum, sums = compiled(X, np.bool_(predicate))
        assert float(maximum) == 3.0
        np.testing.assert_allclose(sums, np.cumsum(X) if predicate else X, rtol=1e-15)


def test_it_is_called_on_arrays() -> None:
    np.testing.assert_array_equal(blu.cond(True, lambda x: x + 1, lambda x: x, X), X + 1)
    np.testing.assert_array_equal(blu.switch(1, [lambda x: x + 1, lambda x: -x], X), -X)
