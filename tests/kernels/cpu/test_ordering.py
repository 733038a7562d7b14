"""Sorting on the CPU: long rows, many blocks, any axis, every dtype, and the special values of floats."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.dtypes import NUMBERS, DType, f32, i64
from blu.passes.cpu.others.arg_top_k import COLLECTED
from blu.passes.cpu.others.choice import ELEMENTS_PER_BLOCK, FEW, MAX_BLOCKS, SHORT
from blu.runtime.host import default_threads, set_threads
from tests.support.kernels.ordering_check import numbers, order_of

make_context()


def _check(values: np.ndarray, axis: int, descending: bool) -> None:
    def both(x):
        return blu.sort(x, axis=axis, descending=descending), blu.argsort(x, axis=axis, descending=descending)

    found, order = (np.asarray(item) for item in blu.jit(both)(values))
    expected = order_of(values, axis, descending)
    np.testing.assert_array_equal(order, expected)
    wanted = np.take_along_axis(values, expected, axis)
    np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))  # bits: the sign of zeros too


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_long_rows_of_every_dtype(dtype: DType, descending: bool) -> None:
    _check(numbers((700,), dtype), 0, descending)


@pytest.mark.parametrize("width", [1, 2, SHORT, SHORT + 1, 256, 257])
def test_lengths_around_the_change_of_method(width: int) -> None:
    _check(numbers((5, width), f32), 1, descending=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    _check(numbers((40, 41, 42), f32), axis, descending=False)


def test_more_rows_than_blocks_and_rows_that_blocks_do_not_divide() -> None:
    width = 100
    rows = MAX_BLOCKS * ELEMENTS_PER_BLOCK // width + 7
    _check(numbers((rows, width), f32), 1, descending=False)


def test_a_vocabulary() -> None:
    _check(numbers((2, 50257), f32), 1, descending=True)


@pytest.mark.parametrize("values", [np.arange(300), np.arange(300)[::-1].copy(), np.full(300, 7), np.arange(300) % 2])
def test_ordered_and_equal_rows(values: np.ndarray) -> None:
    """Bytes that are equal in all keys are skipped; here all of them, or all but the lowest, are."""
    _check(values.astype(i64.numpy), 0, descending=False)


def _check_top_k(cases: list[tuple[tuple[int, ...], int]], dtype: DType) -> None:
    """The k largest of rows of some shapes, all in one program."""
    rows, counts = [numbers(shape, dtype) for shape, _ in cases], [count for _, count in cases]
    found = blu.jit(lambda rows: [blu.top_k(x, k) for x, k in zip(rows, counts, strict=True)])(rows)
    for (values, places), row, count in zip(found, rows, counts, strict=True):
        expected = order_of(row, row.ndim - 1, True)[..., :count]
        np.testing.assert_array_equal(np.asarray(places), expected)
        wanted = np.take_along_axis(row, expected, -1)
        assert np.asarray(values).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_top_k_of_every_dtype(dtype: DType) -> None:
    _check_top_k([((3, 100), 7), ((2, 3000), 40)], dtype)


def test_top_k_around_the_change_of_method_and_of_what_is_collected() -> None:
    widths = (1, 2, 31, 33, 64, 65, COLLECTED, COLLECTED + FEW + 1, COLLECTED + FEW + 2, 2 * COLLECTED + 3)
    counts = (1, FEW, FEW + 1, COLLECTED - 1)
    _check_top_k([((2, width), count) for width in widths for count in counts if count <= width], f32)
    _check_top_k([((4, 300), 0), ((4, 300), 300), ((0, 5), 2), ((3, 4, 50), 20)], f32)


def test_top_k_of_ordered_and_equal_rows() -> None:
    """Ascending rows, of which every key is among the largest so far, and rows of equals, of which the first are."""
    rows = [np.arange(5000.0), -np.arange(5000.0), np.zeros(5000), np.repeat(np.arange(50.0), 100)]
    for count in (FEW, 100):
        places = np.asarray(blu.jit(lambda x, k=count: blu.top_k(x, k)[1])(np.stack(rows)))
        np.testing.assert_array_equal(places, order_of(np.stack(rows), 1, True)[:, :count])


def test_top_k_of_equal_largest_integers() -> None:
    row = np.full((2, 3000), 127, np.int8)
    row[:, 7] = -128
    for count in (3, 2999):
        places = np.asarray(blu.jit(lambda x, k=count: blu.top_k(x, k)[1])(row))
        np.testing.assert_array_equal(places, order_of(row, 1, True)[:, :count])


def test_top_k_is_not_a_sort() -> None:
    text = str(blu.jit(lambda x: blu.top_k(x, 50)).trace(blu.spec((2, 5000))).lower("cpu", stop="memref").text)
    assert "arg_top_k" in text
    assert "argsort" not in text


@pytest.mark.parametrize("k", [3, 20])
def test_the_gradient_of_top_k_goes_where_the_largest_are(k: int) -> None:
    row = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    gradient = np.asarray(blu.jit(blu.grad(lambda x: (blu.top_k(x, k)[0] * (1 + blu.arange(k))).sum()))(row))
    expected = np.zeros_like(row)
    np.put_along_axis(expected, order_of(row, 1, True)[:, :k], np.arange(1, k + 1, dtype=np.float32)[None], 1)
    np.testing.assert_array_equal(gradient, expected)


@pytest.fixture
def restored_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = default_threads()
    yield
    set_threads(before)
    monkeypatch.delenv("BLU_NUM_THREADS")


@pytest.mark.usefixtures("restored_threads")
def test_results_do_not_depend_on_the_threads() -> None:
    values = numbers((64, 2000), f32)
    order = blu.jit(lambda x: blu.argsort(x, axis=1))
    for threads in (1, 2):
        set_threads(threads)
        np.testing.assert_array_equal(np.asarray(order(values)), order_of(values, 1, False))
