"""Reductions of few long rows: they are cut into parts, which are many blocks, and give what whole rows give."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.pipelines import cpu
from blu.passes.graph.reassociate import Reassociate
from blu.passes.graph.split_reductions import LONG, PART
from blu.runtime.host import set_threads
from tests.support.kernels.gpu_program import compile_program

BF16 = ml_dtypes.bfloat16
REDUCTIONS = ("sum", "mean", "prod", "max", "min", "var", "std", "logsumexp", "argmax", "argmin", "any", "all")
# Shapes and the axes that are reduced, in which 30 elements are long: no rest, a rest, several long dimensions.
CASES = [
    ((29,), (0,)),
    ((30,), (0,)),
    ((31,), (0,)),
    ((97,), (0,)),
    ((64, 3), (0,)),
    ((3, 64), (1,)),
    ((2, 61, 5), (1,)),
    ((2, 61, 5), (0, 1)),
    ((7, 5, 64), (0, 1, 2)),
    ((7, 5, 64), (0, 2)),
    ((70, 31), (1,)),
    ((0, 64), (1,)),
]


@pytest.fixture
def short_is_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows of 30 elements are cut."""
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cpu, "PIPELINE", cpu.PIPELINE.replacing(Reassociate(longest=30)))


def operand(shape: tuple[int, ...], dtype: Any, name: str) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    if name in ("any", "all"):
        return rng.random(shape) < (0.02 if name == "any" else 0.98)
    values = rng.integers(-3, 4, shape) if dtype in (np.int32, np.uint8) else rng.standard_normal(shape)
    return (np.abs(values) if dtype == np.uint8 else values).astype(dtype)


def reduce_in_numpy(name: str, x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    wide = x.astype(np.float64) if x.dtype in (np.float16, np.float32, BF16) else x
    if name == "logsumexp":
        return np.log(np.sum(np.exp(wide.astype(np.float64)), axis=axes, keepdims=keepdims))
    if name.startswith("arg"):
        return getattr(np, name)(wide, axis=axes[0], keepdims=keepdims)
    return getattr(np, name)(wide, axis=axes, keepdims=keepdims)


def names_for(axes: tuple[int, ...], dtype: Any) -> list[str]:
    kept = [name for name in REDUCTIONS if len(axes) == 1 or not name.startswith("arg")]
    return kept if dtype == np.float32 else [name for name in kept if name not in ("any", "all", "logsumexp")]


@pytest.mark.parametrize(("dtype", "step"), [(np.float32, 1), (np.float16, 3), (np.int32, 4)])
@pytest.mark.usefixtures("short_is_long")
def test_parts_give_what_rows_give(dtype: Any, step: int) -> None:
    """Also of what is computed on the way, with operands that are broadcast; half of the results keep dimensions."""
    cases = CASES[::step]
    every = [(case, name) for case in cases for name in names_for(case[1], dtype)]
    problems = every[:: 2 if step == 1 else 1]
    operands = [operand(shape, dtype, name) for (shape, _), name in problems]

    def compute(operands: list[Any]) -> list[Any]:
        results = []
        for number, (((_, axes), name), x) in enumerate(zip(problems, operands, strict=True)):
            y = x if name in ("any", "all") or not number % 3 else blu.where(x > 0, x + x[..., :1] * 0, x)
            axis = axes[0] if name.startswith("arg") else axes
            results.append(getattr(blu, name)(y, axis=axis, keepdims=bool(number % 2)))
        return results

    results = blu.jit(compute)(operands)
    for number, (((shape, axes), name), x, found) in enumerate(zip(problems, operands, results, strict=True)):
        expected = reduce_in_numpy(name, x, axes, bool(number % 2))
        exact = np.issubdtype(expected.dtype, np.integer) and np.issubdtype(np.asarray(found).dtype, np.integer)
        tolerance = 0 if exact else 1e-3 if dtype == np.float16 else 2e-6
        message = f"{name} of {shape} along {axes}"
        np.testing.assert_allclose(np.asarray(found, expected.dtype), expected, tolerance, tolerance, err_msg=message)


@pytest.mark.usefixtures("short_is_long")
def test_the_first_of_equals_and_the_first_nan_are_found_across_parts() -> None:
    nan, inf = np.nan, np.inf
    rows = np.zeros((8, 100), np.float32)
    rows[0, [60, 99]] = 5
    rows[1, [3, 70]] = nan
    rows[2] = -inf
    rows[3, 51:] = -0.0
    rows[4, 99] = nan
    rows[5, [10, 90]] = inf
    rows[6, [49, 50]] = -7
    rows[7] = nan
    found = blu.jit(lambda x: (blu.argmax(x, axis=1), blu.argmin(x, axis=1), blu.max(x, axis=1), blu.min(x, axis=1)))(
        rows
    )
    for result, expected in zip(found, (np.argmax, np.argmin, np.max, np.min), strict=True):
        np.testing.assert_array_equal(result, expected(rows, axis=1))


def test_halves_are_rounded_once_where_their_rows_are_cut() -> None:
    x = (np.random.default_rng(0).standard_normal(2 * LONG) + 0.25).astype(BF16)
    found = float(blu.jit(blu.sum)(x))
    exact = x.astype(np.float64).sum()
    assert abs(found - exact) <= 0.52 * float(np.spacing(BF16(exact)))


@pytest.mark.parametrize("count", [LONG - 1, LONG, LONG + 1, 3 * PART + 7])
def test_counts_around_a_part(count: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, count).astype(np.int32)
    x[-1] = 11
    found = blu.jit(lambda x: (blu.sum(x), blu.max(x), blu.argmax(x), blu.argmin(x), x @ x))(x)
    wide = x.astype(np.int64)
    assert [int(item) for item in found] == [x.sum(), 11, count - 1, np.argmin(x), wide @ wide]


def test_results_do_not_depend_on_threads() -> None:
    x = np.random.default_rng(0).standard_normal(5 * PART + 3).astype(np.float32)
    compute = blu.jit(lambda x: (blu.sum(x), blu.var(x), blu.logsumexp(x), x @ x))
    results = []
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            results.append([np.asarray(item).tobytes() for item in compute(x)])
    finally:
        set_threads(2)
    assert results[0] == results[1] == results[2]


NUMBERS = blu.spec((1 << 26,), "f32")
SQUARE = blu.spec((8192, 8192), "f32")
LARGE: dict[str, tuple[Callable[..., Any], Any]] = {
    **{name: (getattr(blu, name), NUMBERS) for name in REDUCTIONS if name not in ("any", "all")},
    "any": (lambda x: blu.any(x > 3), NUMBERS),
    "all": (lambda x: blu.all(blu.isfinite(x)), SQUARE),
    "the largest of a matrix": (blu.max, SQUARE),
    "the place of the largest of a matrix": (blu.argmax, SQUARE),
    "the mean of few rows": (lambda x: blu.mean(x, axis=1), blu.spec((3, 1 << 24), "f16")),
    "columns": (lambda x: blu.sum(x, axis=0), blu.spec((1 << 22, 4), "f64")),
    "what is computed on the way": (lambda x: blu.sum(blu.exp(x) * 2 + 1), NUMBERS),
    "the norm of all": (lambda x: blu.optim.global_norm({"weight": x}), NUMBERS),
    "an inner product": (lambda x: x @ x, NUMBERS),
    "numbers in order": (lambda: blu.arange(1 << 30).sum(), None),
    "indices, which are checked": (lambda i: blu.max(blu.take(i[:8], i, axis=0)), blu.spec((1 << 20,), "i32")),
    "divisors, which are checked": (lambda x: blu.max(7 // x), blu.spec((1 << 20,), "i32")),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_no_kernel_has_a_long_row_for_one_block(name: str) -> None:
    """Everything that is as long as the operand is many blocks, and what is computed on the way is not stored."""
    compute, spec = LARGE[name]
    plan = blu.jit(compute).trace(*([] if spec is None else [spec])).compile().program.plan
    blocks = [launch.blocks for launch in plan.launches]
    assert blocks[0] >= (8 if spec is not None and spec.shape == (1 << 20,) else 60)
    if "checked" not in name:
        assert plan.arena_bytes < 1 << 20


def test_many_wrong_indices_are_found_in_any_part() -> None:
    indices = np.zeros(LONG + 5, np.int32)
    take = blu.jit(lambda x, i: blu.max(blu.take(x, i, axis=0)))
    for place in (0, PART, LONG + 4):
        indices[:] = 0
        indices[place] = 12
        with pytest.raises(IndexError, match="12"):
            take(np.ones(5, np.float32), indices)
    assert float(take(np.ones(5, np.float32), np.zeros_like(indices))) == 1


def test_control_c_ends_a_long_sum() -> None:
    """2**37 numbers, which nothing stores, take half a minute."""
    text = (
        "import blu; f = blu.jit(lambda: blu.arange(2**37).sum()); f.trace().compile(); print('ready', flush=True); f()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.7)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 15, "seconds of processors, with compiling"
    assert "KeyboardInterrupt" in error


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("search", ["argmax", "argmin"])
def test_places_of_numbers_of_64_bits_on_gpus(search: str, dtype: Any) -> None:
    """As folds, which several blocks share where rows are long."""
    find, expected = getattr(blu, search), getattr(np, search)
    rows = np.random.default_rng(0).integers(-5, 5, (3, 70)).astype(dtype)
    if dtype == np.float64:
        rows[1, [30, 60]], rows[2] = np.nan, -np.inf
    found = compile_program(lambda x: (find(x, axis=0), find(x, axis=1)), rows).interpret(rows)
    for result, axis in zip(found, (0, 1), strict=True):
        assert np.array_equal(result, expected(rows, axis=axis))
    long = np.broadcast_to(np.zeros((), dtype), (1 << 20,))
    launches = compile_program(find, long).plan["launches"]
    assert [launch["grid"][0] for launch in launches] == [128, 128, 1]


def test_a_row_that_32_bits_cannot_count_is_many_blocks_of_a_gpu() -> None:
    launches = compile_program(lambda: blu.arange(2**37).sum()).plan["launches"]
    assert launches[0]["grid"][0] >= 1 << 12
