"""The first few keys of rows on GPUs: by warps and by blocks, around pieces, with ties within and across them."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.core.dtypes import NUMBERS, DType, f16, f32, f64
from blu.passes.gpu.others.select import FEW
from blu.passes.kernels.schedules import Fields
from tests.support.kernels.gpu_program import GpuProgram, compile_program
from tests.support.kernels.ordering_check import numbers, order_of

WARPS: Fields = {"kind": "select", "tile": 64, "short": 64}
BLOCKS: Fields = {**WARPS, "short": 1}


def _program(values: np.ndarray, count: int, schedule: Fields | None) -> GpuProgram:
    schedules = {"arg_top_k_0": schedule} if schedule else None
    return compile_program(lambda x: blu.top_k(x, count)[1], values, schedules=schedules)


def _check(values: np.ndarray, count: int, schedule: Fields | None = None) -> GpuProgram:
    program = _program(values, count, schedule)
    np.testing.assert_array_equal(program.interpret(values)[0], order_of(values, 1, True)[:, :count])
    return program


@pytest.mark.parametrize("schedule", [WARPS, BLOCKS], ids=["warps", "blocks"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_rows_of_every_dtype(dtype: DType, schedule: Fields) -> None:
    """Of integers of 8 bits many are equal; floats have NaN, infinities and both zeros among them."""
    _check(numbers((3, 165), dtype), 7, schedule)


@pytest.mark.parametrize("schedule", [WARPS, BLOCKS], ids=["warps", "blocks"])
@pytest.mark.parametrize(("width", "count"), [(2, 1), (63, 32), (64, 9), (65, 32), (129, 1), (300, 31)])
def test_widths_around_pieces(width: int, count: int, schedule: Fields) -> None:
    _check(numbers((3 if width > 65 else 9, width), f32), count, schedule)


@pytest.mark.parametrize("schedule", [WARPS, BLOCKS], ids=["warps", "blocks"])
def test_the_first_of_equals_are_taken(schedule: Fields) -> None:
    values = np.zeros((2, 200), np.float32)
    values[1, 3::7] = np.nan
    values[1, 150] = 1.0
    _check(values, 30, schedule)


def test_long_rows_take_launches_of_a_few_keys() -> None:
    """The last one is a warp's for each row."""
    program = _check(numbers((2, 20000), f32), 40)
    assert [(launch["kernel"], launch["grid"][0]) for launch in program.plan["launches"]][-2:] == [
        ("arg_top_k_0_0", 6), ("arg_top_k_0", 1)
    ]  # fmt: skip


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
def test_pieces_stay_in_registers(dtype: DType) -> None:
    for shape, count in (((2, 20000), FEW + 1), ((2, 1024), FEW)):
        program = _program(np.zeros(shape, dtype.numpy), count, None)
        assert not program.spills("arg_top_k")
