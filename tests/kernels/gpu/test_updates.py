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


def test_updates_of_several_donated_buffers_are_one_launch() -> None:
    """As the keys and values of a cache, which parts of one array are written into; two of one buffer are in order."""
    rng = np.random.default_rng(1)
    keys, values = (rng.standard_normal((1, 16, 16)).astype(np.float32) for _ in range(2))
    new = rng.standard_normal((1, 1, 32)).astype(np.float32)

    def compute(keys: Any, values: Any, new: Any, at: Any) -> Any:
        values = blu.dynamic_update_slice(values, new[..., 16:], [0, at, 0])
        keys = blu.dynamic_update_slice(keys, new[..., :16], [0, at, 0])
        return keys, blu.dynamic_update_slice(values, 2 * new[..., 16:24], [0, at + 1, 0])

    program = compile_program(compute, keys, values, new, np.int32(0), donate=("keys", "values"))
    counts = [launch["grid"][2] for launch in program.plan["launches"] if launch["kernel"].startswith("update")]
    assert counts in ([2, 1], [1, 2]) and [item["input"] for item in program.plan["outputs"]] == [0, 1]
    for at in (0, 5, 14):
        expected = keys.copy(), values.copy()
        expected[0][:, at], expected[1][:, at] = new[:, 0, :16], new[:, 0, 16:]
        expected[1][:, at + 1, :8] = 2 * new[:, 0, 16:24]
        for found, wanted in zip(program.interpret(keys, values, new, np.int32(at)), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
