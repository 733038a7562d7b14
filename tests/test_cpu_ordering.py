"""Sorting on the CPU: long rows, many blocks, any axis, every dtype, and the special values of floats."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import blu
from blu.dialects.context import make_context
from blu.dialects.dtypes import NUMBERS, DType, f32, i64
from blu.dialects.sorting import stable_order
from blu.passes.cpu.ordering import ELEMENTS_PER_BLOCK, MAX_BLOCKS, SHORT
from blu.runtime.host import default_threads, set_threads

make_context()


def _numbers(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Numbers with many equals over the dtype's range; floats with NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(sum(shape))
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        wide = rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, wide % 7).astype(dtype.numpy)
    numbers = np.round(rng.standard_normal(shape) * 50)
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40], shape)
    return np.where(rng.random(shape) < 0.2, special, numbers).astype(dtype.numpy)


def _comparable(numbers: np.ndarray) -> np.ndarray:
    """The same numbers in a dtype in which NumPy knows where NaN belongs."""
    return numbers if numbers.dtype.kind in "iu" else numbers.astype(np.float64)


def _check(numbers: np.ndarray, axis: int, descending: bool) -> None:
    def both(x):
        return blu.sort(x, axis=axis, descending=descending), blu.argsort(x, axis=axis, descending=descending)

    values, order = (np.asarray(item) for item in blu.jit(both)(numbers))
    expected = stable_order(_comparable(numbers), axis, descending)
    np.testing.assert_array_equal(order, expected)
    wanted = np.take_along_axis(numbers, expected, axis)
    np.testing.assert_array_equal(values.view(np.uint8), wanted.view(np.uint8))  # bits: the sign of zeros too


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_long_rows_of_every_dtype(dtype: DType, descending: bool) -> None:
    _check(_numbers((700,), dtype), 0, descending)


@pytest.mark.parametrize("width", [1, 2, SHORT, SHORT + 1, 256, 257])
def test_lengths_around_the_change_of_method(width: int) -> None:
    _check(_numbers((5, width), f32), 1, descending=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    _check(_numbers((40, 41, 42), f32), axis, descending=False)


def test_more_rows_than_blocks_and_rows_that_blocks_do_not_divide() -> None:
    width = 100
    rows = MAX_BLOCKS * ELEMENTS_PER_BLOCK // width + 7
    _check(_numbers((rows, width), f32), 1, descending=False)


def test_a_vocabulary() -> None:
    _check(_numbers((2, 50257), f32), 1, descending=True)


@pytest.mark.parametrize("numbers", [np.arange(300), np.arange(300)[::-1].copy(), np.full(300, 7), np.arange(300) % 2])
def test_ordered_and_equal_rows(numbers: np.ndarray) -> None:
    """Bytes that are equal in all keys are skipped; here all of them, or all but the lowest, are."""
    _check(numbers.astype(i64.numpy), 0, descending=False)


@pytest.fixture
def restored_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = default_threads()
    yield
    set_threads(before)
    monkeypatch.delenv("BLU_NUM_THREADS")


@pytest.mark.usefixtures("restored_threads")
def test_results_do_not_depend_on_the_threads() -> None:
    numbers = _numbers((64, 2000), f32)
    order = blu.jit(lambda x: blu.argsort(x, axis=1))
    for threads in (1, 2):
        set_threads(threads)
        np.testing.assert_array_equal(np.asarray(order(numbers)), stable_order(numbers, 1, False))
