"""Schedules of scans, sorts and additions at indices on GPUs: others give them, or are told why they do not fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import blu
from blu.errors import PassError
from blu.passes.kernels.schedules import Fields, wish_for
from tests.support.kernels.gpu_program import compile_program

ROWS = np.random.default_rng(0).integers(-9, 9, (3, 1300)).astype(np.float32)
HALVES = np.zeros((4, 6), np.float16)
INDICES = np.array([1, 2, 1, -1, 0], np.int32)


def added(x):
    """Rows that indices choose, added up."""
    return blu.grad(lambda w: (blu.take(w, INDICES, axis=0) * 3.0).sum())(x)


PROGRAMS: dict[str, tuple[Callable, np.ndarray]] = {
    "scan_0": (lambda x: blu.cumsum(x, axis=1), ROWS),
    "argsort_0": (lambda x: blu.argsort(x, axis=1), ROWS),
    "scatter_add_0": (added, ROWS[:, :8]),
}
EXPECTED: dict[str, Callable] = {
    "scan_0": lambda x: x.cumsum(1),
    "argsort_0": lambda x: np.argsort(x, axis=1, kind="stable"),
    "scatter_add_0": lambda x: 3.0 * np.stack([(row == INDICES % 3).sum() * np.ones(8) for row in range(3)]),
}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("scan_0", {"team": 32}),
        ("scan_0", {"length": 400}),
        ("argsort_0", {"by": "bytes", "tile": 64, "threads": 32, "runs": 2}),
        ("argsort_0", {"by": "merging", "tile": 64, "tile_threads": 32, "threads": 32, "runs": 2}),
        ("scatter_add_0", {"kind": "sorted"}),
    ],
)
def test_a_kernel_is_emitted_as_is_wished(name: str, fields: Fields) -> None:
    function, x = PROGRAMS[name]
    chosen, wished = (compile_program(function, x, schedules=wishes) for wishes in (None, {name: fields}))
    assert wished.ptx != chosen.ptx
    np.testing.assert_array_equal(wished.interpret(x)[0], EXPECTED[name](x))


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("scan_0", {"kind": "scan"}, "there is no kind of schedule 'scan'"),
        ("scan_0", {"kind": "scan_columns"}, "kind 'scan_columns' does not go along what is scanned"),
        ("scan_0", {"length": 1}, "length = 1: 1300 elements have at most 1024 pieces"),
        ("scan_0", {"team": 64}, "team = 64: a row, or a piece of one, has 32 threads, or 256"),
        ("scan_0", {"team": 32, "length": 500}, "team = 32: pieces of a row have 256 threads"),
        ("argsort_0", {"tile": 100}, "tile = 100: tiles have a power of two of keys"),
        ("argsort_0", {"threads": 2048}, "threads = 2048: blocks have a multiple of 32 threads, 1024 at most"),
        ("argsort_0", {"by": "bits"}, "by = 'bits': tiles are sorted by 'merging' or by 'bytes'"),
        ("argsort_0", {"tile_threads": 512}, "tile_threads = 512: blocks that sort by bytes have 256"),
        ("argsort_0", {"runs": 1}, "runs = 1: at least two runs become one"),
        ("argsort_0", {"tile": 16384}, "take 262144 bytes of shared memory, and a block on sm_90a has 232448"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(name: str, fields: Fields, message: str) -> None:
    assert message in refusal(*PROGRAMS[name], name, fields).message


def test_halves_are_not_rounded_after_each_update() -> None:
    message = refusal(added, HALVES, "scatter_add_0", {"kind": "in_order"}).message
    assert "kind 'in_order' would round sums of halves after each of 5 updates" in message


def refusal(function: Callable, x: np.ndarray, name: str, fields: Fields) -> PassError:
    traced = blu.jit(function).trace(blu.spec(x.shape, "f16" if x.dtype == np.float16 else "f32"))
    wish_for(traced.traced.module, {name: fields})
    with pytest.raises(PassError) as caught:
        traced.lower("sm_90a", stop="blu-choose-schedules")
    return caught.value
