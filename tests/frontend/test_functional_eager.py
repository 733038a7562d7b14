"""The public functions called on arrays, outside of any trace: each compiles itself and runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import blu
from blu.compiler.eager import Eager
from blu.errors import BluError, UnsupportedError

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


def test_operators_and_methods_of_arrays_compute() -> None:
    x, y = blu.Array(X), blu.Array(X[:1] + 3)
    for one, other in (
        (x + y, X + X[:1] + 3),
        (2 - x, 2 - X),
        (X * x, X * X),
        (x.mT @ x, X.T @ X),
        (x**2 / y, X**2 / (X[:1] + 3)),
        (-abs(x), -abs(X)),
        (x[X > 0], X[X > 0]),
        (x.sum(axis=0, keepdims=True), X.sum(0, keepdims=True)),
        (x.T, X.T),
    ):
        assert isinstance(one, blu.Array) and one.dtype == np.float32
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6, atol=1e-6)
    assert ((x > 0) == (X > 0)).all() and x != None  # noqa: E711
    x += 1
    np.testing.assert_allclose(np.asarray(x), X + 1)


def test_operands_that_are_no_numbers_are_refused() -> None:
    for wrong in ([1, 2], "a", {}):
        with pytest.raises(TypeError, match="unsupported operand"):
            blu.Array(X) + wrong


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: blu.einsum(X, "ij->ji"), "neither a tensor nor a number"),
        (lambda: blu.einsum(None, X), "the equation, as 'ij,jk->ik', comes before the operands; it is a NoneType"),
        (lambda: blu.conv2d(None, X), "weight must have 4 dimensions, got 2"),
        (lambda: blu.conv(X, None), "None is neither a tensor nor a number"),
        (lambda: blu.conv2d(X, 2), "weight must have 4 dimensions, got 0"),
        (lambda: blu.layer_norm(None), "None is neither a tensor nor a number"),
        (lambda: blu.bincount(3), r"counts integers in one dimension, got int64\[\]"),
        (lambda: blu.bincount(X), "counts integers in one dimension, got float32"),
    ],
)
def test_what_is_no_operand_is_told_as_such(call: Callable[[], Any], message: str) -> None:
    """These ended within the library, or NumPy."""
    with pytest.raises(BluError, match=message):
        call()


def test_another_number_needs_no_other_program(caplog: pytest.LogCaptureFixture) -> None:
    x, small = blu.Array(X), blu.Array(np.arange(3, dtype=np.int8))
    with caplog.at_level("INFO", logger="blu"):
        results = [x * number for number in (1.5, 2.5, float("nan"))] + [small + number for number in (1, 2)]
    assert len([line for line in caplog.messages if line.startswith("compiling")]) <= 2
    assert results[1][0, 0].item() == -5 and results[4].tolist() == [2, 3, 4] and results[4].dtype == np.int8
    with pytest.raises(TypeError, match="does not fit i8"):
        small + 300
    assert (small < 300).all()


def test_numpy_computes_in_dtypes_that_no_kernel_does() -> None:
    x = blu.Array(np.array([3 + 4j, 1j]))
    assert abs(x).tolist() == [5, 1] and (x * 2).dtype == np.complex128 and complex(x[1]) == 1j
    large = blu.Array(np.array([2**63], np.uint64))
    assert (large + large).tolist() == [0] and blu.sum(large).tolist() == 2**63


SQUARE = np.arange(9).reshape(3, 3)
# Calls of which NumPy's functions have the parameters in another order, by other names, by name alone or not at all.
NUMPYS_OWN: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "add": (lambda x: blu.add(x=x, y=x), lambda x: x + x),
    "diagonal": (lambda x: blu.diagonal(x, 1), lambda x: np.diagonal(x, 1)),
    "trace": (lambda x: blu.trace(x, offset=-1), lambda x: np.trace(x, -1)),
    "vector_norm": (lambda x: blu.vector_norm(x, 0, True), lambda x: np.linalg.vector_norm(x, axis=0, keepdims=True)),
    "tril": (lambda x: blu.tril(x, offset=1), lambda x: np.tril(x, 1)),
    "triu": (lambda x: blu.triu(x, 1), lambda x: np.triu(x, 1)),
    "repeat": (lambda x: blu.repeat(x, 2), lambda x: np.repeat(x, 2)),
    "repeat along": (lambda x: x.repeat(repeats=(1, 0, 2), axis=1), lambda x: np.repeat(x, (1, 0, 2), axis=1)),
    "matmul": (lambda x: blu.matmul(x, y=x), lambda x: x @ x),
    "expand_dims": (lambda x: blu.expand_dims(x, axis=0), lambda x: x[None]),
    "sum": (lambda x: blu.sum(x, 0, keepdims=True), lambda x: x.sum(0, keepdims=True)),
    "sort": (lambda x: blu.sort(x, 0, True), lambda x: np.flip(np.sort(x, 0), 0)),
}


@pytest.mark.parametrize("dtype", [np.complex64, np.uint32])
@pytest.mark.parametrize("name", NUMPYS_OWN)
def test_numpys_functions_are_given_what_they_take(name: str, dtype: type) -> None:
    ours, numpys = NUMPYS_OWN[name]
    found, expected = ours(blu.Array(SQUARE.astype(dtype))), numpys(SQUARE.astype(dtype))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_what_numpys_functions_do_not_take_is_refused() -> None:
    x = blu.Array(SQUARE.astype(np.complex64))
    with pytest.raises(UnsupportedError, match="repeat: no kernel computes in this dtype, and NumPy's takes no size"):
        blu.repeat(x, 2, axis=0, size=9)
    with pytest.raises(TypeError, match=r"add\(\) too many positional arguments"):  # NumPy would write to the third
        blu.add(x, x, x)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        blu.add(x, x, out=x)


def test_of_many_programs_those_used_last_stay() -> None:
    prepared: list[tuple[int, ...]] = []

    def prepare(function: Callable[..., Any], leaves: list[Any], name: str, target: str) -> Callable[..., Any]:
        prepared.append(leaves[0].shape)
        return function

    eager = Eager(prepare, lambda: None, kept=2)
    for size in (1, 2, 1, 3, 1, 2):
        eager.run(np.negative, (X[0, :size],), {})
    assert prepared == [(1,), (2,), (3,), (2,)]
    assert len(eager.programs) == 2


def test_threads_may_push_out_what_others_use() -> None:
    eager = Eager(lambda function, *_: function, lambda: None, kept=1)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(_negate_often, eager, size) for size in (1, 2, 1, 2)]
            assert [run.result() for run in runs] == [(1,), (2,), (1,), (2,)]
    finally:
        sys.setswitchinterval(interval)
    assert len(eager.programs) == 1


def _negate_often(eager: Eager, size: int) -> tuple[int, ...]:
    for _ in range(5000):
        found = eager.run(np.negative, (X[0, :size],), {})
    return found.shape
