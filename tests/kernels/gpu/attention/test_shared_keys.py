"""Attention by Hopper's warpgroups that share tiles: results in an interpreter of PTX, and what ptxas makes of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.targets import nvidia
from blu.errors import PassError
from blu.passes.kernels.schedules import Fields, wish_for
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import GpuProgram, compile_program

FORWARD = {"kind": "wgmma_shared", "groups": 2, "keys": 64, "stages": 2}
ONE_BLOCK = {"query_blocks": 1, "key_blocks": 1, "query_groups": 2, "key_groups": 2}
GRADIENT = {"kind": "wgmma", **ONE_BLOCK}

# Groups have 64 rows, blocks 128, tiles 64.
PROBLEMS = [
    Problem("one of all", "bf16", (1, 1, 16), (1, 1, 16), 16, causal=True),
    Problem("one less than a block, and a tile", "f16", (1, 127, 24), (1, 63, 24), 24),
    Problem("one more than a block, and a tile", "bf16", (1, 129, 16), (1, 65, 16), 16, causal=True),
    Problem("several tiles, grouped heads", "f16", (1, 2, 130, 72), (1, 1, 136, 72), 40, causal=True, offset=33),
    Problem("queries that see nothing", "bf16", (1, 130, 16), (1, 60, 16), 16, causal=True, scale=-0.2),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_results_and_gradients_are_those_of_the_formula(problem: Problem) -> None:
    arrays = problem.arrays()
    wished = {problem.forward_kernel(): FORWARD, "attention_gradient_0": GRADIENT}
    program = compile_program(problem.backward(), *arrays, schedules=wished)
    assert all("setmaxnreg" in ptx for name, ptx in program.ptx.items() if name.startswith("attention"))
    problem.check(program.interpret(*arrays))


# Above 192 columns tiles have 80 keys forward, 48 and 32 in the gradients; above 128 112 and 64.
LONG_ROWS = [
    Problem("one less than a block, and a tile", "bf16", (1, 127, 256), (1, 79, 256), 256, scale=0.06),
    Problem("one more, grouped heads", "f16", (1, 2, 129, 200), (1, 1, 81, 200), 200, causal=True, scale=0.06),
    Problem("several tiles and stages", "bf16", (1, 190, 256), (1, 170, 256), 136, causal=True, offset=9, scale=0.06),
    Problem("three panels", "bf16", (1, 65, 136), (1, 113, 136), 192, causal=True, scale=0.09),
]


@pytest.mark.parametrize("problem", LONG_ROWS, ids=lambda problem: problem.name)
def test_gradients_of_keys_and_values_of_long_rows_are_found_apart(problem: Problem) -> None:
    arrays = problem.arrays()
    program = compile_program(problem.backward(), *arrays)
    assert {FORWARD_NAME, QUERY, VALUE, KEY} <= {name for name, ptx in program.ptx.items() if "setmaxnreg" in ptx}
    problem.check(program.interpret(*arrays))


@pytest.mark.parametrize("blocks", ["stay", "once"])
@pytest.mark.parametrize(("groups", "keys", "stages"), [(2, 64, 3), (3, 32, 2)])
def test_blocks_walk_over_several_heads(
    blocks: str, groups: int, keys: int, stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(nvidia.TARGETS["sm_90a"], processors=2)
    for table in (nvidia.TARGETS, nvidia.GPU_TARGETS):
        monkeypatch.setitem(table, "sm_90a", small)
    problem = Problem(blocks, "bf16", (1, 3, 200, 16), (1, 3, 130, 16), 16, causal=True, offset=3)
    arrays, wished = problem.arrays(), {**FORWARD, "groups": groups, "keys": keys, "stages": stages, "blocks": blocks}
    program = compile_program(problem.forward(), *arrays, schedules={"attention_0": wished})
    assert program.plan["launches"][0]["grid"] == [2 if blocks == "stay" else 6, 1, 1]
    problem.check(program.interpret(*arrays))


FULL = Problem("full", "bf16", (66, 256, 128), (66, 64, 128), 128)
CAUSAL = Problem("causal", "bf16", (9, 2048, 128), (9, 64, 128), 128, causal=True)
FORWARD_NAME, QUERY, KEY = "attention_piece_0", "attention_gradient_0_query", "attention_gradient_0_key"
VALUE = "attention_gradient_0_value"


@pytest.mark.parametrize(
    ("problem", "sharing"),
    [
        (FULL, {FORWARD_NAME}),
        (CAUSAL, {FORWARD_NAME, QUERY}),
        (replace(FULL, query=(66, 256, 80), key=(66, 64, 80), width=80), {FORWARD_NAME, QUERY}),
        (replace(FULL, query=(66, 256, 64), key=(66, 64, 64), width=64), set()),
        (replace(FULL, query=(65, 256, 128), key=(65, 64, 128)), set()),
        (replace(CAUSAL, query=(9, 1008, 128)), set()),
        (replace(CAUSAL, query=(17, 1008, 128), key=(17, 64, 128)), {FORWARD_NAME}),
        (replace(CAUSAL, query=(9, 2048, 96), key=(9, 64, 96), width=96), {FORWARD_NAME, QUERY}),
    ],
)
def test_where_groups_share_tiles(problem: Problem, sharing: set[str]) -> None:
    shapes = problem.query, problem.key, (*problem.key[:-1], problem.width), (*problem.query[:-1], problem.width)
    traced = blu.jit(problem.backward()).trace(*(blu.spec(shape, "bf16") for shape in shapes))
    program = GpuProgram.of(traced.lower("sm_90a").module, "sm_90a")
    assert {name for name in program.ptx if "setmaxregister" in program.written(name)} == sharing


SQUARE = Problem("square", "bf16", (2, 128, 128), (2, 128, 128), 128)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        (FORWARD_NAME, {**FORWARD, "groups": 4}, "groups = 4: there are 2, 3"),
        (FORWARD_NAME, {**FORWARD, "blocks": "twice"}, "blocks = 'twice': blocks 'stay', or come 'once'"),
        (FORWARD_NAME, {**FORWARD, "keys": 40}, "keys = 40: a tile has multiples of 16 rows, at most 256"),
        (FORWARD_NAME, {**FORWARD, "stages": 6}, "tiles take 264416 bytes of shared memory"),
        (
            FORWARD_NAME,
            {**FORWARD, "groups": 3, "keys": 128},
            "take 160 registers of each thread, and 3 groups have 148",
        ),
        (
            "attention_gradient_0",
            {"kind": "wgmma", **ONE_BLOCK, "keys": 176},
            "240 registers of each thread, and 2 groups",
        ),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(name: str, fields: Fields, message: str) -> None:
    traced = blu.jit(SQUARE.backward()).trace(*[blu.spec(SQUARE.query, "bf16")] * 4)
    wish_for(traced.traced.module, {name: fields})
    with pytest.raises(PassError, match=re.escape(message)):
        traced.lower("sm_90a")


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("columns", [192, 256])
def test_nothing_is_spilled_of_long_rows(columns: int) -> None:
    shape = (1, 1, 512, columns)
    problem = Problem("", "bf16", shape, shape, columns, causal=columns == 192)
    program = compile_program(problem.backward(), *problem.arrays())
    assert {FORWARD_NAME, QUERY, VALUE, KEY} <= set(program.kernels("attention"))
    assert not program.spills("attention")


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("causal", [False, True])
def test_nothing_is_spilled_or_serialized(causal: bool) -> None:
    problem = Problem("", "bf16", (1, 1, 512, 128), (1, 1, 512, 128), 128, causal=causal)
    gradient = {"kind": "wgmma", **ONE_BLOCK, "keys": 96}
    wished = {FORWARD_NAME: {"kind": "wgmma_shared", "groups": 2, "keys": 128}, "attention_gradient_0": gradient}
    program = compile_program(problem.backward(), *problem.arrays(), schedules=wished)
    assert {FORWARD_NAME, QUERY, KEY} <= set(program.kernels("attention"))
    assert not program.spills("attention")
