"""The public functions called on arrays, outside of any trace: each compiles itself and runs."""

from __future__ import annotations

import numpy as np
import pytest

import blu

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_functions_run_on_arrays() -> None:
    np.testing.assert_allclose(blu.exp(X), np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(blu.add(X, 2), X + 2)
    np.testing.assert_allclose(blu.sum(X, axis=1, keepdims=True), X.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(blu.concatenate([X, X[:1]]), np.concatenate([X, X[:1]]))
    np.testing.assert_array_equal(blu.arange(5), np.arange(5))
    np.testing.assert_array_equal(blu.zeros((2, 3)), np.zeros((2, 3), np.float32))


def test_results_are_arguments_again() -> None:
    np.testing.assert_allclose(blu.log(blu.exp(X)), X, rtol=1e-5, atol=1e-6)
    first, second = blu.random.split(blu.random.key(3))
    assert not np.array_equal(blu.random.normal(first, (4,)), blu.random.normal(second, (4,)))
    np.testing.assert_array_equal(blu.random.normal(first, (4,)), blu.random.normal(first, (4,)))


def test_mistakes_raise_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="inner sizes differ"):
        blu.matmul(X, X)
    with pytest.raises(IndexError, match="index 9"):
        blu.take(X, [0, 9], axis=0)


def test_indices_out_of_range_stop_the_run() -> None:
    with pytest.raises(IndexError, match="index 9"):
        blu.jit(lambda x, i: x[i])(X, np.array([0, 9]))
    rows, columns = np.array([0, 1]), np.array([3, 4])
    with pytest.raises(IndexError):
        blu.jit(lambda x, i, j: x[i, j])(X, rows, columns)


def test_a_leaked_tensor_is_refused_in_another_trace() -> None:
    kept = []
    blu.jit(lambda x: (kept.append(x), x + 1)[1])(X)
    with pytest.raises(blu.BluError, match="a trace that has ended"):
        blu.jit(lambda x: x + kept[0])(X)
