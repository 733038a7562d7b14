"""What warps, blocks of a cluster and threads beside each other tell one another in row kernels: all bits, no races."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import blu
from blu.passes.kernels.schedules import Fields
from tests.kernels.gpu.test_sizes import few_values, numbers
from tests.support.kernels.gpu_program import compile_program

ROWS = 140
"""More than an H100 has processors: some blocks have two rows, and what they tell each other is told again."""


def _below(x: np.ndarray) -> np.ndarray:
    return x.max(1, keepdims=True) - x


# One reduction, whose slot is written again in the next row, and two, where every other slot is free.
FUNCTIONS: dict[str, tuple[Callable, Callable]] = {
    "one slot": (lambda x: blu.max(x, axis=1, keepdims=True) - x, _below),
    "two slots": (lambda x: blu.max(blu.max(x, axis=1, keepdims=True) - x, axis=1), lambda x: _below(x).max(1)),
}


def _check(name: str, x: np.ndarray, wish: Fields) -> str:
    """Interpret a function whose first kernel has such a schedule, and compare; the PTX of that kernel."""
    function, reference = FUNCTIONS[name]
    program = compile_program(function, x, schedules={"rows_0": wish})
    [found] = program.interpret(x)
    np.testing.assert_array_equal(found, reference(x))
    return program.ptx["rows_0"]


CASES = [("one slot", "f32"), ("one slot", "f64"), ("one slot", "i64"), ("two slots", "f64")]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_blocks_of_a_cluster_send_all_bits(name: str, dtype: str) -> None:
    ptx = _check(name, numbers((ROWS, 300), dtype), {"kind": "rows_ahead", "threads": 64, "cluster": 2})
    assert ".reqnctapercluster 2, 1, 1" in ptx and "st.async" in ptx


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_warps_of_a_block_send_all_bits(name: str, dtype: str) -> None:
    ptx = _check(name, numbers((ROWS, 300), dtype), {"kind": "rows_ahead", "threads": 64})
    assert "cluster" not in ptx and "bar.sync" in ptx and "cp.async.wait_all" in ptx


def test_rows_of_a_block_are_added_up_beside_their_columns() -> None:
    """Blocks that have one row after the other, with one slot."""
    (x,) = few_values((300, 68), "f32")

    def function(x: blu.Tensor) -> tuple[blu.Tensor, blu.Tensor]:
        below = blu.max(x, axis=1, keepdims=True) - x
        return below, blu.sum(below, axis=0)

    program = compile_program(function, x, schedules={"rows_0": {"kind": "row_ranges", "threads": 256, "team": 256}})
    below, total = program.interpret(x)
    assert "bar.sync" in program.ptx["rows_0"]
    np.testing.assert_array_equal(below, _below(x))
    np.testing.assert_array_equal(total, _below(x).sum(0))
