"""Sums of the rows of attention's gradients: by the warpgroups that make them, or by a launch of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.ops.attention import AttentionPiece
from blu.dialects.ops.attention_gradient import AttentionGradient
from blu.passes.loops.fuse.loops import OF_GRADIENT
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import GpuProgram, compile_program

KERNEL = "attention_gradient_0"


def as_rows(gradient: blu.Tensor) -> blu.Tensor:
    """[B, H, T, D] as [B, T, H * D]."""
    batch, heads, rows, columns = gradient.shape
    return gradient.swapaxes(1, 2).reshape(batch, rows, heads * columns)


def bias_gradients(problem: Problem, packed: bool = True) -> Callable:
    """The gradients of a projection's result, and the sums of their rows: of all columns, or of each gradient's."""
    attributes = {"causal": problem.causal, "scale": problem.scale, "precision": problem.precision}

    def function(query, key, value, g):
        result, sums = AttentionPiece(query, key, value, None, **attributes)
        operands = (g, query, key, value, result, None, None, sums)
        gradients = [as_rows(item) for item in AttentionGradient(*operands, **attributes, narrow=True)]
        found = [blu.concatenate(gradients, -1)] if packed else gradients
        return *found, *(item.astype("f32").sum(axis=(0, 1)) for item in found)

    return function


def check_sums(results: list[np.ndarray]) -> None:
    """Sums of what is stored, in any order: f32 sums of up to 512 numbers."""
    for stored, sums in zip(results[: len(results) // 2], results[len(results) // 2 :], strict=True):
        wide = stored.astype(np.float64)
        bound = 512 * 2.0**-24 * np.abs(wide).sum((0, 1))
        assert np.abs(wide).sum() > 0 and (np.abs(sums - wide.sum((0, 1))) <= bound).all()


def has_own_sums(program: GpuProgram) -> bool:
    """Whether nothing but attention reads rows: other kernels add up few ranges, or copy to results."""
    return all(name.startswith(("attention", "loops", "copy")) for name in program.ptx)


SQUARE = Problem("one head", "bf16", (2, 1, 128, 64), (2, 1, 128, 64), 64, causal=True)
PROBLEMS = [
    replace(SQUARE, name="several heads", query=(2, 2, 128, 64), key=(2, 2, 128, 64)),
    replace(SQUARE, name="f16", dtype="f16", query=(1, 2, 256, 32), key=(1, 2, 256, 32), width=32),
    replace(SQUARE, name="grouped heads", query=(2, 4, 128, 16), key=(2, 2, 256, 16), width=16),
    replace(SQUARE, name="panels", query=(2, 2, 128, 80), key=(2, 2, 128, 80), width=128, causal=False),
    replace(SQUARE, name="narrow values", query=(2, 2, 128, 128), key=(2, 2, 128, 128), width=16),
]
LONG_ROWS = replace(SQUARE, name="long rows", query=(1, 2, 128, 256), key=(1, 2, 128, 256), width=136)
TF32 = replace(SQUARE, dtype="f32", precision="tf32")
WIDE_PROBLEMS = [
    replace(TF32, name="several heads of tf32", query=(2, 2, 128, 64), key=(2, 2, 128, 64)),
    replace(TF32, name="narrow rows of tf32", query=(1, 2, 128, 16), key=(1, 2, 128, 16), width=8),
]
ONE_GROUP = {"kind": "wgmma"}
TWO_GROUPS = {"kind": "wgmma", "query_blocks": 1, "key_blocks": 1, "query_groups": 2, "key_groups": 2}


@pytest.mark.parametrize("schedule", [ONE_GROUP, TWO_GROUPS], ids=["one group", "two groups"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_warpgroups_add_up_their_rows(problem: Problem, schedule: dict) -> None:
    packed = problem.query[-2] == problem.key[-2]
    function, arrays = bias_gradients(problem, packed), problem.arrays()
    program = compile_program(function, *arrays, schedules={KERNEL: schedule})
    assert has_own_sums(program)
    check_sums(program.interpret(*arrays))


def test_launches_of_long_rows_add_up_theirs() -> None:
    test_warpgroups_add_up_their_rows(LONG_ROWS, {})


@pytest.mark.parametrize("problem", WIDE_PROBLEMS, ids=lambda problem: problem.name)
def test_a_warpgroup_adds_up_its_rows_of_f32(problem: Problem) -> None:
    test_warpgroups_add_up_their_rows(problem, ONE_GROUP)


def test_launches_of_parts_add_up_their_rows() -> None:
    problem = replace(SQUARE, dtype="f32", query=(1, 2, 128, 72), key=(1, 2, 128, 72), width=64, causal=False)
    test_warpgroups_add_up_their_rows(problem, {"kind": "wgmma_parts"})


@pytest.mark.parametrize("problem", [PROBLEMS[0], WIDE_PROBLEMS[0]], ids=lambda problem: problem.name)
def test_others_leave_sums_to_launches_behind_them(problem: Problem) -> None:
    """Strides decide late what takes a gradient: its sums are there all the same."""
    tiles = {KERNEL: {"kind": "gradient"}}
    arrays = problem.arrays()
    program = compile_program(bias_gradients(problem), *arrays, schedules=tiles)
    assert {f"{KERNEL}_sums_{number}" for number in range(3)} <= set(program.ptx) and has_own_sums(program)
    check_sums(program.interpret(*arrays))


def makes_sums(function: Callable, arrays: list[np.ndarray]) -> bool:
    """Whether a gradient of attention is asked for sums of its rows."""
    return OF_GRADIENT in str(blu.jit(function).trace(*arrays).lower("sm_90a", stop="linalg").module)


@pytest.mark.parametrize(
    ("heads", "is_made"),
    [((2, 2, 128, 64), True), ((3, 2, 96, 64), False), ((8, 2, 32, 64), False), ((1, 2, 128, 64), False)],
    ids=["whole blocks", "no whole blocks", "few rows of a head", "few rows"],
)
def test_where_gradients_are_asked_for_sums(heads: tuple[int, ...], is_made: bool) -> None:
    problem = replace(SQUARE, query=heads, key=heads)
    assert makes_sums(bias_gradients(problem), problem.arrays()) == is_made


@pytest.mark.parametrize("kind", ["all but one row", "every other column", "a gap", "squares", "rows and zeros"])
def test_sums_of_something_else_are_not_those_of_rows(kind: str) -> None:
    """What is seen otherwise, or changed before, is added up as it is."""
    problem = PROBLEMS[0]

    def function(query, key, value, g):
        rows, *_ = bias_gradients(problem, packed=False)(query, key, value, g)
        zeros = blu.zeros(rows.shape, rows.dtype)
        seen = {
            "all but one row": lambda: blu.concatenate([rows, rows], -1)[:, 1:],
            "every other column": lambda: rows[:, :, ::2],
            "a gap": lambda: blu.concatenate([rows, zeros, rows], -1),
            "squares": lambda: rows * rows,
            "rows and zeros": lambda: blu.concatenate([rows, zeros], 1),
        }[kind]()
        return seen, seen.astype("f32").sum(axis=(0, 1))

    arrays = problem.arrays()
    assert not makes_sums(function, arrays)
    check_sums(compile_program(function, *arrays).interpret(*arrays))


def test_sums_of_the_same_gradient_are_made_once() -> None:
    problem = PROBLEMS[0]

    def function(query, key, value, g):
        rows, *others = bias_gradients(problem, packed=False)(query, key, value, g)
        seen = [rows, blu.concatenate([others[0], rows], -1)]
        return *seen, *(item.astype("f32").sum(axis=(0, 1)) for item in seen)

    arrays = problem.arrays()
    program = compile_program(function, *arrays)
    assert has_own_sums(program)
    check_sums(program.interpret(*arrays))


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize(("width", "schedule"), [(64, ONE_GROUP), (128, ONE_GROUP), (128, TWO_GROUPS)])
def test_nothing_is_spilled(width: int, schedule: dict) -> None:
    shape = (2, 4, 1024, width)
    problem = replace(SQUARE, query=shape, key=shape, width=width)
    program = compile_program(bias_gradients(problem), *problem.arrays(), schedules={KERNEL: schedule})
    assert has_own_sums(program) and not program.spills("attention")
