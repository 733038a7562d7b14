"""Every index that a program checks while it runs is found wherever it is wrong, the extremes of its dtype included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import OutOfRangeError
from blu.plan.schema import NOTHING_FOUND
from tests.support.kernels.gpu_program import compile_program

ROWS, COLUMNS = 6, 3
TABLE = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
# name: (a function of the table and of indices, how many rows of indices there are to a row of the result)
CHECKED: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda x, i: blu.take(x, i, 0),
    "one index array": lambda x, i: x[i],
    "two index arrays": lambda x, i: x[i, i * 0],
    "take_along_axis": lambda x, i: blu.take_along_axis(x[:, 0], i, 0),
    "scatter_add": lambda x, i: blu.scatter_add(x, i, blu.take(x, i * 0, 0), 0),
    "the gradient of take": lambda x, i: blu.grad(lambda y: (blu.take(y, i, 0) * 2.0).sum())(x),
    "cross_entropy": lambda x, i: blu.cross_entropy(blu.take(x.T, i * 0, 0), i),
}


def indices(wrong: int, count: int, dtype: type) -> np.ndarray:
    """`count` indices, of which one is wrong."""
    found = np.arange(count).astype(dtype) % COLUMNS
    found[count // 2] = wrong
    return found


def extremes(dtype: type) -> list[int]:
    """Wrong indices: just outside, and the ends of the dtype with their neighbours."""
    limits = np.iinfo(dtype)
    return [-ROWS - 1, ROWS, limits.min, limits.min + 1, limits.min + ROWS, limits.max]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("name", CHECKED)
def test_an_extreme_index_is_found_on_a_cpu(name: str, dtype: type) -> None:
    program = blu.jit(CHECKED[name])
    for count in (1, 70):
        program(TABLE, indices(1, count, dtype))
        for wrong in extremes(dtype):
            with pytest.raises(OutOfRangeError) as caught:
                program(TABLE, indices(wrong, count, dtype))
            if name in ("take", "one index array", "take_along_axis", "scatter_add"):
                assert f"index {wrong} is out of range" in str(caught.value)


@pytest.mark.parametrize("name", CHECKED)
def test_an_extreme_index_is_found_on_a_gpu(name: str) -> None:
    for count in (1, 70):
        program = compile_program(CHECKED[name], TABLE, indices(0, count, np.int64))
        assert set(program.findings(TABLE, indices(1, count, np.int64))) == {NOTHING_FOUND}
        for wrong in extremes(np.int64):
            found = set(program.findings(TABLE, indices(wrong, count, np.int64))) - {NOTHING_FOUND}
            # A negative class, and the indices of several dimensions at once, are sent out of range by the program.
            assert found & {wrong, ROWS, ROWS * COLUMNS}, f"{count} indices, one of them {wrong}"


def test_a_division_by_zero_is_found_on_both_targets() -> None:
    left, right = np.arange(70), np.arange(70) - 69
    with pytest.warns(RuntimeWarning, match="division by zero"):
        blu.jit(lambda x, y: x // y)(left, right)
    program = compile_program(lambda x, y: x // y, left, right)
    assert set(program.findings(left, right)) != {NOTHING_FOUND}
    assert set(program.findings(left, right - 1)) == {NOTHING_FOUND}
