"""u16, u32 and u64 at the ends of their ranges, on processors and by the PTX interpreter, as NumPy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import DTypeError
from tests.support.kernels.gpu_program import compile_program

DTYPES = ("uint16", "uint32", "uint64")


def numbers(dtype: str) -> np.ndarray:
    """What differs where a number is taken for a signed one, or is cut: the ends, the middle, and others."""
    top, bits = int(np.iinfo(dtype).max), np.iinfo(dtype).bits
    ends = [0, 1, 2, 3, 7, top, top - 1, top // 2, top // 2 + 1, top // 2 + 2, 1 << (bits // 2), (1 << (bits // 2)) - 1]
    drawn = np.random.default_rng(0).integers(0, top, 24, dtype, endpoint=True)
    return np.concatenate([np.array(ends, dtype), drawn]).reshape(4, 9)


def arithmetic(m: Any, x: Any, y: Any) -> list[Any]:
    return [x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, ~x, x << (y & 7), x >> (y & 7), x ** (y & 3), -x]


def comparisons(m: Any, x: Any, y: Any) -> list[Any]:
    ordered = [x < y, x <= y, x > y, x >= y, x == y, x != y, m.maximum(x, y), m.minimum(x, y)]
    return [*ordered, m.sign(x), m.absolute(x), m.clip(x, y, y + 5), m.where(x > 3, x, y), *beyond(x)]


def beyond(x: Any) -> list[Any]:
    """Comparisons with integers that the dtype does not have."""
    return [x > -1, x < -1, x == -1, x != -1, x < 2**70, x >= 2**64, x == 2**64, x > -(2**70)]


def folds(m: Any, x: Any, y: Any) -> list[Any]:
    found = [m.max(x, axis=1), m.min(x, axis=0), m.sum(x, axis=1), m.prod(x), m.cumsum(x, axis=1), m.any(x, axis=0)]
    return [
        *found,
        m.argmax(x, axis=1),
        m.argmin(x),
        m.sort(x, axis=1),
        m.argsort(x[0]),
        m.sum(x, axis=0, dtype=x.dtype),
    ]


def conversions(m: Any, x: Any, y: Any) -> list[Any]:
    signed = [x.astype(name) for name in ("int8", "int64", "uint8", "uint16", "uint32", "uint64", "bool")]
    return [*signed, x.astype("float64"), x.astype("float32"), x / y, m.mean(x, axis=1), m.sqrt(x)]


FAMILIES = (arithmetic, comparisons, folds, conversions)


def expected(family: Callable[..., list[Any]], x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return [np.asarray(item) for item in family(np, x, y)]


def check(found: list[Any], family: Callable[..., list[Any]], x: np.ndarray, y: np.ndarray) -> None:
    for place, (own, other) in enumerate(zip(found, expected(family, x, y), strict=True)):
        own = np.asarray(own)
        assert own.dtype == other.dtype and own.shape == other.shape, place
        tolerance = {"rtol": 4e-16 if own.dtype == np.float64 else 2e-7} if own.dtype.kind == "f" else {"rtol": 0}
        np.testing.assert_allclose(own, other, atol=0, err_msg=f"{family.__name__} {place}", **tolerance)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_on_processors(dtype: str, family: Callable[..., list[Any]]) -> None:
    x = numbers(dtype)
    y = np.maximum(x[::-1, ::-1], 1)
    check(blu.jit(lambda x, y: family(blu, x, y))(x, y), family, x, y)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_on_gpus(dtype: str, family: Callable[..., list[Any]]) -> None:
    x = numbers(dtype)
    y = np.maximum(x[::-1, ::-1], 1)
    check(list(compile_program(lambda x, y: family(blu, x, y), x, y).interpret(x, y)), family, x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_floats_saturate(dtype: str) -> None:
    top = np.iinfo(dtype).max
    floats = np.array([-1.5, 0.9, float(top) * 0.75, float(top), 1e30, np.inf, -np.inf, np.nan])
    found = np.asarray(blu.jit(lambda x: x.astype(dtype))(floats))
    assert found.tolist() == [0, 0, int(float(top) * 0.75), top, top, top, 0, 0]


def test_where_they_are_indices_constants_and_by_hand() -> None:
    table, places = np.arange(12.0).reshape(6, 2), np.array([5, 0, 5])
    for dtype in DTYPES:
        given = places.astype(dtype)
        np.testing.assert_array_equal(blu.jit(lambda table, given: table[given])(table, given), table[places])
        added = blu.jit(lambda x, given: x.at[given].add(1))(np.zeros(6, dtype), given)
        assert np.asarray(added).tolist() == [1, 0, 0, 0, 0, 2] and np.asarray(added).dtype == dtype
        top = np.array([np.iinfo(dtype).max, 0], dtype)
        constant = blu.jit(lambda x: x ^ top)(np.zeros(2, dtype))  # noqa: B023
        assert np.asarray(constant).tolist() == top.tolist()
        by_hand = blu.Array(top) + 2
        assert by_hand.tolist() == [1, 2] and by_hand.dtype == dtype
    with pytest.raises(DTypeError, match=r"65536 does not fit u16, which holds 0\.\.65535"):
        blu.jit(lambda x: x + 65536)(np.zeros(2, np.uint16))


def test_products_and_loops() -> None:
    x = np.arange(2**40, 2**40 + 12, dtype=np.uint64).reshape(3, 4)
    np.testing.assert_array_equal(blu.jit(lambda x: x @ x.T)(x), x @ x.T)

    def step(carry: Any, item: Any) -> tuple[Any, Any]:
        carry = carry * 6364136223846793005 + item
        return carry, carry >> 33

    last, all_of = blu.jit(lambda x: blu.scan(step, blu.asarray(np.uint64(1)), x))(x[0])
    carry = 1
    for place, item in enumerate(x[0].tolist()):
        carry = (carry * 6364136223846793005 + item) % 2**64
        assert int(np.asarray(all_of)[place]) == carry >> 33
    assert int(last) == carry
