"""What is rounded to bf16 and read in f32 too is written as its rounding, and what that lacks."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.pipelines import sm90
from blu.passes.loops.split_rounded import SplitRounded
from tests.support.kernels.gpu_program import GpuProgram, compile_program

ROWS, COLUMNS = 9, 264


def passed_on(x: blu.Tensor, w: blu.Tensor, scale: blu.Tensor) -> blu.Tensor:
    """-x, which a product reads in bf16, and a kernel behind the product in f32."""
    h = -x
    behind = blu.layer_norm(blu.astype(blu.matmul(blu.astype(h, "bf16"), w), "f32"), scale, scale)
    return blu.where(behind > 1e30, behind, h)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], GpuProgram]:
    """The program in which results of so many bytes are split."""
    plain = sm90.PIPELINE

    def compile_with(least_bytes: int) -> GpuProgram:
        monkeypatch.setattr(sm90, "PIPELINE", plain.replacing(SplitRounded(least_bytes)))
        shapes = np.zeros((ROWS, COLUMNS), np.float32), np.zeros((COLUMNS, COLUMNS), ml_dtypes.bfloat16)
        return compile_program(passed_on, *shapes, np.zeros(COLUMNS, np.float32), target="sm_90a")

    return compile_with


def numbers() -> np.ndarray:
    """Floats of all kinds: ties of both kinds, their neighbours, the largest, the smallest, infinity and NaN."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, (ROWS, COLUMNS), dtype=np.uint64).astype(np.uint32)
    low = np.array([0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    bits[:, : 2 * len(low)] = bits[:, : 2 * len(low)] & 0xFFFE0000 | np.concatenate([low, low | 0x10000])
    bits[0, -6:] = [0x7F800000, 0xFF800000, 0x7FC00000, 0xFF7FFFFF, 0x00000001, 0x80000000]
    return bits.view(np.float32)


def test_a_float_comes_back_from_its_rounding_and_the_rest(compiled: Callable[[int], GpuProgram]) -> None:
    x, ones = numbers(), np.ones(COLUMNS, np.float32)
    w = np.random.default_rng(1).standard_normal((COLUMNS, COLUMNS)).astype(ml_dtypes.bfloat16)
    (found,), expected = compiled(0).interpret(x, w, ones), -x
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    is_number = ~np.isnan(expected)
    found, bits = (item[is_number].view(np.uint32).astype(np.int64) for item in (found, expected))
    is_tie_downwards = bits & 0x1FFFF == 0x08000
    np.testing.assert_array_equal(found, bits - is_tie_downwards)
    assert is_tie_downwards.sum() >= ROWS


def test_small_results_stay_whole(compiled: Callable[[int], GpuProgram]) -> None:
    halves = ROWS * COLUMNS * 2
    few, many = compiled(4 * ROWS * COLUMNS), compiled(4 * ROWS * COLUMNS + 1)
    assert many.plan["arena_bytes"] - few.plan["arena_bytes"] >= halves - 1024
