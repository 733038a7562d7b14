"""Arrays that a compiled function reads from outside count as they were when it was traced, whatever their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu


@pytest.mark.parametrize("size", [3, 4096, 4097, 20_000])
def test_an_array_changed_after_tracing_changes_nothing(size: int) -> None:
    """Up to 16 KiB an array is written into the program, above it is kept beside it."""
    outside = np.full(size, 2, np.float32)
    run = blu.jit(lambda x: x * outside + blu.grad(lambda x: blu.sum(x * outside))(x))
    x = np.ones(size, np.float32)
    before = np.asarray(run(x)).copy()
    outside[:] = 7
    np.testing.assert_array_equal(np.asarray(run(x)), before)
    np.testing.assert_array_equal(before, np.full(size, 4, np.float32))


def test_another_trace_sees_the_new_numbers() -> None:
    outside = np.full(5000, 2, np.float32)
    run = blu.jit(lambda x: x * outside)
    run(np.ones(5000, np.float32))
    outside[:] = 3
    assert float(np.asarray(run(np.ones((2, 5000), np.float32)))[0, 0]) == 3


def test_arrays_that_live_only_while_tracing_are_told_apart() -> None:
    def f(x: Any) -> Any:
        for number in range(8):
            x = x + np.full(5000, 10**number)
        return x

    np.testing.assert_array_equal(np.asarray(blu.jit(f)(np.zeros(5000))), np.full(5000, 11_111_111))


def test_an_array_read_twice_is_kept_once() -> None:
    outside = np.ones(5000, np.float32)
    traced = blu.jit(lambda x: x * outside + outside).trace(blu.spec((5000,)))
    assert len(traced.traced.captured) == 1


def test_an_array_outside_is_read_at_indices_of_the_function() -> None:
    table = blu.asarray(np.arange(10.0).reshape(5, 2))
    at = np.array([3, 1])
    for read in (lambda i: table[i], lambda i: table[i[0]], lambda i: table[i, 0], lambda i: table[1:, i[1]]):
        np.testing.assert_array_equal(blu.jit(read)(at), read(at))
