"""Attention of f32 by Hopper's warpgroups, of parts: results in an interpreter of PTX, where it is chosen, spills."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.errors import PassError
from blu.passes.gpu.attention.warpgroups.parts import products
from blu.passes.kernels.schedules import Fields, wish_for
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import compile_program

GRADIENTS = [f"attention_gradient_0_{suffix}" for suffix in ("parts", "query", "value", "key")]
FORWARD = ["attention_piece_0_parts", "attention_piece_0"]

# Blocks have 128 rows forward, 64 in the gradients; tiles 64.
PROBLEMS = [
    Problem("a tile", "f32", (1, 64, 72), (1, 64, 72), 72, scale=0.1),
    Problem("one less than a block, and one more than a tile", "f32", (2, 127, 72), (2, 65, 72), 96, scale=0.1),
    Problem("queries that see nothing", "f32", (1, 130, 128), (1, 68, 128), 128, causal=True, scale=-0.1),
    Problem("grouped heads, an offset", "f32", (2, 70, 72), (1, 150, 72), 80, causal=True, offset=33, scale=0.1),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_results_and_gradients_are_those_of_the_formula(problem: Problem) -> None:
    arrays = problem.arrays()
    program = compile_program(problem.backward(), *arrays)
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


def test_blocks_that_stay_go_through_several_items() -> None:
    problem = Problem("heads", "f32", (3, 1, 129, 72), (3, 1, 66, 72), 72, causal=True)
    arrays = problem.arrays()
    program = compile_program(problem.forward(), *arrays)
    launch = next(item for item in program.plan["launches"] if item["kernel"] == "attention_0")
    assert launch["grid"][0] == 6
    problem.check(program.interpret(*arrays))


def test_all_products_above_the_last_part_are_added_up_the_small_ones_first() -> None:
    assert products(2) == [(0, 1), (1, 0), (0, 0)]
    assert products(3) == [(0, 2), (1, 1), (2, 0), (0, 1), (1, 0), (0, 0)]


def test_operands_may_have_any_strides() -> None:
    """A launch brings them into parts: the copy engine does not read them where they are."""
    problem = Problem("every other column", "f32", (1, 64, 72), (1, 64, 72), 72, step=2, scale=0.1)
    arrays = problem.arrays()
    program = compile_program(problem.forward(), *arrays)
    assert "attention_0_parts" in program.ptx
    problem.check(program.interpret(*arrays))


def test_a_number_that_is_none_stays_so() -> None:
    """Queries that see a key that is no number have no result; those before it have theirs."""
    problem = Problem("", "f32", (1, 128, 72), (1, 128, 72), 72, causal=True)
    arrays = problem.arrays()
    arrays[1][0, 100, 3] = np.nan
    (result,) = compile_program(problem.forward(), *arrays).interpret(*arrays)
    assert {*np.unique(np.argwhere(np.isnan(result))[:, 1])} == {*range(100, 128)}


SQUARE = Problem("square", "f32", (2, 128, 72), (2, 128, 72), 72)


@pytest.mark.parametrize(
    ("problem", "target", "is_by_parts"),
    [
        (SQUARE, "sm_90a", True),
        (SQUARE, "sm_89", False),
        (replace(SQUARE, query=(2, 128, 64), key=(2, 128, 64), width=64), "sm_90a", False),
        (replace(SQUARE, mask=(128, 128)), "sm_90a", False),
        (replace(SQUARE, query=(2, 63, 72)), "sm_90a", False),
        (replace(SQUARE, query=(2, 2, 2, 128, 72), key=(2, 2, 2, 128, 72)), "sm_90a", False),
    ],
)
def test_where_parts_are_chosen(problem: Problem, target: str, is_by_parts: bool) -> None:
    ptx = compile_program(problem.forward(), *problem.arrays(), target=target).ptx
    assert any(name.endswith("_parts") for name in ptx) == is_by_parts


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
