"""Products of few rows that normalize these themselves: one kernel, of which every element is what two would find."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from tests.support.kernels.gpu_program import compile_program

HALVES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def layer_norm(x, scale, shift):
    return blu.layer_norm(x, scale, shift)


def root_mean_square(x, scale, shift):
    wide = x.astype("f32")
    return (wide / blu.sqrt(blu.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)).astype(x.dtype) * scale + shift


def arrays_of(rows: int, depth: int, columns: int, dtype: str, is_turned: bool) -> list[np.ndarray]:
    rng = np.random.default_rng([rows, depth, columns])
    shapes = ((rows, depth), (depth,), (depth,), (columns, depth) if is_turned else (depth, columns), (columns,))
    found = [rng.standard_normal(shape) for shape in shapes]
    found[0] = 3 * found[0] + 1
    return [item.astype(HALVES[dtype]) for item in found]


def normalized(kind, x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """In f64, rounded once."""
    wide, scale, shift = (item.astype(np.float64) for item in (x, scale, shift))
    if kind is layer_norm:
        wide = wide - wide.mean(axis=1, keepdims=True)
    return (wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5)) * scale + shift


# One row, a tile of eight and fewer; k of a step, of what is no step, and of two rows of warps.
CASES = [
    (layer_norm, 1, 768, 40, "bf16", False),
    (layer_norm, 8, 136, 72, "f16", False),
    (layer_norm, 7, 264, 24, "bf16", True),
    (root_mean_square, 3, 1032, 16, "f16", True),
    (root_mean_square, 8, 256, 8, "bf16", False),
]


@pytest.mark.parametrize(("kind", "rows", "depth", "columns", "dtype", "is_turned"), CASES)
def test_what_is_multiplied_is_normalized(kind, rows, depth, columns, dtype, is_turned) -> None:
    def compute(x, scale, shift, weight, bias):
        return kind(x, scale, shift) @ (weight.T if is_turned else weight) + bias

    arrays = arrays_of(rows, depth, columns, dtype, is_turned)
    program = compile_program(compute, *arrays)
    (ptx,) = program.ptx.values()
    assert "mma.sync" in ptx
    (found,) = program.interpret(*arrays)
    x, scale, shift, weight, bias = arrays
    left, right = normalized(kind, x, scale, shift), weight.astype(np.float64)
    right = right.T if is_turned else right
    unit = 2.0**-8 if dtype == "bf16" else 2.0**-11
    allowed = 4 * unit * (np.sqrt(left**2 @ right**2) + np.abs(left @ right) + np.abs(bias.astype(np.float64)))
    assert (np.abs(found.astype(np.float64) - left @ right - bias.astype(np.float64)) <= allowed).all()
    if find_ptxas() is not None:
        assert not program.spills("gemm")


def test_a_result_is_not_written_over_rows_that_others_normalize() -> None:
    """Its elements lie as those of the rows do, but need whole rows."""

    def compute(x, scale, shift, weight):
        return layer_norm(x, scale, shift) @ weight

    x, scale, shift, weight, _ = arrays_of(8, 128, 128, "bf16", False)
    program = compile_program(compute, x, scale, shift, weight, donate=("x",))
    found = program.interpret(x, scale, shift, weight)[0].astype(np.float64)
    expected = normalized(layer_norm, x, scale, shift) @ weight.astype(np.float64)
    assert np.linalg.norm(found - expected) < 0.01 * np.linalg.norm(expected)


def test_rows_that_others_read_or_that_are_many_stay_in_memory() -> None:
    def kept(x, scale, shift, weight):
        rows = layer_norm(x, scale, shift)
        return rows @ weight, rows

    def plain(x, scale, shift, weight):
        return layer_norm(x, scale, shift) @ weight

    for function, rows in ((kept, 8), (plain, 9)):
        x, scale, shift, weight, _ = arrays_of(rows, 128, 24, "bf16", False)
        assert len(compile_program(function, x, scale, shift, weight).ptx) == 2
