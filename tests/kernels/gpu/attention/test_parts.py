"""Attention of f32 by Hopper's warpgroups, of parts: results in an interpreter of PTX, where it is chosen, spills."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.targets import nvidia
from blu.errors import PassError
from blu.passes.gpu.attention.warpgroups.parts import products
from blu.passes.kernels.schedules import Fields, wish_for
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import compile_program

GRADIENTS = [f"attention_gradient_0_{suffix}" for suffix in ("parts", "query", "key")]
FORWARD = ["attention_piece_0_parts", "attention_piece_0"]
PARTS: Fields = {"kind": "wgmma_parts"}
"""What is chosen from 512 queries and keys on."""

# Blocks have 128 rows forward, 64 in the gradients; tiles 64.
PROBLEMS = [
    Problem("a tile", "f32", (1, 64, 72), (1, 64, 72), 72, scale=0.1),
    Problem("one less than a block, and one more than a tile", "f32", (2, 127, 72), (2, 65, 72), 96, scale=0.1),
    Problem("queries that see nothing", "f32", (1, 130, 128), (1, 68, 128), 128, causal=True, scale=-0.1),
    Problem("grouped heads, an offset", "f32", (2, 70, 72), (1, 150, 72), 80, causal=True, offset=33, scale=0.1),
    Problem("keys that nobody sees", "f32", (2, 64, 72), (1, 136, 72), 72, causal=True, offset=0, scale=0.1),
    Problem("several tiles without a mask", "f32", (1, 64, 64), (1, 200, 64), 64),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_results_and_gradients_are_those_of_the_formula(problem: Problem) -> None:
    arrays = problem.arrays()
    program = compile_program(problem.backward(), *arrays, schedules={FORWARD[1]: PARTS})
    assert list(program.ptx) == [*FORWARD, *GRADIENTS]
    products = [text for name, text in program.ptx.items() if not name.endswith("parts")]
    assert all("bf16.bf16" in text and "tf32" not in text and "mma.sync" not in text for text in products)
    problem.check(program.interpret(*arrays))


TF32 = [
    Problem("one more than a tile, one less", "f32", (1, 65, 72), (1, 63 + 1, 72), 96, scale=0.1, precision="tf32"),
    Problem("several tiles", "f32", (2, 66, 80), (1, 130, 80), 72, causal=True, offset=33, precision="tf32"),
]


@pytest.mark.parametrize("problem", TF32, ids=lambda problem: problem.name)
def test_gradients_of_tf32_are_found_of_two_parts(problem: Problem) -> None:
    arrays = problem.arrays()
    program = compile_program(problem.backward(), *arrays)
    assert list(program.ptx) == [FORWARD[1], *GRADIENTS]
    assert "tf32.tf32" in program.ptx[FORWARD[1]] and "bf16.bf16" in program.ptx[GRADIENTS[1]]
    problem.check(program.interpret(*arrays))


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_that_stay_go_through_several_items(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors have all; with a mask, there is a block for each."""
    for table in (nvidia.TARGETS, nvidia.GPU_TARGETS):
        monkeypatch.setitem(table, "sm_90a", replace(nvidia.TARGETS["sm_90a"], processors=2))
    problem = Problem("heads", "f32", (3, 1, 129, 72), (3, 1, 66, 72), 72, causal=causal)
    arrays = problem.arrays()
    program = compile_program(problem.forward(), *arrays, schedules={"attention_0": PARTS})
    launch = next(item for item in program.plan["launches"] if item["kernel"] == "attention_0")
    assert launch["grid"][0] == (6 if causal else 2)
    problem.check(program.interpret(*arrays))


def test_all_products_above_the_last_part_are_added_up_the_small_ones_first() -> None:
    assert products(2) == [(0, 1), (1, 0), (0, 0)]
    assert products(3) == [(0, 2), (1, 1), (2, 0), (0, 1), (1, 0), (0, 0)]


def test_operands_may_have_any_strides() -> None:
    """A launch brings them into parts: the copy engine does not read them where they are."""
    problem = Problem("every other column", "f32", (1, 64, 72), (1, 64, 72), 72, step=2, scale=0.1)
    arrays = problem.arrays()
    program = compile_program(problem.forward(), *arrays, schedules={"attention_0": PARTS})
    assert "attention_0_parts" in program.ptx
    problem.check(program.interpret(*arrays))


def test_a_number_that_is_none_stays_so() -> None:
    """Queries that see a key that is no number have no result; those before it have theirs."""
    problem = Problem("", "f32", (1, 128, 72), (1, 128, 72), 72, causal=True)
    arrays = problem.arrays()
    arrays[1][0, 100, 3] = np.nan
    (result,) = compile_program(problem.forward(), *arrays, schedules={"attention_0": PARTS}).interpret(*arrays)
    assert {*np.unique(np.argwhere(np.isnan(result))[:, 1])} == {*range(100, 128)}


def test_what_is_infinite_is_nan_where_it_takes_part() -> None:
    """As docs/numerics.md has it: of what rounds to infinity, the rest is infinite with the other sign."""
    problem = Problem("", "f32", (1, 64, 72), (1, 64, 72), 72, scale=0.1)
    arrays = problem.arrays()
    arrays[2][0, 3, 5], arrays[2][0, 4, 6], arrays[2][0, 5, 7] = np.inf, np.finfo(np.float32).max, 3.3961e38
    found = compile_program(problem.forward(), *arrays, schedules={"attention_0": PARTS}).interpret(*arrays)[0]
    assert np.isnan(found[..., 5:7]).all() and np.isfinite(np.delete(found, (5, 6), axis=-1)).all()


SQUARE = Problem("square", "f32", (2, 128, 72), (2, 128, 72), 72)
LONG = replace(SQUARE, query=(2, 512, 72), key=(2, 512, 72))


@pytest.mark.parametrize(
    ("problem", "target", "suffixes"),
    [
        (LONG, "sm_90a", {"piece_0", "gradient_0"}),
        (LONG, "sm_89", set()),
        (SQUARE, "sm_90a", {"gradient_0"}),
        (replace(LONG, query=(2, 511, 32), key=(2, 512, 32), width=8), "sm_90a", {"gradient_0"}),
        (replace(SQUARE, query=(2, 128, 24), key=(2, 128, 24), width=24), "sm_90a", set()),
        (replace(SQUARE, mask=(128, 128)), "sm_90a", set()),
        (replace(SQUARE, query=(2, 63, 72)), "sm_90a", set()),
        (replace(SQUARE, query=(2, 2, 2, 128, 72), key=(2, 2, 2, 128, 72)), "sm_90a", set()),
    ],
)
def test_where_parts_are_chosen(problem: Problem, target: str, suffixes: set[str]) -> None:
    ptx = compile_program(problem.backward(), *problem.arrays(), target=target).ptx
    assert {name for name in ptx if name.endswith("_parts")} == {f"attention_{item}_parts" for item in suffixes}


@pytest.mark.parametrize(
    ("problem", "fields", "target", "message"),
    [
        (SQUARE, {}, "sm_89", "kind 'wgmma_parts' is for Hopper's warpgroups, which sm_89 has none of"),
        (replace(SQUARE, dtype="bf16"), {}, "sm_90a", "multiplies parts of numbers of 32 bits, not of 16"),
        (replace(SQUARE, mask=(128, 128)), {}, "sm_90a", "kind 'wgmma_parts' leaves no registers for a mask"),
        (SQUARE, {"parts": 4}, "sm_90a", "parts = 4: there are 2, 3"),
        (SQUARE, {"groups": 4}, "sm_90a", "groups = 4: there are 2, 3"),
        (SQUARE, {"keys": 128}, "sm_90a", "sums and factors take 232 registers of each thread, and 2 groups have 228"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(problem: Problem, fields: Fields, target: str, message: str) -> None:
    specs = [blu.spec(item.shape, "bf16" if item.itemsize == 2 else str(item.dtype)) for item in problem.arrays()]
    traced = blu.jit(problem.forward()).trace(*specs)
    wish_for(traced.traced.module, {"attention_0": {"kind": "wgmma_parts", **fields}})
    with pytest.raises(PassError, match=re.escape(message)):
        traced.lower(target)


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize(("causal", "precision"), [(True, "highest"), (False, "tf32")])
def test_nothing_is_spilled_or_serialized(causal: bool, precision: str) -> None:
    shape = (2, 4, 1024, 128)
    problem = Problem("", "f32", shape, shape, 128, causal=causal, precision=precision)
    program = compile_program(problem.backward(), *problem.arrays())
    assert {FORWARD[1], *GRADIENTS} <= set(program.kernels("attention"))
    assert not program.spills("attention")
