"""One rule for Python's numbers, wherever they come from: they only raise the kind of the dtype that is computed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.core.dtypes import DTYPES, as_dtype, bf16

NUMBERS = (True, 3, 2.5)
ARITHMETIC = """
    add subtract multiply divide floor_divide remainder power maximum minimum arctan2 copysign logaddexp
    equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
    bitwise_and bitwise_or bitwise_xor left_shift right_shift
""".split()
OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda x, k: blu.where(blu.ones((2,), "bool"), x, k),
    "where of numbers": lambda x, k: x + blu.where(x > 0, k, 0),
    "where, swapped": lambda x, k: blu.where(blu.ones((2,), "bool"), k, x),
    "clip": lambda x, k: blu.clip(x, k),
    "clip between": lambda x, k: blu.clip(x, k, k),
    "stack": lambda x, k: blu.stack([x[0], k]),
    "matmul": lambda x, k: x @ blu.full_like(x, 1) * k,
    "pad": lambda x, k: blu.pad(x, 1, k),
    "full_like": lambda x, k: blu.full_like(x, k),
    "scatter_add": lambda x, k: blu.scatter_add(x.astype("i64"), np.array([0]), blu.full((1,), 1) * x[0]),
    "computed among themselves": lambda x, k: x * (k + 1) * (2 * k - 1),
    "functions of numbers": lambda x, k: x * blu.exp(k) * blu.sqrt(blu.absolute(k)) * blu.where(k > 0, k, 0),
    "a chain of operators": lambda x, k: x * (-k // 2 % 5 / 3 + abs(k) ** 2),
}


Row = tuple[str, str, str]


def dtypes_of(functions: dict[str, Callable[..., Any]], x: Any, as_arguments: bool) -> list[Row]:
    """For each function and number the dtype of the result, or the error that refuses it. Tracing is enough."""
    rows: list[Row] = []

    def program(x: Any, numbers: list[Any]) -> Any:
        for name, function in functions.items():
            for number, known in zip(numbers if as_arguments else NUMBERS, NUMBERS, strict=True):
                try:
                    rows.append((name, str(known), function(x, number).dtype.name))
                except blu.BluError as error:
                    rows.append((name, str(known), type(error).__name__))
        return x

    blu.jit(program).trace(x, list(NUMBERS))
    return rows


@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES])
def test_a_number_gives_one_dtype_whether_it_is_written_or_an_argument(dtype: str) -> None:
    functions = {name: getattr(blu, name) for name in ARITHMETIC} | OTHERS
    functions |= {f"{name}, swapped": lambda x, k, name=name: getattr(blu, name)(k, x) for name in ARITHMETIC}
    x = blu.spec((2,), dtype)
    assert dtypes_of(functions, x, as_arguments=True) == dtypes_of(functions, x, as_arguments=False)


@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES if dtype != bf16])
def test_the_dtype_is_numpys(dtype: str) -> None:
    array = np.ones(2, as_dtype(dtype).numpy)
    found = dtypes_of({name: getattr(blu, name) for name in ARITHMETIC}, array, as_arguments=True)
    expected = []
    for name in ARITHMETIC:
        for number in NUMBERS:
            try:
                expected.append((name, str(number), as_dtype(getattr(np, name)(array, number).dtype).name))
            except (TypeError, ValueError):
                expected.append((name, str(number), "DTypeError"))
    assert found == expected


def test_a_number_alone_is_what_asarray_makes_of_it() -> None:
    for number in (3, 2.5):
        results = [blu.jit(lambda x: x)(number), blu.asarray(number), np.asarray(number)]
        results.append(blu.jit(lambda number=number: number)())
        assert len({str(result.dtype) for result in results}) == 1
        assert all(float(result) == number for result in results)


def test_what_is_made_a_tensor_promotes_like_one() -> None:
    x = np.ones(2, np.float32)
    for make in (blu.asarray, lambda k: k.astype("f64"), lambda k: blu.full((), k), lambda k: blu.full((2,), k)):
        assert blu.jit(lambda x, k, make=make: x * make(k))(x, 2.5).dtype == np.float64
    assert blu.jit(lambda x, k: x * k)(x, np.float64(2.5)).dtype == np.float64


def test_gradients_of_numbers_are_numbers() -> None:
    @blu.jit
    def descend(x: Any, rate: float) -> Any:
        value, (of_x, of_rate) = blu.value_and_grad(lambda x, r: blu.sum(x * x) * r, argnums=(0, 1))(x, rate)
        return x - rate * of_x, x * of_rate, x * value

    assert [result.dtype for result in descend(np.ones(3, np.float32), 0.5)] == [np.float32] * 3
    assert float(blu.grad(lambda k: k * k)(3.0)) == 6
    _, pull_back = blu.vjp(lambda x, k: x * k, np.ones((), np.float32), 3.0)
    assert [float(item) for item in pull_back(1.0)] == [3, 1]


def test_a_number_is_not_compiled_for_and_a_numpy_scalar_is_another_argument() -> None:
    calls = []

    @blu.jit
    def scaled(x: Any, k: Any) -> Any:
        calls.append(1)
        return x * k

    x = np.ones(2, np.float32)
    assert [scaled(x, k).dtype for k in (2.0, 3.5, np.float64(2))] == [np.float32, np.float32, np.float64]
    assert len(calls) == 2


def test_numbers_fit_the_scalars_that_a_program_was_traced_for() -> None:
    program = blu.jit(lambda x, k: x * k).trace(blu.spec((2,)), blu.spec((), "f32")).compile()
    np.testing.assert_array_equal(program(np.ones(2, np.float32), 2.5), [2.5, 2.5])
    np.testing.assert_array_equal(program(np.ones(2, np.float32), 2), [2, 2])
    narrow = blu.jit(lambda x, k: x * k).trace(blu.spec((2,)), blu.spec((), "i8")).compile()
    with pytest.raises(blu.BluError, match="300 does not fit"):
        narrow(np.ones(2, np.float32), 300)
    with pytest.raises(blu.BluError, match=r"other arguments: k was i8\[\], is a Python float"):
        narrow(np.ones(2, np.float32), 2.5)


def test_an_integer_that_is_known_at_run_time_is_compared_whole() -> None:
    x = np.array([44, 255], np.uint8)
    equal = blu.jit(lambda x, k: (x == k, x < k, k > x))
    np.testing.assert_array_equal(np.stack([np.asarray(item) for item in equal(x, 300)]), [[0, 0], [1, 1], [1, 1]])
    np.testing.assert_array_equal(equal(x, 44)[0], [True, False])


def test_an_integer_beyond_64_bits_is_refused() -> None:
    assert int(blu.jit(lambda k: k)(2**40)) == 2**40
    with pytest.raises(blu.BluError, match="does not fit i64"):
        blu.jit(lambda k: k)(2**64)


def test_what_is_chosen_of_numbers_is_a_number() -> None:
    """A mask of 0 and -inf leaves scores as they are, whatever they are in."""
    x = np.array([1, -2], np.float16)
    masked = blu.jit(lambda x: x + blu.where(x > 0, 0.0, -np.inf))(x)
    assert masked.dtype == np.float16 and masked.tolist() == [1, -np.inf]
    assert blu.jit(lambda x: blu.where(x > 0, 1, 0.5))(x).dtype == np.float64
