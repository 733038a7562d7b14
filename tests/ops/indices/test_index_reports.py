"""What an index out of range is reported as: the op that the user called, the index given, the axis it is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu

LOGITS = np.zeros((2, 5), np.float32)


@pytest.mark.parametrize("target", [-1, 5, 2**61, -(2**63)])
def test_a_class_out_of_range_is_reported_by_cross_entropy(target: int) -> None:
    run = blu.jit(lambda x, i: blu.value_and_grad(blu.cross_entropy)(x, i))
    with pytest.raises(blu.BluError, match=rf"cross_entropy: index {target} is out of range .* 5\n.*from 0 to 4"):
        run(LOGITS, np.array([target, 2]))
    assert np.isfinite(float(run(LOGITS, np.array([-100, 4]))[0]))


CASES: list[tuple[list[int], list[int], int, int]] = [
    ([0, 2**61], [0, 0], 2**61, 3),
    ([0, -4], [0, 0], -4, 3),
    ([0, 1], [0, 4], 4, 4),
    ([0, 1], [-5, 0], -5, 4),
    ([0, -(2**63)], [0, 0], -(2**63), 3),
    ([0, 3], [0, -3], 3, 3),
]


@pytest.mark.parametrize(("rows", "columns", "wrong", "size"), CASES)
def test_of_several_indices_the_wrong_one_is_reported_with_its_axis(
    rows: list[int], columns: list[int], wrong: int, size: int
) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with pytest.raises(blu.BluError, match=rf"index {wrong} is out of range .* size {size}\n.*from -{size} to"):
        blu.jit(lambda x, i, j: x[i, j])(x, np.array(rows), np.array(columns))


def test_several_indices_select_and_have_gradients_as_in_numpy() -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    rows, columns = np.array([[0], [-1]]), np.array([1, -4, 3], np.int32)

    def both(x: Any, i: Any, j: Any) -> Any:
        return x[i, j], blu.grad(lambda x: blu.sum(x[i, j] * x[i, j]))(x)

    selected, gradient = blu.jit(both)(x, rows, columns)
    np.testing.assert_array_equal(np.asarray(selected), x[rows, columns])
    expected = np.zeros_like(x)
    np.add.at(expected, (rows, columns), 2 * x[rows, columns])
    np.testing.assert_array_equal(np.asarray(gradient), expected)
