"""Gradients of attention by blocks with 128 keys, which add queries' gradients up in memory, one after the other."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.errors import PassError
from blu.passes.kernels.schedules import Fields, wish_for
from tests.kernels.gpu.attention.test_row_sums import bias_gradients, check_sums, has_own_sums
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import GpuProgram, compile_program
from tests.support.ptx.races import RaceError
from tests.support.ptx.schedule import DeadlockError

GRADIENT, KERNEL = "attention_gradient_0", "attention_gradient_0_joint"
KERNELS = ["attention_gradient_0_numbers", KERNEL, "attention_gradient_0_rounding"]
JOINT = {GRADIENT: {"kind": "wgmma_joint"}}

# Blocks have 128 keys, tiles 64 queries.
SQUARE = Problem("two tiles", "bf16", (1, 128, 128), (1, 128, 128), 128)
PROBLEMS = [
    replace(SQUARE, name="two tiles, causal", causal=True),
    replace(SQUARE, name="one more", dtype="f16", query=(1, 1, 65, 128), key=(1, 1, 129, 128)),
    replace(SQUARE, name="one less", query=(2, 127, 128), key=(2, 255, 128), scale=-0.2),
    replace(SQUARE, name="more queries", dtype="f16", query=(1, 2, 300, 128), key=(1, 2, 300, 128), causal=True),
    replace(SQUARE, name="grouped heads", query=(2, 4, 130, 128), key=(2, 2, 129, 128), causal=True),
    replace(SQUARE, name="an offset", dtype="f16", query=(1, 1, 70, 128), key=(1, 1, 257, 128), causal=True, offset=33),
    replace(SQUARE, name="queries that see nothing", query=(1, 300, 128), key=(1, 130, 128), causal=True),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_results_and_gradients_are_those_of_the_formula(problem: Problem) -> None:
    arrays = problem.arrays()
    program = compile_program(problem.backward(), *arrays, schedules=JOINT)
    assert program.kernels(GRADIENT) == KERNELS
    problem.check(program.interpret(*arrays))


SEVERAL = replace(SQUARE, query=(1, 64, 128), key=(1, 256, 128))


@pytest.mark.parametrize(
    ("text", "other", "error", "message"),
    [
        (r"cp.async.bulk.wait_group\s+0;", "", RaceError, "which another thread has written"),
        (r"ld.acquire.gpu.global.b32 (%r\d+), .*;", r"mov.b32 \1, 9;", RaceError, "which another thread has written"),
        (r"st.release.gpu.global.b32 .*;", "", DeadlockError, "waits for a block that comes later"),
    ],
)
def test_blocks_that_do_not_wait_or_count_are_found(text: str, other: str, error: type, message: str) -> None:
    arrays = SEVERAL.arrays()
    program = compile_program(SEVERAL.backward(), *arrays, schedules=JOINT)
    changed, count = re.subn(text, other, program.ptx[KERNEL])
    assert count
    with pytest.raises(error, match=message):
        replace(program, ptx={**program.ptx, KERNEL: changed}).interpret(*arrays)


def test_blocks_draw_their_numbers() -> None:
    """The first block to begin waits for the other one, where numbers that were drawn change places."""
    arrays = SEVERAL.arrays()
    program = compile_program(SEVERAL.backward(), *arrays, schedules=JOINT)
    drawn = r"(atom.relaxed.gpu.global.add.u32 (%r\d+), .*, 1;)"
    changed, count = re.subn(drawn, r"\1 xor.b32 \2, \2, 1;", program.ptx[KERNEL])
    assert count == 1
    with pytest.raises(DeadlockError, match="waits for a block that comes later"):
        replace(program, ptx={**program.ptx, KERNEL: changed}).interpret(*arrays)


def test_rows_are_added_up() -> None:
    problem = replace(SQUARE, query=(1, 2, 192, 128), key=(1, 2, 192, 128), causal=True)
    function, arrays = bias_gradients(problem), problem.arrays()
    program = compile_program(function, *arrays, schedules=JOINT)
    assert has_own_sums(program) and program.kernels(GRADIENT) == KERNELS
    check_sums(program.interpret(*arrays))


def test_keys_beyond_the_end_have_no_weights() -> None:
    """Scores that are so negative that keys of zeros would weigh infinitely."""
    problem = replace(SQUARE, query=(1, 64, 128), key=(1, 70, 128), scale=1.0)
    query, key, value, g = problem.arrays()
    arrays = np.full_like(query, 4), np.full_like(key, -4), value, g
    found = compile_program(problem.backward(), *arrays, schedules=JOINT).interpret(*arrays)
    assert all(np.isfinite(item.astype(np.float32)).all() for item in found)


def lowered(shape: tuple[int, ...], schedule: Fields | None = None, causal: bool = False) -> GpuProgram:
    """The program of attention's gradients of such operands."""

    def function(query, key, value, g):
        return blu.vjp(lambda *items: blu.attention(*items, causal=causal), query, key, value)[1](g)

    traced = blu.jit(function).trace(*[blu.spec(shape, "bf16")] * 4)
    if schedule is not None:
        wish_for(traced.traced.module, {GRADIENT: schedule})
    return GpuProgram.of(traced.lower("sm_90a").module, "sm_90a")


@pytest.mark.parametrize(
    ("shape", "causal", "is_chosen"),
    [
        ((4, 16, 4096, 128), False, True),
        ((4, 16, 4096, 128), True, False),
        ((1, 16, 8192, 128), False, False),
        ((8, 16, 2048, 128), False, True),
        ((2, 16, 2048, 128), False, False),
        ((16, 16, 1024, 128), False, False),
        ((4, 16, 4096, 96), False, False),
    ],
)
def test_long_rows_that_see_all_are_added_up_so(shape: tuple[int, ...], causal: bool, is_chosen: bool) -> None:
    assert (KERNEL in lowered(shape, causal=causal).ptx) == is_chosen


@pytest.mark.parametrize(
    ("shape", "fields", "message"),
    [
        ((1, 256, 64), {}, "takes rows of 128 numbers of 16 bits"),
        ((1, 20, 128), {}, "takes the sums that the forward has left"),
        ((1, 256, 128), {"stages": 4}, "bytes of shared memory"),
        ((1, 256, 128), {"stages": 9}, "there are 2 to 8"),
    ],
)
def test_a_schedule_that_does_not_fit_is_an_error(shape: tuple[int, ...], fields: Fields, message: str) -> None:
    with pytest.raises(PassError, match=message):
        lowered(shape, {"kind": "wgmma_joint", **fields})


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("causal", [True, False])
def test_nothing_is_kept_in_local_memory(causal: bool) -> None:
    assert not lowered((4, 16, 4096, 128), JOINT[GRADIENT], causal).spills(KERNEL)
