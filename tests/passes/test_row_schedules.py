"""Schedules of row kernels on GPUs: what others give is done, with the same results, or refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import blu
from blu.dialects.core.mlir import ir
from blu.errors import PassError
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.lower.emit_kernels import EmitGpuKernels
from blu.passes.gpu.lower.fit_schedules import FitSchedules
from blu.passes.gpu.rows import schedule as kinds
from blu.passes.kernels.schedules import Fields, wish_for
from tests.support.kernels.gpu_program import compile_program


def below_maximum(x):
    return blu.max(x, axis=1, keepdims=True) - x


def both_sums(x):
    below = below_maximum(x)
    return below, blu.sum(below, axis=0)


PROGRAMS: dict[str, tuple[Callable, tuple[int, ...], str]] = {
    "rows": (below_maximum, (140, 200), "rows_0"),
    "columns": (lambda x: blu.max(x, axis=0), (512, 24), "loops_0"),
    "points": (lambda x: x + 1.0, (40, 48), "rows_0"),
    "squares": (lambda x: blu.transpose(x) + 1.0, (40, 48), "rows_0"),
    "ranges": (both_sums, (512, 72), "rows_0"),
    "column ranges": (lambda x: blu.sum(x, axis=0), (512, 24), "rows_0"),
}
EXPECTED: dict[str, Callable] = {
    "rows": lambda x: [x.max(1, keepdims=True) - x],
    "columns": lambda x: [x.max(0)],
    "points": lambda x: [x + 1],
    "squares": lambda x: [x.T + 1],
    "ranges": lambda x: [x.max(1, keepdims=True) - x, (x.max(1, keepdims=True) - x).sum(0)],
    "column ranges": lambda x: [x.sum(0)],
}


@pytest.mark.parametrize(
    ("program", "fields"),
    [
        ("rows", {"kind": "rows", "threads": 96, "team": 96}),
        ("rows", {"kind": "rows", "team": 8, "lanes": 2}),
        ("rows", {"kind": "rows", "threads": 64, "team": 64, "keeps": "inputs"}),
        ("rows", {"kind": "sweep", "threads": 32, "lanes": 1, "unroll": 3}),
        ("rows", {"kind": "slices", "split": 3, "threads": 32}),
        ("columns", {"split": 5}),
        ("columns", {"kind": "columns", "threads": 64, "width": 4, "lanes": 2, "unroll": 2}),
        ("columns", {"kind": "columns", "threads": 128, "width": 8, "cluster": 8, "per_processor": 2}),
        ("points", {"kind": "points", "threads": 32, "lanes": 2, "unroll": 4}),
        ("squares", {"kind": "squares", "side": 16}),
        ("squares", {"kind": "points"}),
        ("ranges", {"kind": "row_ranges", "threads": 64, "team": 16, "reads": "directly"}),
        ("column ranges", {"kind": "column_ranges", "threads": 64, "width": 8, "lanes": 1, "unroll": 3}),
        ("rows", {"kind": "loops"}),
    ],
)
def test_a_kernel_is_emitted_as_is_wished(program: str, fields: Fields) -> None:
    function, shape, name = PROGRAMS[program]
    x = np.random.default_rng(0).integers(-8, 8, shape).astype(np.float32)
    chosen = compile_program(function, x)
    wished = compile_program(function, x, schedules={name: fields})
    assert wished.ptx != chosen.ptx
    for found, expected in zip(wished.interpret(x), EXPECTED[program](x), strict=True):
        np.testing.assert_array_equal(found, expected)


def refusal(program: str, fields: Fields, target: str = "sm_90a") -> PassError:
    function, shape, name = PROGRAMS[program]
    traced = blu.jit(function).trace(blu.spec(shape, "f32"))
    wish_for(traced.traced.module, {name: fields})
    with pytest.raises(PassError) as caught:
        traced.lower(target, stop="blu-fit-schedules")
    return caught.value


@pytest.mark.parametrize(
    ("program", "fields", "message"),
    [
        ("rows", {"kind": "row"}, "there is no kind of schedule 'row'\n  did you mean 'rows'?"),
        ("rows", {"kind": "rows", "unroll": 2}, "a schedule of kind 'rows' has no field 'unroll'"),
        ("rows", {"team": 8}, "a schedule of kind 'nest' has no field 'team'"),
        ("rows", {"kind": "columns"}, "kind 'columns' does not compute what is here: one of kind 'rows' would"),
        ("points", {"kind": "squares", "side": 16}, "one of kind 'points' would"),
        ("points", {"split": 2}, "split = 2: there is no reduction whose parts could be put together"),
        ("rows", {"split": 300}, "split = 300: reductions have at most 256 parts"),
        ("rows", {"kind": "slices", "split": 64, "threads": 32}, "32 threads put as many slices of a row together"),
        ("rows", {"kind": "rows", "threads": 100}, "threads = 100: blocks have a multiple of 32 threads, 1024 at most"),
        ("rows", {"kind": "rows", "team": 24}, "team = 24: a row has a power of two of threads up to 32"),
        ("rows", {"kind": "rows", "team": 1, "threads": 512}, "each of 1 threads, of at most 128"),
        ("rows", {"kind": "rows", "lanes": 8}, "lanes = 8: vectors have 4 elements here, or a part of that"),
        ("rows", {"kind": "rows", "keeps": "all"}, "keeps = 'all': of a row, 'values' are kept or 'inputs'"),
        ("rows", {"kind": "sweep", "per_processor": 3}, "per_processor = 3: of blocks that sweep"),
        ("rows", {"kind": "sweep", "unroll": 64}, "unroll = 64: threads have at most 16 vectors under way"),
        ("rows", {"kind": "rows_ahead", "cluster": 3}, "cluster = 3: clusters have 1, 2, 4, 8 blocks"),
        ("rows", {"kind": "rows_ahead", "threads": 640, "per_processor": 4}, "4 blocks of 640 threads, of 2048"),
        ("columns", {"kind": "columns", "width": 3}, "width = 3: a power of two of the 256 threads"),
        ("columns", {"kind": "columns", "threads": 96, "width": 64}, "width = 64: 96 threads are no multiple of that"),
        ("columns", {"kind": "columns", "cluster": 3}, "cluster = 3: clusters have 1, 2, 4, 8 blocks"),
        ("columns", {"kind": "columns", "cluster": 4, "split": 2}, "a cluster of blocks leaves nothing to add up"),
        ("columns", {"kind": "columns", "cluster": 8, "width": 2}, "a warp has 16 rows of that"),
        ("squares", {"kind": "squares", "side": 24}, "side = 24: tiles have sides of 16, 32, 64"),
        ("ranges", {"kind": "row_ranges", "reads": "twice"}, "reads = 'twice': rows are read 'directly' or 'ahead'"),
        ("ranges", {"kind": "row_ranges", "team": 64, "reads": "ahead"}, "a row that a whole block has is read"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(program: str, fields: Fields, message: str) -> None:
    error = refusal(program, fields)
    assert message in str(error) and f"the schedule of kernel '{PROGRAMS[program][2]}': " in error.message
    assert re.match(r".*test_row_schedules\.py:\d+", error.location or "")


def test_rows_are_not_read_ahead_on_older_gpus() -> None:
    message = refusal("rows", {"kind": "rows_ahead", "threads": 64}, "sm_80").message
    assert "sm_80 has too few registers for rows that are read ahead" in message


def test_memory_for_other_parts_is_refused() -> None:
    module = lowered("memref", "columns", {"split": 4})
    [kernel] = kernels_in(module).values()
    with module.context, ir.Location.unknown():
        kernel.attributes["blu.schedule"] = kinds.NestSchedule(2).to_attribute()
        with pytest.raises(PassError, match=r"split = 2 takes memory of memref<48xf32> .* has memref<96xf32>"):
            FitSchedules().run(module)
        del kernel.attributes["blu.schedule"]
        with pytest.raises(PassError, match=r"'loops_0' has no blu.schedule"):
            FitSchedules().run(module)


def test_an_emitter_does_not_choose() -> None:
    for fields, message in (({}, "has no blu.schedule"), ({"split": 4}, r"of kind 'nest'.*\n  blu-fit-schedules")):
        module = lowered("memref", "columns", fields)
        with module.context, ir.Location.unknown(), pytest.raises(PassError, match=message):
            EmitGpuKernels().run(module)


def lowered(stop: str, program: str, fields: Fields) -> ir.Module:
    function, shape, name = PROGRAMS[program]
    traced = blu.jit(function).trace(blu.spec(shape, "f32"))
    if fields:
        wish_for(traced.traced.module, {name: fields})
    return traced.lower("sm_90a", stop=stop).module
