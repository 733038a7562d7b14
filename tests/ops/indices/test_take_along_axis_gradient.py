"""The gradient of take_along_axis: of few indices along the axis, which are compared, and of more, which are added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.ops.indexing import MOST_COMPARED


@pytest.mark.parametrize("dtype", ["float64", "float16", "float32"])
@pytest.mark.parametrize("count", [MOST_COMPARED, MOST_COMPARED + 1])
@pytest.mark.parametrize(("shape", "axis"), [((3,), 0), ((4, 7), 0), ((2, 3, 5), 1), ((0, 3), 1)])
def test_each_position_sums_what_names_it(shape: tuple[int, ...], axis: int, count: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    place = (*shape[:axis], count, *shape[axis + 1 :])
    indices = rng.integers(-shape[axis], shape[axis], place).astype(np.int32)
    x, weights = rng.normal(size=shape).astype(dtype), rng.integers(-4, 5, place).astype(dtype)

    @blu.jit
    def run(x: Any, indices: Any, weights: Any) -> Any:
        return blu.grad(lambda x: blu.sum(blu.take_along_axis(x, indices, axis) * weights))(x)

    wanted = np.zeros(shape)
    grid = [part for dim, part in enumerate(np.indices(place)) if dim != axis]
    grid.insert(axis, indices)
    np.add.at(wanted, tuple(grid), weights.astype(np.float64))
    np.testing.assert_array_equal(np.asarray(run(x, indices, weights)), wanted)


def test_many_of_many_are_not_compared_with_each_other() -> None:
    """2048 of 2048 in each of 64 rows were 268 million comparisons."""
    shape = blu.spec((64, 2048)), blu.spec((64, 2048), "i64")
    program = blu.jit(blu.grad(lambda x, i: blu.sum(blu.take_along_axis(x, i, 1)))).trace(*shape)
    assert "2048x2048" not in program.text and "64x2048x" in program.text
