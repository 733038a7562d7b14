"""Sorting by bytes on GPUs: stable, beyond warps, tiles and digits."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from blu.dialects.core.dtypes import NUMBERS, DType, u16, u32, u64
from blu.passes.gpu.others.radix import TILE
from tests.support.kernels.gpu_program import compile_program
from tests.support.kernels.ordering_check import numbers as ordered_numbers
from tests.support.kernels.ordering_check import order_of
from tests.support.kernels.scatter_order import scatter_in_pieces

PIECE = 16
RADIX, SORTED = ({"scatter_add_0": {"kind": kind, "piece": PIECE}} for kind in ("radix", "sorted"))


def problem(count: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table, indices into it, some from the end, half of them the same, and updates whose sums depend on order."""
    rng = np.random.default_rng(count)
    indices = rng.integers(-rows, rows, count)
    indices[::2] = rows // 2
    table, updates = (rng.standard_normal((size, 2)).astype(np.float32) for size in (rows, count))
    return table, indices, updates


def scattered(arguments: tuple[np.ndarray, ...], schedules: dict | None) -> np.ndarray:
    return compile_program(blu.scatter_add, *arguments, schedules=schedules).interpret(*arguments)[0]


def order(values: np.ndarray, descending: bool = False) -> np.ndarray:
    schedules = {"argsort_0": {"kind": "radix"}}
    program = compile_program(lambda x: blu.argsort(x, axis=1, descending=descending), values, schedules=schedules)
    return program.interpret(values)[0]


@pytest.mark.parametrize(
    ("count", "rows"), [(1, 1), (31, 2), (33, 255), (257, 256), (2047, 257), (2048, 65536), (2049, 65537)]
)
def test_rows_are_added_in_order(count: int, rows: int) -> None:
    arguments = problem(count, rows)
    np.testing.assert_array_equal(scattered(arguments, RADIX), scatter_in_pieces(*arguments, PIECE))


def test_halves_and_whole_numbers_are_added_as_after_the_other_sort() -> None:
    for dtype in (np.float16, np.int64):
        table, indices, updates = problem(300, 9)
        arguments = (table * 9).astype(dtype), indices.reshape(3, 100), (updates * 9).astype(dtype).reshape(3, 100, 2)
        np.testing.assert_array_equal(scattered(arguments, RADIX), scattered(arguments, SORTED))


# Keys of unsigned integers are those of signed ones, with the highest bit turned over.
@pytest.mark.parametrize("dtype", [dtype for dtype in NUMBERS if dtype not in (u16, u32, u64)], ids=str)
def test_rows_of_every_dtype_are_sorted(dtype: DType) -> None:
    """Floats with NaN, infinities and both zeros among them; these are descending."""
    values = ordered_numbers((3, 300), dtype)
    np.testing.assert_array_equal(order(values, dtype.is_float), order_of(values, 1, dtype.is_float))


@pytest.mark.parametrize("width", [1, 31, 32, 33, 2047, 2048, 2049])
def test_lengths_around_warps_and_tiles(width: int) -> None:
    values = np.random.default_rng(width).integers(-9, 9, (2, width)).astype(np.int16)
    np.testing.assert_array_equal(order(values), np.argsort(values, axis=1, kind="stable"))


def test_more_tiles_than_a_warp_adds_up_at_once() -> None:
    values = np.random.default_rng(0).integers(-128, 128, (1, 33 * TILE + 1)).astype(np.int8)
    np.testing.assert_array_equal(order(values), np.argsort(values, axis=1, kind="stable"))
