"""Attention by Hopper's warpgroups: results in an interpreter of PTX, where it is chosen, what ptxas makes of it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.targets.nvidia import TARGETS
from blu.errors import PassError
from blu.passes.gpu.attention.warpgroups.order import heads_together, is_one_round
from blu.passes.kernels.schedules import Fields, wish_for
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import DTYPES, GpuProgram, compile_program

GRADIENTS = ("attention_gradient_0_query", "attention_gradient_0_key")

# Blocks have 64 rows, tiles 64.
PROBLEMS = [
    Problem("one of all", "bf16", (1, 1, 64), (1, 1, 64), 64, causal=True),
    Problem("one less than a tile, and one more", "f16", (1, 63, 64), (1, 65, 64), 64),
    Problem("several blocks and stages", "bf16", (1, 129, 64), (1, 200, 64), 64, causal=True),
    Problem("queries that see nothing", "bf16", (1, 130, 64), (1, 60, 64), 64, causal=True),
    Problem("an offset", "f16", (1, 70, 64), (1, 130, 64), 64, causal=True, offset=33),
    Problem("grouped heads", "bf16", (2, 4, 66, 32), (2, 2, 64, 32), 32, causal=True),
    Problem("heads that take turns", "bf16", (2, 3, 129, 16), (2, 3, 129, 16), 16, causal=True),
    Problem("grouped heads that see all", "f16", (1, 2, 64, 40), (1, 1, 67, 40), 40, scale=-0.2),
    Problem("panels of 64 and 16 columns", "bf16", (1, 64, 80), (1, 66, 80), 80, causal=True, scale=0.1),
    Problem("rows of different lengths", "f16", (1, 65, 128), (1, 64, 128), 72, scale=0.09),
    Problem("tf32: a tile", "f32", (1, 64, 64), (1, 64, 64), 64, precision="tf32"),
    Problem("tf32: one less, and one more", "f32", (1, 63, 64), (1, 65, 64), 64, precision="tf32"),
    Problem("tf32: several blocks", "f32", (1, 129, 64), (1, 200, 64), 64, causal=True, precision="tf32"),
    Problem("tf32: queries that see nothing", "f32", (1, 130, 64), (1, 60, 64), 64, causal=True, precision="tf32"),
    Problem("tf32: an offset", "f32", (1, 70, 32), (1, 130, 32), 32, causal=True, offset=33, precision="tf32"),
    Problem("tf32: grouped heads", "f32", (1, 4, 66, 40), (1, 2, 64, 40), 24, causal=True, precision="tf32"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_results_and_gradients_are_those_of_the_formula(problem: Problem) -> None:
    arrays = problem.arrays()
    forward = problem.forward_kernel()
    wished = {name: {"kind": "wgmma"} for name in (forward, "attention_gradient_0")}
    ptx = (program := compile_program(problem.backward(), *arrays, schedules=wished)).ptx
    assert all("wgmma.mma_async" in ptx[name] and "mma.sync" not in ptx[name] for name in (forward, *GRADIENTS))
    problem.check(program.interpret(*arrays))


@pytest.mark.parametrize(
    ("heads", "length", "together"), [(1, 1024, 1), (12, 1024, 12), (32, 4096, 8), (7, 8192, 1), (2, 1 << 20, 1)]
)
def test_heads_take_turns_as_long_as_what_they_read_is_cached(heads: int, length: int, together: int) -> None:
    rows = (2, heads, length, 64)
    assert heads_together(rows, [rows, rows], 2) == together


def test_four_blocks_of_a_processor_are_there_at_a_time() -> None:
    target = TARGETS["sm_90a"]
    assert [is_one_round(blocks, target) for blocks in (528, 529)] == [True, False]


@pytest.mark.parametrize(
    ("shape", "causal", "keys"),
    [
        ((16, 2048, 64), True, 128),
        ((1, 17, 1984, 64), True, 64),
        ((17, 2048, 64), True, 64),
        ((16, 2048, 64), False, 64),
        ((2, 2048, 80), True, 64),
    ],
)
def test_long_causal_rows_whose_blocks_are_there_at_a_time_take_larger_tiles(
    shape: tuple[int, ...], causal: bool, keys: int
) -> None:
    traced = blu.jit(lambda *items: blu.attention(*items, causal=causal)).trace(*[blu.spec(shape, "bf16")] * 3)
    maps = GpuProgram.of(traced.lower("sm_90a").module, "sm_90a").plan["tensor_maps"]
    assert [item["box"][1] for item in maps] == [64, keys, keys]


LONG = Problem("all stages", "bf16", (1, 70, 64), (1, 260, 64), 64, causal=True)


@pytest.mark.parametrize(
    ("forward", "gradient"),
    [
        ({"keys": 128, "per_processor": 2}, {"keys": 32, "key_stages": 3, "queries": 16, "query_stages": 4}),
        ({"keys": 48, "stages": 5, "per_processor": 2}, {"keys": 96, "query_blocks": 2, "queries": 32}),
    ],
)
def test_schedules_are_emitted_as_is_wished(forward: Fields, gradient: Fields) -> None:
    arrays = LONG.arrays()
    wished = {LONG.forward_kernel(): forward, "attention_gradient_0": gradient}
    LONG.check(compile_program(LONG.backward(), *arrays, schedules=wished).interpret(*arrays))


def test_packed_operands_are_read_in_place() -> None:
    packed = np.random.default_rng(0).standard_normal((2, 70, 3, 2, 64)).astype(DTYPES["bf16"])

    def function(packed):
        return blu.attention(*(packed[:, :, place].swapaxes(1, 2) for place in range(3)), causal=True)

    program = compile_program(function, packed)
    assert list(program.ptx) == ["attention_0"] and "wgmma" in program.ptx["attention_0"]
    [launch] = program.plan["launches"]
    maps = program.plan["tensor_maps"]
    assert [item[0] for item in launch["args"]] == ["input"] * 3 + ["output"] + ["map"] * 3
    assert [item["shape"] for item in maps] == [[64, 70, 2, 2]] * 3
    assert [item["offset"] for item in maps] == [0, 128, 256]
    by_warps = compile_program(function, packed, schedules={"attention_0": {"kind": "tiles"}})
    found, expected = (item.interpret(packed)[0].astype(np.float64) for item in (program, by_warps))
    np.testing.assert_allclose(found, expected, rtol=2**-7, atol=2**-9)


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize(
    ("dtype", "width", "causal"),
    [("bf16", 64, True), ("f16", 80, False), ("bf16", 128, True), ("f32", 64, True), ("f32", 64, False)],
)
def test_nothing_is_spilled_or_serialized(dtype: str, width: int, causal: bool) -> None:
    shape = (2, 4, 1024, width)
    problem = Problem("", dtype, shape, shape, width, causal=causal, precision="tf32")
    program = compile_program(problem.backward(), *problem.arrays())
    assert {problem.forward_kernel(), *GRADIENTS} <= set(program.kernels("attention"))
    assert not program.spills("attention")


SQUARE = Problem("square", "bf16", (2, 128, 64), (2, 128, 64), 64)
TF32 = replace(SQUARE, dtype="f32", precision="tf32")


@pytest.mark.parametrize(
    ("problem", "target", "is_by_warpgroups"),
    [
        (SQUARE, "sm_90a", True),
        (SQUARE, "sm_89", False),
        (TF32, "sm_90a", True),
        (replace(TF32, query=(2, 128, 60), key=(2, 128, 60)), "sm_90a", False),
        (replace(TF32, step=2), "sm_90a", False),
        (replace(SQUARE, mask=(128, 128)), "sm_90a", False),
        (replace(SQUARE, query=(2, 20, 64)), "sm_90a", False),
        (replace(SQUARE, query=(2, 128, 60), key=(2, 128, 60)), "sm_90a", False),
        (replace(SQUARE, step=2), "sm_90a", False),
    ],
)
def test_where_warpgroups_are_chosen(problem: Problem, target: str, is_by_warpgroups: bool) -> None:
    program = compile_program(problem.backward(), *problem.arrays(), target=target)
    attention = [program.written(name) for name in program.kernels("attention")]
    assert len(attention) >= 3 and {"wgmma" in text for text in attention} == {is_by_warpgroups}


@pytest.mark.parametrize(
    ("problem", "fields", "target", "message"),
    [
        (SQUARE, {}, "sm_89", "kind 'wgmma' is for Hopper's warpgroups, which sm_89 has none of"),
        (replace(SQUARE, dtype="f32"), {}, "sm_90a", "multiplies numbers of 16 bits and tf32, not of 32 bits"),
        (replace(SQUARE, mask=(128, 128)), {}, "sm_90a", "leaves no registers for a mask"),
        (replace(SQUARE, width=60), {}, "sm_90a", "takes rows of multiples of 8 columns"),
        (replace(SQUARE, query=(2, 0, 64)), {}, "sm_90a", "takes at least one query and one key"),
        (replace(SQUARE, step=2), {}, "sm_90a", "the copy engine reads rows of multiples of 16 bytes"),
        (SQUARE, {"keys": 40}, "sm_90a", "keys = 40: a tile has multiples of 16 rows, at most 256"),
        (SQUARE, {"stages": 1}, "sm_90a", "stages = 1: there are 2 to 8"),
        (SQUARE, {"keys": 128}, "sm_90a", "sums and factors take 128 registers of each thread, and 4 blocks have 116"),
        (TF32, {"keys": 32}, "sm_90a", "keys = 32: a tile of 32 bits has multiples of 64 rows"),
        (TF32, {"per_processor": 4}, "sm_90a", "sums and factors take 128 registers of each thread, and 4 blocks"),
        (TF32, {"kind": "wgmma_shared"}, "sm_90a", "groups share tiles of 16 bits, not of 32"),
        (SQUARE, {"stages": 4}, "sm_90a", "4 blocks take 74832 bytes of shared memory each, a processor has 233472"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(problem: Problem, fields: Fields, target: str, message: str) -> None:
    traced = blu.jit(problem.forward()).trace(*(blu.spec(item.shape, _name(item)) for item in problem.arrays()))
    wish_for(traced.traced.module, {"attention_0": {"kind": "wgmma", **fields}})
    with pytest.raises(PassError, match=re.escape(message)):
        traced.lower(target)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"queries": 48}, "queries = 48: the numbers of queries are there for each 64 of them"),
        ({"key_stages": 9}, "key_stages = 9: there are 2 to 8"),
        ({"key_blocks": 4}, "sums and factors take 128 registers of each thread, and 4 blocks have 116"),
    ],
)
def test_a_schedule_of_gradients_that_does_not_fit_is_refused(fields: Fields, message: str) -> None:
    traced = blu.jit(SQUARE.backward()).trace(*(blu.spec(item.shape, _name(item)) for item in SQUARE.arrays()))
    wish_for(traced.traced.module, {"attention_gradient_0": {"kind": "wgmma", **fields}})
    with pytest.raises(PassError, match=re.escape(message)):
        traced.lower("sm_90a")


def test_a_number_that_is_none_stays_so_in_tf32() -> None:
    """Queries that see a key that is no number have no result; those before it have theirs."""
    problem = replace(TF32, query=(1, 128, 64), key=(1, 128, 64), causal=True)
    arrays = problem.arrays()
    arrays[1][0, 100, 3] = arrays[3][0, 40, 5] = np.nan
    result, of_query, of_key, of_value = compile_program(problem.backward(), *arrays).interpret(*arrays)
    rows = lambda found: {*np.unique(np.argwhere(np.isnan(found))[:, 1])}  # noqa: E731
    assert rows(result) == {*range(100, 128)} and rows(of_query) >= {40, *range(100, 128)}
    assert rows(of_key) == rows(of_value) == {*range(128)}


def _name(array: np.ndarray) -> str:
    return next(name for name, dtype in DTYPES.items() if array.dtype == dtype)
