"""What warps, blocks of a cluster and threads beside each other tell one another in row kernels: all bits, no races."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import blu
from blu.passes.gpu.rows import schedule as row_schedule
from blu.passes.gpu.rows import sums as row_sums
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


def _give_few_registers(monkeypatch: pytest.MonkeyPatch, words: dict[int, int]) -> None:
    """So few that rows of some hundred elements are kept as they were read, in a block of such threads or a cluster."""
    for name, few in {"WORDS_OF_WARP_ROW": 0, "WORDS": {}, "HIDDEN_WORDS": words}.items():
        monkeypatch.setattr(row_schedule, name, few)
    for name in ("READ_CLUSTERS", "WRITTEN_CLUSTERS", "HALVES_CLUSTERS"):
        monkeypatch.setattr(row_schedule, name, ((2, 64, 16, 1),))


def _check(name: str, x: np.ndarray) -> str:
    """Interpret a function and compare; the PTX of its first kernel."""
    function, reference = FUNCTIONS[name]
    program = compile_program(function, x)
    [found] = program.interpret(x)
    np.testing.assert_array_equal(found, reference(x))
    return program.ptx["rows_0"]


CASES = [("one slot", "f32"), ("one slot", "f64"), ("one slot", "i64"), ("two slots", "f64")]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_blocks_of_a_cluster_send_all_bits(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _give_few_registers(monkeypatch, {})
    ptx = _check(name, numbers((ROWS, 300), dtype))
    assert ".reqnctapercluster 2, 1, 1" in ptx and "st.async" in ptx


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_warps_of_a_block_send_all_bits(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _give_few_registers(monkeypatch, {64: 64, 128: 0})
    ptx = _check(name, numbers((ROWS, 300), dtype))
    assert "cluster" not in ptx and "bar.sync" in ptx and "cp.async.wait_all" in ptx


def test_rows_of_a_block_are_added_up_beside_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that have one row after the other, with one slot."""
    monkeypatch.setattr(row_sums, "WORDS_OF_WARP_ROW", 0)
    (x,) = few_values((300, 68), "f32")

    def function(x: blu.Tensor) -> tuple[blu.Tensor, blu.Tensor]:
        below = blu.max(x, axis=1, keepdims=True) - x
        return below, blu.sum(below, axis=0)

    program = compile_program(function, x)
    below, total = program.interpret(x)
    assert "bar.sync" in program.ptx["rows_0"]
    np.testing.assert_array_equal(below, _below(x))
    np.testing.assert_array_equal(total, _below(x).sum(0))
