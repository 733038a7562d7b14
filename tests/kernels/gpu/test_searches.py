"""argmax and argmin on GPUs: folds of packed numbers, with the CPU's answers for equal elements, zeros and NaN."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from tests.support.kernels.gpu_program import compile_program

BF16 = ml_dtypes.bfloat16
NAN, INF = float("nan"), float("inf")
ROWS = np.array(
    [
        [1, 3, 2, 3, -5],
        [-0.0, 0.0, -1, 0.0, -0.0],
        [-INF, -INF, -INF, -INF, -INF],
        [INF, 1, INF, -INF, 2],
        [1, NAN, INF, NAN, -INF],
        [NAN, NAN, NAN, NAN, NAN],
        [-1e-45, 1e-45, 0, -1e-45, 1e-45],
        [-3, -2, -2, -7, -7],
    ],
    np.float32,
)


def expected(search: Callable, values: np.ndarray, axis: int) -> np.ndarray:
    """NumPy's answer, which is the first of equals and the first NaN."""
    return {blu.argmax: np.argmax, blu.argmin: np.argmin}[search](values, axis=axis)


@pytest.mark.parametrize("search", [blu.argmax, blu.argmin])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("axis", [0, 1])
def test_ties_zeros_and_nan(search: Callable, dtype: type, axis: int):
    values = ROWS if dtype in (np.float32, np.float16, BF16) else np.nan_to_num(ROWS, nan=0, posinf=99, neginf=-99)
    values = values.astype(np.int32).astype(dtype) if values is not ROWS else values.astype(dtype)
    program = compile_program(lambda x: search(x, axis=axis), values)
    (found,) = program.interpret(values)
    assert np.array_equal(found, expected(search, values.astype(np.float32), axis))


@pytest.mark.parametrize("search", [blu.argmax, blu.argmin])
def test_rows_of_a_block_and_of_several(search: Callable):
    for shape in ((3, 700), (1, 17000)):
        values = np.random.default_rng(0).integers(-20, 20, shape).astype(np.float32)
        (found,) = compile_program(lambda x: search(x, axis=1), values).interpret(values)
        assert np.array_equal(found, expected(search, values, 1))


def test_a_vocabulary_is_shared_by_blocks():
    logits = np.broadcast_to(np.zeros((), np.float32), (1, 50257))
    program = compile_program(lambda x: blu.argmax(x, axis=-1), logits)
    launches = program.plan["launches"]
    assert [(item["kernel"], item["grid"][0]) for item in launches] == [("rows_0", 7), ("rows_0_end", 1)]
    if find_ptxas() is not None:
        assert not program.spills()


def test_wide_elements_take_the_fallback():
    values = np.array([[1.0, 2.0, 2.0], [NAN, 0.0, 1.0]])
    program = compile_program(lambda x: blu.argmax(x, axis=1), values)
    (found,) = program.interpret(values)
    assert np.array_equal(found, [1, 0])


@pytest.mark.parametrize("search", [blu.argmax, blu.argmin])
def test_one_element_is_found(search: Callable):
    values = np.array([[3.0], [np.nan]], np.float32)
    (found,) = compile_program(lambda x: search(x, axis=1), values).interpret(values)
    assert np.array_equal(found, [0, 0])
