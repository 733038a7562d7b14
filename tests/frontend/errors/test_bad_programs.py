"""Bad input to programs and arrays: each is an error at the user's line, or gives what NumPy gives."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import DTypeError, ShapeError, TraceError

HERE = r"test_bad_programs\.py:\d+: "
VECTOR = np.arange(6, dtype=np.float32)
MATRIX = VECTOR.reshape(2, 3)


def assert_equal(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), expected, strict=True)


@pytest.mark.parametrize("function", [lambda x: x @ x, lambda x: x + x.T, lambda x: blu.matmul(x, x)])
def test_row_01_shapes_that_do_not_fit(function: Callable[[Any], Any]) -> None:
    with pytest.raises(ShapeError, match=HERE) as caught:
        blu.jit(function).trace(MATRIX)
    assert "[2, 3]" in str(caught.value) and len(re.findall(r"\[(?:2, 3|3, 2)\]", str(caught.value))) == 2


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_row_02_integer_division_without_a_result(dtype: type) -> None:
    lowest = np.iinfo(dtype).min
    left = np.array([7, -7, lowest, lowest, 0], dtype)
    right = np.array([0, 0, -1, 0, 0], dtype)
    with pytest.warns(RuntimeWarning) as caught:
        quotient, remainder = blu.jit(lambda x, y: (x // y, x % y))(left, right)
    assert all(warning.filename == __file__ for warning in caught)
    with np.errstate(all="ignore"):
        assert_equal(quotient, left // right)
        assert_equal(remainder, left % right)


@pytest.mark.parametrize("index", [3, -4, 2**31, -(2**62)])
def test_row_03_an_index_out_of_range_while_running(index: int) -> None:
    rows = np.zeros((3, 2), np.float32)
    with pytest.raises(IndexError, match=HERE) as caught:
        blu.jit(lambda x, i: blu.take(x, i, 0))(rows, np.array([0, index]))
    assert str(index) in str(caught.value) and "size 3" in str(caught.value) and "take" in str(caught.value)


def test_row_03_a_token_outside_of_the_vocabulary() -> None:
    embedding = blu.nn.Embedding(5, 2).initialize(0)
    with pytest.raises(IndexError, match="5"):
        blu.jit(lambda layer, tokens: layer(tokens))(embedding, np.array([1, 5], np.int32))


def test_row_05_negative_axes_and_indices_mean_what_numpys_do() -> None:
    found = blu.jit(lambda x: (x.sum(-1), x[-1], x[:, -2], blu.take(x, -1, -1)))(MATRIX)
    for one, expected in zip(found, (MATRIX.sum(-1), MATRIX[-1], MATRIX[:, -2], MATRIX[:, -1]), strict=True):
        assert_equal(one, expected)


@pytest.mark.parametrize("function", [lambda x: x.sum(2), lambda x: x.sum(-3), lambda x: x[2], lambda x: x[:, -4]])
def test_row_05_axes_and_indices_out_of_range(function: Callable[[Any], Any]) -> None:
    with pytest.raises((ValueError, IndexError), match=HERE + ".*range"):
        blu.jit(function).trace(MATRIX)


def test_row_09_numbers_that_do_not_fit_a_dtype() -> None:
    with pytest.raises(DTypeError, match=HERE):
        blu.jit(lambda x: x + 2**40).trace(np.zeros(2, np.int32))
    wrapped = blu.jit(lambda x: x + np.uint8(200))(np.array([100], np.uint8))
    assert_equal(wrapped, np.array([44], np.uint8))
    odd = np.array([np.nan, np.inf, -np.inf, 1e20], np.float32)
    first, again = (blu.jit(lambda x: x.astype("i32"))(odd[:size]) for size in (4, 3))
    assert_equal(np.asarray(first)[:3], np.asarray(again))


def test_row_10_mixed_dtypes_promote_as_numpys() -> None:
    names = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")
    arrays = [np.ones(2, name) for name in names]
    pairs = [(left, right) for left in arrays for right in arrays]
    found = blu.jit(lambda pairs: [left * right for left, right in pairs])(pairs)
    for one, (left, right) in zip(found, pairs, strict=True):
        assert_equal(one, left * right)


@pytest.mark.parametrize(
    "array",
    [
        MATRIX.T,
        MATRIX[:, ::-1],
        MATRIX[::-1, ::2],
        MATRIX.astype(">f4"),
        np.frombuffer(b"\0" + MATRIX.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
        np.broadcast_to(VECTOR[:3], (2, 3)),
    ],
    ids=["transposed", "backwards", "steps", "big-endian", "unaligned", "repeated"],
)
def test_row_11_odd_arrays_are_read_as_what_they_are(array: np.ndarray) -> None:
    array.flags.writeable = False
    assert_equal(blu.jit(lambda x: x + 1)(array), array.astype(np.float32) + np.float32(1))


def test_row_12_a_result_outlives_its_arguments() -> None:
    argument = np.ones(1000, np.float32)
    result = blu.jit(lambda x: (x, x * 2))(argument)
    argument[:] = 7
    del argument
    assert_equal(result[0], np.ones(1000, np.float32))
    assert_equal(result[1], np.full(1000, 2, np.float32))


def test_row_13_wrong_arguments_of_a_compiled_function() -> None:
    compiled = blu.jit(lambda x, y: x + y).trace(MATRIX, MATRIX).compile()
    for arguments in ((MATRIX,), (MATRIX, MATRIX, MATRIX), (MATRIX, MATRIX[0]), (MATRIX, MATRIX.astype(np.int8))):
        with pytest.raises(TypeError, match=r"argument|'y'|y:") as caught:
            compiled(*arguments)
        assert isinstance(caught.value, blu.BluError)


def branch(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def read_one(x: Any) -> Any:
    return x * x.sum().item()


def as_numpy(x: Any) -> Any:
    return np.sin(x)


def count(x: Any) -> Any:
    return sum(x for _ in range(x.sum().astype("i32")))


@pytest.mark.parametrize("function", [branch, read_one, as_numpy, count])
def test_row_14_asking_for_a_number_while_tracing(function: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError, match=HERE) as caught:
        blu.jit(function).trace(VECTOR)
    assert caught.value.advice


def test_row_14_printing_while_tracing_shows_the_type(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> Any:
        print(x)
        return x

    blu.jit(function).trace(VECTOR)
    assert "f32" in capsys.readouterr().out


def test_row_15_ten_thousand_operations() -> None:
    def chain(x: Any) -> Any:
        for number in range(10_000):
            x = x + 1 if number % 2 else -x
        return x

    expected = VECTOR
    for number in range(10_000):
        expected = expected + np.float32(1) if number % 2 else -expected
    assert_equal(blu.jit(chain)(VECTOR), expected)


def test_row_15_recursion_of_the_users() -> None:
    def deeper(x: Any, depth: int) -> Any:
        return deeper(x + 1, depth - 1) if depth else x

    assert_equal(blu.jit(lambda x: deeper(x, 800))(VECTOR), VECTOR + 800)


@pytest.mark.parametrize("shape", [(2**31, 2**33), (2**62, 4)])
def test_row_16_shapes_beyond_what_can_be_addressed(shape: tuple[int, ...]) -> None:
    with pytest.raises(blu.BluError, match="test_bad_programs") as caught:
        blu.jit(lambda x: blu.broadcast_to(x, shape).sum()).trace(np.float32(1)).compile()
    assert "more than can be addressed" in str(caught.value)


def test_row_16_more_elements_than_32_bits_count() -> None:
    size = 2**31 + 1
    largest = blu.jit(lambda x: (blu.arange(size, dtype="i64") + x).max())(np.int64(1))
    assert int(largest) == size


def test_row_17_a_large_constant_is_no_text() -> None:
    weights = np.random.default_rng(0).standard_normal(2_000_000).astype(np.float32)
    traced = blu.jit(lambda x: x * weights).trace(weights)
    assert len(traced.text) < 5_000
    assert_equal(traced.compile()(weights), weights * weights)


def test_row_18_more_memory_than_the_machine_has() -> None:
    with pytest.raises(MemoryError, match=r"\d") as caught:
        blu.jit(lambda x: blu.broadcast_to(x, (2**46,)) + blu.arange(2**46))(np.float32(1))
    assert isinstance(caught.value, blu.BluError)


def test_row_24_threads_compile_and_run_at_once() -> None:
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        found[number] = np.asarray(blu.jit(lambda x: x * number + x.sum())(VECTOR))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == list(range(4))
    for number, one in found.items():
        np.testing.assert_allclose(one, VECTOR * number + VECTOR.sum(), rtol=1e-6)
