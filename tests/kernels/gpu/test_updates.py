"""Slices that are read and written at positions known at run time, on GPUs: interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import compile_program

# The shape of a cache, of what is written to it, and where; starts beyond the end are moved inside.
CASES = [
    ((300,), (40,), [(0,), (17,), (260,), (299,), (-3,)]),
    ((2, 3, 16, 8), (2, 3, 1, 8), [(0, 0, 0, 0), (0, 0, 11, 0), (0, 0, 99, 0)]),
    ((7, 40), (2, 33), [(3, 5), (5, 7), (9, 9)]),
]


def place(starts: tuple[int, ...], cache: np.ndarray, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    moved = [min(max(start, 0), whole - size) for start, whole, size in zip(starts, cache.shape, sizes, strict=True)]
    return tuple(slice(start, start + size) for start, size in zip(moved, sizes, strict=True))


@pytest.mark.parametrize(("shape", "sizes", "places"), CASES)
def test_a_window_is_written_and_read_where_it_is_asked_for(shape: Any, sizes: Any, places: Any) -> None:
    rng = np.random.default_rng(0)
    cache, update = (rng.standard_normal(item).astype(np.float32) for item in (shape, sizes))

    def compute(cache: Any, update: Any, starts: Any) -> Any:
        at = list(starts)
        return blu.dynamic_update_slice(cache, update, at), blu.dynamic_slice(cache, at, sizes)

    program = compile_program(compute, cache, update, np.zeros(len(shape), np.int32))
    for starts in places:
        written, read = program.interpret(cache, update, np.array(starts, np.int32))
        window = place(starts, cache, sizes)
        expected = cache.copy()
        expected[window] = update
        np.testing.assert_array_equal(written, expected)
        np.testing.assert_array_equal(read, cache[window])
