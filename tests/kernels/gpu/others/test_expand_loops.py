"""Loops over arguments that walk over the dimensions in which they are read."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import compile_program


def embedded(ids: blu.Tensor, table: blu.Tensor, positions: blu.Tensor) -> blu.Tensor:
    """Rows of a table, and what is added to them by where they are."""
    return blu.take(table, ids, axis=0) + positions


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 5), (3, 1, 4), (1, 7, 8), (5, 33, 12), (0, 3, 4), (2, 0, 4)])
def test_an_embedding_and_its_positions_are_one_kernel(sizes: tuple[int, int, int], target: str) -> None:
    batch, length, width = sizes
    rng = np.random.default_rng(0)
    ids = rng.integers(-9, 9, (batch, length)).astype(np.int32)
    table, positions = (rng.standard_normal((rows, width)).astype(np.float32) for rows in (9, length))
    program = compile_program(embedded, ids, table, positions, target=target)
    names = [launch["kernel"] for launch in program.plan["launches"]]
    if min(batch, length) > 1:
        assert len(names) == 2, "what looks at the indices, and what takes rows and adds"
    (found,) = program.interpret(ids, table, positions)
    assert (found == table[ids] + positions).all()


def test_what_counts_along_a_loop_that_would_be_two_stays_as_it_is() -> None:
    def counted(x: blu.Tensor) -> blu.Tensor:
        return blu.arange(12, dtype="f32").reshape(3, 4) * blu.expand_dims(x, 0)

    x = np.arange(4, dtype=np.float32)
    (found,) = compile_program(counted, x).interpret(x)
    assert (found == np.arange(12, dtype=np.float32).reshape(3, 4) * x).all()


def test_what_follows_a_product_keeps_its_dimensions() -> None:
    def projected(x: blu.Tensor, w: blu.Tensor, positions: blu.Tensor) -> blu.Tensor:
        return blu.reshape(blu.exp(blu.matmul(x, w)), (2, 4, 8)) + positions

    arrays = [np.ones(shape, np.float32) for shape in ((8, 8), (8, 8), (4, 8))]
    program = compile_program(projected, *arrays)
    assert "ex2" in program.ptx["gemm_0"] and "ex2" not in program.ptx["rows_0"]
