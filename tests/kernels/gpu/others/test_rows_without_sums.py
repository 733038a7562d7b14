"""Kernels that give a number for each row, and elements of it, of which nothing is reduced: rows are walked once."""

from __future__ import annotations

import json

import numpy as np
import pytest

import blu
from blu.passes.kernels.rows.program import MANY_ROWS
from tests.support.kernels.gpu_products import random_array
from tests.support.kernels.gpu_program import compile_program


def scaled(share: blu.Tensor, sums: blu.Tensor, x: blu.Tensor) -> tuple[blu.Tensor, blu.Tensor]:
    """A factor of each row, and the rows times that."""
    scale = blu.where(share > 0.0, share, 1.0) / sums
    return scale, (x.astype("f32") * scale[:, None]).astype(x.dtype)


def arguments(rows: int, columns: int, dtype: str) -> list[np.ndarray]:
    return [random_array((rows,), "f32"), random_array((rows,), "f32", 1) + 5, random_array((rows, columns), dtype, 2)]


def check(found: list[np.ndarray], given: list[np.ndarray], dtype: str) -> None:
    share, sums, x = given
    scale = np.where(share > 0, share, np.float32(1.0)) / sums
    np.testing.assert_array_equal(found[0], scale)
    rounding = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-22}[dtype]
    wanted = x.astype(np.float64) * scale[:, None]
    np.testing.assert_allclose(found[1].astype(np.float64), wanted, rtol=1.01 * rounding, atol=1e-7)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize(
    ("rows", "columns"), [(MANY_ROWS - 1, 24), (MANY_ROWS, 1), (MANY_ROWS + 1, 5), (MANY_ROWS, 24), (MANY_ROWS, 776)]
)
def test_rows_are_walked_once(rows: int, columns: int, dtype: str) -> None:
    given = arguments(rows, columns, dtype)
    program = compile_program(scaled, *given)
    assert len(program.plan["launches"]) == 1
    check(program.interpret(*given), given, dtype)
    is_wide = "ld.global.v4" in program.ptx["rows_0"]
    assert is_wide == (rows >= MANY_ROWS and columns % (16 // given[2].itemsize) == 0) or columns == 1


@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (MANY_ROWS, 0), (MANY_ROWS - 1, 24), (MANY_ROWS + 1, 777)])
def test_processors_do_the_same(rows: int, columns: int) -> None:
    given = arguments(rows, columns, "f32")
    check([np.asarray(item) for item in blu.jit(scaled)(*given)], given, "f32")


@pytest.mark.parametrize("columns", [3000, 50304, 200000])
def test_long_rows_have_a_kernel(columns: int) -> None:
    shapes = ((1024,), (1024,), (1024, columns))
    specs = [blu.spec(shape, "f32") for shape in shapes]
    plan = json.loads(next(text for name, text in blu.jit(scaled).trace(*specs).compile("sm_90a").executable.items()
                           if name.endswith("plan.json")))  # fmt: skip
    assert len(plan["launches"]) == 1 and np.prod(plan["launches"][0]["grid"]) <= 8 * 1024
