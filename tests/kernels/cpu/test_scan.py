"""Scans on the CPU: running sums of every dtype and length, rows in pieces, columns, and other bodies than a sum."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.dtypes import NUMBERS, DType, f32
from blu.dialects.core.mlir import func
from blu.dialects.targets.cpu import CpuTarget
from blu.errors import PassError
from blu.passes.cpu.others import choice, scan
from blu.passes.kernels.choose_schedules import fit_kernel
from blu.runtime.host import default_threads, set_threads
from tests.support.kernels.cpu_kernel import host_targets
from tests.support.kernels.linalg_text import KernelText, Tensor
from tests.support.kernels.row_check import run_everywhere
from tests.support.kernels.scan_check import check_running_sum, numbers

make_context()


def emit_scan(kernel: func.FuncOp, target: CpuTarget) -> list[func.FuncOp]:
    """Choose a kernel's schedule, and emit it."""
    fit_kernel(kernel, target, choice.SCAN_SCHEDULER)
    return scan.emit(kernel, target)


def _check(cases: list[tuple[tuple[int, ...], int]], dtype: DType, change: Callable = lambda x: x) -> None:
    """Running sums of arrays of some shapes along axes, all in one program."""
    arrays = [numbers(shape, dtype) for shape, _ in cases]
    axes = [axis for _, axis in cases]

    def sums(arrays):
        found = [blu.cumsum(change(x), axis=axis) for x, axis in zip(arrays, axes, strict=True)]
        # Sums of integers are i64: as the dtype, they are what a running sum in that dtype is.
        return [x.astype(dtype) for x in found] if dtype.is_integer else found

    for result, array, axis in zip(blu.jit(sums)(arrays), arrays, axes, strict=True):
        check_running_sum(np.asarray(result), change(array), axis)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_rows_and_columns_of_every_dtype(dtype: DType) -> None:
    _check([((3, 101), 1), ((2, 9, 37), 1)], dtype)


def test_lengths_around_vectors_and_blocks() -> None:
    lengths = (0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 8191, 8193)
    _check([((rows, length), 1) for length in lengths for rows in (1, 5)], f32)


def test_numbers_of_columns_around_strips() -> None:
    _check([((2, 7, columns), 1) for columns in (0, 1, 2, 31, 32, 33, 64, 65)], f32)


@pytest.mark.parametrize("rows", [1, 3, choice.FEW_ROWS - 1, choice.FEW_ROWS])
def test_long_rows_are_cut_into_pieces(rows: int) -> None:
    _check([((rows, choice.LONG + more), 1) for more in (-1, 0, 1, choice.PIECE + 1)], f32)


def test_more_elements_than_the_most_pieces_hold_at_their_least() -> None:
    _check([((choice.MOST_PIECES * choice.PIECE + 77,), 0)], f32)


def test_views_are_read_in_place() -> None:
    _check([((60, 40), 1)], f32, lambda x: x[::-1, ::3])
    _check([((60, 40), 1), ((60, 40), 0)], f32, lambda x: x.T[3:, 1::2])
    _check([((60, 40, 5), 1)], f32, lambda x: x[:, ::-2])


def test_halves_round_once_at_each_element() -> None:
    """Two thousand and more ones: a sum in f16 stays at 2048, one in bf16 at 256."""
    for dtype in (np.float16, ml_dtypes.bfloat16):
        sums = np.asarray(blu.jit(blu.cumsum)(np.ones(5000, dtype)))
        np.testing.assert_array_equal(sums, np.arange(1, 5001).astype(dtype))


def test_signs_of_zeros_and_special_values_are_those_of_numpy() -> None:
    for values in ([-0.0, -0.0, 0.0, -0.0], [1, np.inf, -1, -np.inf, 2], [1, np.nan, 2] * 7):
        row = np.array(values, np.float32)
        with np.errstate(invalid="ignore"):
            expected = np.cumsum(row)
        result = np.asarray(blu.jit(blu.cumsum)(row))
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result)[expected == 0], np.signbit(expected)[expected == 0])


def test_a_sum_of_what_is_no_tensor_in_memory() -> None:
    np.testing.assert_array_equal(np.asarray(blu.jit(lambda: blu.cumsum(blu.ones(70)))()), np.arange(1, 71))


def test_time_is_linear_in_the_length() -> None:
    def seconds(length: int) -> float:
        row, run, taken = np.ones(length, np.float32), blu.jit(blu.cumsum), []
        run(row)
        for _ in range(5):
            start = time.process_time()
            run(row)
            taken.append(time.process_time() - start)
        return min(taken)

    # 64 times as much work where that is linear, 4,096 times where it is quadratic.
    assert seconds(1 << 19) < 400 * seconds(1 << 13)


def test_the_gradient_sums_from_the_end() -> None:
    weights = numbers((3, 101), f32)
    gradient = blu.jit(blu.grad(lambda x: (blu.cumsum(x, axis=1) * weights).sum()))(np.zeros((3, 101), np.float32))
    check_running_sum(np.asarray(gradient)[:, ::-1], weights[:, ::-1], 1)


@pytest.fixture
def restored_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = default_threads()
    yield
    set_threads(before)
    monkeypatch.delenv("BLU_NUM_THREADS")


@pytest.mark.usefixtures("restored_threads")
def test_results_do_not_depend_on_the_threads() -> None:
    row, run, found = numbers((3, 2 * choice.LONG), f32), blu.jit(lambda x: blu.cumsum(x, axis=1)), set()
    for threads in (1, 2):
        set_threads(threads)
        found.add(np.asarray(run(row)).tobytes())
    assert len(found) == 1


def _scan_kernel(body: str, elements: list[str], inputs: int, sizes: tuple[int, int]) -> str:
    """A kernel that carries values of some types from 0, and writes all of them at every step."""
    kernel = KernelText()
    sources = [kernel.input(sizes, element) for element in elements[:inputs]]
    starts = [kernel.fill(sizes[:1], "0.0" if element[0] == "f" else "0", element) for element in elements]
    results: list[Tensor] = [kernel.empty(sizes, element) for element in elements]
    maps = ["d0, d1"] * inputs + ["d0"] * len(elements) + ["d0, d1"] * len(elements)
    made = kernel.generic("pr", maps, sources, [*starts, *results], body)
    for result in made[len(elements) :]:
        kernel.output(result)
    return kernel.text()


def test_a_body_that_carries_the_largest_and_its_place() -> None:
    body = """%i = linalg.index 1 : index
        %here = arith.index_cast %i : index to i64
        %larger = arith.cmpf ogt, %a0, %o0 : f32
        %value = arith.select %larger, %a0, %o0 : f32
        %place = arith.select %larger, %here, %o1 : i64
        linalg.yield %value, %place, %value, %place : f32, i64, f32, i64"""
    x = np.abs(numbers((4, 77), f32)) + 1
    text = _scan_kernel(body, ["f32", "i64"], 1, x.shape)
    outputs = [np.zeros_like(x), np.zeros(x.shape, np.int64)]
    values, places = run_everywhere(text, [x], outputs, host_targets()[:1], emit_scan)
    np.testing.assert_array_equal(values, np.maximum.accumulate(x, 1))
    first = np.array([[row[: end + 1].argmax() for end in range(77)] for row in x])
    np.testing.assert_array_equal(places, first)


def test_a_body_whose_order_matters() -> None:
    """A linear recurrence y = a y + b: what two parts of a row come to together depends on which comes first."""
    body = """%product = arith.mulf %o0, %a0 : f64
        %moved = arith.mulf %o1, %a0 : f64
        %sum = arith.addf %moved, %a1 : f64
        linalg.yield %product, %sum, %product, %sum : f64, f64, f64, f64"""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 1.5, (2, 3, 50))
    text = _scan_kernel(body, ["f64", "f64"], 2, a.shape)
    _, sums = run_everywhere(text, [a, b], [np.zeros_like(a), np.zeros_like(a)], host_targets()[:1], emit_scan)
    expected = np.zeros_like(a)
    for place in range(50):
        expected[:, place] = (a[:, place] * expected[:, place - 1] if place else 0) + b[:, place]
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


def test_a_body_that_cannot_be_taken_apart_is_refused() -> None:
    body = """%sum = arith.addf %a0, %o0 : f32
        %other = arith.mulf %sum, %a0 : f32
        linalg.yield %sum, %other : f32, f32"""
    with pytest.raises(PassError, match="what is written is made of that"):
        run_everywhere(
            _scan_kernel(body, ["f32"], 1, (2, 3)), [np.zeros((2, 3), np.float32)], [], host_targets()[:1], emit_scan
        )
