"""Sorting and selection on GPUs, interpreted: every dtype, several rows in a tile, and many tiles in a row."""

from __future__ import annotations

import re

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.core.context import make_context
from blu.dialects.core.dtypes import NUMBERS, DType, f32, f64, i8
from blu.passes.gpu.others.schedule import MergeSchedule
from blu.passes.kernels.schedules import Fields
from tests.support.kernels.gpu_program import GpuProgram, compile_program
from tests.support.kernels.ordering_check import numbers, order_of

make_context()
Shape = tuple[int, int]


SMALL: Fields = {"kind": "merge", "tile": 16, "threads": 64, "runs": 3, "short_runs": 5, "short": 2}
"""Tiles of 16 keys, so that rows of a few hundred take as many launches as long ones do."""
SMALL_TILES: Fields = {**SMALL, "by": "merging", "tile_threads": 32}
SMALL_BYTES: Fields = {**SMALL, "by": "bytes", "tile_threads": 256}


def _sort(
    shape: Shape, dtype: DType, descending: bool = False, target: str = "sm_90a", tiles: Fields | None = None
) -> GpuProgram:
    wishes = {"argsort_0": tiles} if tiles else None
    values = numbers(shape, dtype)
    return compile_program(lambda x: blu.argsort(x, descending=descending), values, target=target, schedules=wishes)


def _top_k(shape: Shape, dtype: DType, count: int, target: str = "sm_90a", tiles: Fields | None = None) -> GpuProgram:
    # All of a row is sorted.
    wishes = {"argsort_0" if count == shape[1] else "arg_top_k_0": tiles} if tiles else None
    return compile_program(lambda x: blu.top_k(x, count), numbers(shape, dtype), target=target, schedules=wishes)


def _check_sort(shape: Shape, dtype: DType, descending: bool = False, tiles: Fields = SMALL_TILES) -> None:
    values = numbers(shape, dtype)
    (order,) = _sort(shape, dtype, descending, tiles=tiles).interpret(values)
    np.testing.assert_array_equal(order, order_of(values, 1, descending))


def _check_top_k(shape: Shape, dtype: DType, count: int, tiles: Fields | None = SMALL_TILES) -> None:
    rows = numbers(shape, dtype)
    values, places = _top_k(shape, dtype, count, tiles=tiles).interpret(rows)
    expected = order_of(rows, 1, True)[:, :count]
    np.testing.assert_array_equal(places, expected)
    assert values.tobytes() == np.take_along_axis(rows, expected, 1).tobytes()


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_rows_of_many_tiles_of_every_dtype(dtype: DType) -> None:
    _check_sort((2, 165), dtype, descending=dtype.is_float)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_tiles_of_every_dtype_are_sorted_by_bytes(dtype: DType) -> None:
    """Two tiles a row, of several keys a thread; floats with NaN, infinities and both zeros are descending."""
    _check_sort((2, 600), dtype, dtype.is_float, {**SMALL_BYTES, "tile": 512})


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 33])
def test_lengths_around_tiles_that_are_sorted_by_bytes(width: int) -> None:
    _check_sort((3, width), f32, tiles=SMALL_BYTES)


@pytest.mark.parametrize("width", [255, 256, 257, 511, 513])
def test_lengths_around_blocks_that_sort_by_bytes(width: int) -> None:
    _check_sort((2, width), f32, tiles={**SMALL_BYTES, "tile": 1024})


@pytest.mark.parametrize("count", [1, 16, 17, 199])
def test_top_k_of_tiles_that_are_sorted_by_bytes(count: int) -> None:
    _check_top_k((2, 200), f32, count, SMALL_BYTES)


def test_what_is_chosen_for_sizes() -> None:
    """Short rows share a tile, whose runs are merged; bytes for tiles of longer ones; radix for many long ones."""
    kinds = [_chosen(shape) for shape in ((4096, 64), (4096, 512), (1, 10000), (1, 1 << 17))]
    assert kinds == [("merge", "merging"), ("merge", "bytes"), ("merge", "bytes"), ("radix", None)]


@pytest.mark.parametrize("width", [1, 2, 3, 8, 9, 15, 16, 17, 31, 32, 33, 48, 49])
def test_lengths_around_tiles(width: int) -> None:
    _check_sort((3, width), f32)


@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 40, 199])
def test_top_k_keeps_what_it_needs_of_each_run(count: int) -> None:
    _check_top_k((2, 200), f32, count)


@pytest.mark.parametrize(("rows", "width"), [(5, 5), (4, 16), (9, 2), (7, 1)])
def test_short_rows_share_a_tile(rows: int, width: int) -> None:
    _check_sort((rows, width), i8)
    _check_top_k((rows, width), i8, 1)


def test_equal_keys_keep_their_order_across_runs() -> None:
    row = np.zeros((1, 100), np.float32)
    for tiles in (SMALL_TILES, SMALL_BYTES):
        wishes = {"argsort_0": tiles}
        program = compile_program(lambda x: blu.argsort(x, descending=True), row, schedules=wishes)
        (order,) = program.interpret(row)
        np.testing.assert_array_equal(order, np.arange(100)[None])


def test_a_row_of_one_tile_and_a_little() -> None:
    _check_top_k((1, MergeSchedule().tile + 1), f32, 3, tiles=None)


def test_launches_grow_with_the_logarithm_of_the_row() -> None:
    assert len(_kernels(_sort((1, 50257), f32, tiles={"kind": "merge"}))) == 3
    assert len(_kernels(_top_k((1, 50257), f32, 500))) == 3
    assert len(_kernels(_top_k((1, 1 << 20), f32, 500))) == 4
    assert len(_kernels(_top_k((1, 1 << 20), f32, 50))) == 2


def _chosen(shape: Shape) -> tuple[str, str | None]:
    """The kind of schedule, and how tiles are sorted."""
    traced = blu.jit(lambda x: blu.argsort(x, axis=1)).trace(blu.spec(shape, "f32"))
    text = str(traced.lower("sm_90a", stop="blu-choose-schedules").module)
    kind, by = re.search(r'kind = "(merge|radix)"', text), re.search(r'by = "(\w+)"', text)
    assert kind
    return kind[1], by[1] if by else None


def _kernels(program: GpuProgram) -> list[str]:
    """The names of the kernels that are launched to order keys."""
    names = [launch["kernel"] for launch in program.plan["launches"]]
    return [name for name in names if name.startswith("arg")]


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
def test_kernels_spill_nothing(target: str) -> None:
    for program in (_sort((2, 50257), f64, target=target), _top_k((1, 50257), f32, 50, target)):
        assert program.kernels("arg")
        assert not program.spills("arg")
