"""Attention on GPUs: results of its kernels in an interpreter of PTX, and what ptxas makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.ops.attention import Attention
from blu.passes.kernels.schedules import Fields
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import DTYPES, compile_program

PROBLEMS = [
    Problem("two strips", "bf16", (1, 1, 96, 64), (1, 1, 96, 64), 64, causal=True),
    Problem("full", "f16", (1, 2, 20, 32), (1, 2, 70, 32), 32),
    Problem("grouped heads of odd lengths", "f16", (1, 4, 37, 48), (1, 2, 75, 48), 40, causal=True),
    Problem("rows that see nothing", "bf16", (1, 1, 40, 16), (1, 1, 24, 16), 16, causal=True),
    Problem("unaligned rows", "bf16", (2, 9, 5), (1, 13, 5), 7, scale=-0.5),
    Problem("long rows", "bf16", (1, 18, 256), (1, 40, 256), 256, scale=0.06),
    Problem("key mask", "bf16", (2, 2, 18, 16), (2, 2, 30, 16), 16, mask=(2, 1, 1, 30)),
    Problem("full mask", "f16", (2, 18, 16), (2, 30, 16), 16, mask=(2, 18, 30)),
    Problem("a full mask of rows of 16 bytes", "f16", (1, 1, 72, 8), (1, 1, 24, 8), 8, mask=(72, 24)),
    Problem("rows of 16 bytes for two warps", "bf16", (1, 30, 16), (1, 24, 16), 8, scale=-0.5),
    Problem("added mask", "f16", (2, 18, 16), (2, 30, 16), 16, causal=True, mask=(18, 30), mask_dtype="f16"),
    Problem("a mask of one number", "f16", (2, 18, 16), (2, 30, 16), 16, mask=(), mask_dtype="f16"),
    Problem("a cache", "bf16", (4, 12, 32), (2, 150, 32), 32, causal=True, offset=70),
    Problem("long rows of queries that see nothing", "bf16", (1, 66, 136), (1, 2, 136), 136, causal=True, scale=0.08),
    Problem("a first query before all keys", "bf16", (2, 20, 16), (2, 20, 16), 16, causal=True, offset=-5),
]


# f32 is multiplied as three products of tf32.
WIDE = [
    Problem("f32", "f32", (1, 2, 37, 32), (1, 1, 45, 32), 32, causal=True),
    Problem("f32 in unaligned rows", "f32", (2, 20, 5), (1, 33, 5), 7, scale=-0.5),
    Problem("f32 in rows of half a block", "f32", (2, 20, 4), (1, 33, 4), 12),
    Problem("f32 among many keys", "f32", (1, 16, 16), (1, 512, 16), 16),
    Problem("f32 in long rows", "f32", (1, 18, 128), (1, 20, 128), 96, scale=0.08),
    Problem("long rows of f32 in many tiles", "f32", (1, 2, 130, 72), (1, 1, 81, 72), 80, causal=True),
    Problem("longest rows of f32 in two warps", "f32", (1, 67, 128), (1, 66, 128), 128, causal=True, scale=0.09),
]

# Factors are rounded to tf32, which the operands already are.
ROUNDED = [
    Problem("tf32", "f32", (1, 2, 37, 32), (1, 1, 45, 32), 32, causal=True, precision="tf32"),
    Problem("tf32 in unaligned rows", "f32", (2, 20, 5), (1, 33, 5), 7, scale=-0.5, precision="tf32"),
    Problem("tf32 in two strips", "f32", (1, 129, 64), (1, 70, 64), 64, causal=True, precision="tf32"),
    Problem("tf32 in long rows", "f32", (1, 18, 128), (1, 20, 128), 96, scale=0.08, precision="tf32"),
]

# Few queries have a kernel of their own.
DECODING = [
    Problem("one query", "bf16", (1, 4, 1, 64), (1, 2, 200, 64), 64, causal=True, offset=130),
    Problem("f32", "f32", (2, 1, 64), (2, 300, 64), 64, causal=True, offset=299),
    Problem("eight blocks, of which some see nothing", "bf16", (2, 1, 40), (1, 520, 40), 40, causal=True, offset=30),
    Problem("some queries", "f16", (2, 4, 80), (2, 70, 80), 80, causal=True),
    Problem("long rows", "f32", (1, 2, 256), (1, 70, 256), 256),
    Problem("nothing to see", "f32", (1, 2, 32), (1, 70, 32), 32, causal=True, offset=-1),
    Problem("mask", "f32", (2, 3, 8), (2, 70, 8), 8, mask=(2, 3, 70), scale=-0.3),
]


@pytest.mark.parametrize("problem", PROBLEMS + WIDE + ROUNDED, ids=lambda problem: problem.name)
def test_results_and_gradients_are_those_of_the_formula(problem: Problem) -> None:
    arrays = problem.arrays()
    schedules = by_warps(problem) if problem in WIDE else {}
    found = compile_program(problem.backward(), *arrays, schedules=schedules).interpret(*arrays)
    problem.check(found)
    if problem.causal or problem.mask:
        assert not found[0][np.all(problem.references()[0] == 0, axis=-1)].any()


@pytest.mark.parametrize("problem", DECODING, ids=lambda problem: problem.name)
def test_few_queries_are_done_one_by_one(problem: Problem) -> None:
    arrays = problem.arrays()
    program = compile_program(problem.forward(), *arrays)
    problem.check(program.interpret(*arrays))
    assert "mma" not in program.ptx["attention_0"]
    if find_ptxas() is not None:
        assert not program.spills("attention")


def test_tf32_is_rounded_to_nearest_and_multiplied_once() -> None:
    """A third of the products; and factors that are cut rather than rounded would have twice the error."""
    exact = Problem("", "f32", (1, 64, 64), (1, 64, 64), 64, scale=0.125)
    arrays = exact.arrays()
    rounded = replace(exact, precision="tf32").backward()
    split, warps, warpgroups = (
        compile_program(function, *arrays, target=target)
        for function, target in ((exact.backward(), "sm_80"), (rounded, "sm_80"), (rounded, "sm_90a"))
    )
    counts = [sum(text.count("mma.sync") for text in program.ptx.values()) for program in (split, warps, warpgroups)]
    assert counts[0] == 3 * counts[1] > counts[2] == 0
    for program in (warps, warpgroups):
        for array, expected in zip(program.interpret(*arrays), exact.references(), strict=True):
            assert 1e-4 < np.linalg.norm(array - expected) / np.linalg.norm(expected) < 6e-4


@pytest.mark.parametrize("is_by_warps", [True, False], ids=["two tf32", "three bf16"])
def test_sums_of_numbers_with_fewer_bits_are_as_exact_as_f32(is_by_warps: bool) -> None:
    """What NumPy finds in f32 is not nearer to the formula; and nothing waits for conversions to tf32."""
    problem = Problem("", "f32", (2, 70, 64), (2, 70, 64), 64, causal=True, scale=0.125)
    arrays = problem.arrays()
    of_parts: dict[str, Fields] = {problem.forward_kernel(): {"kind": "wgmma_parts"}}
    program = compile_program(problem.backward(), *arrays, schedules=by_warps(problem) if is_by_warps else of_parts)
    assert any("m16n8k8" in text for text in program.ptx.values()) == is_by_warps
    plain = Attention.reference(*arrays[:3], None, None, True, np.float32(0.125))
    found, references = program.interpret(*arrays), problem.references()
    errors = [np.linalg.norm(one - other) / np.linalg.norm(other) for one, other in zip(found, references, strict=True)]
    assert plain.dtype == np.float32
    assert errors[0] < 1.5 * np.linalg.norm(plain - references[0]) / np.linalg.norm(references[0])
    assert max(errors) < 5e-7
    assert not any("cvt.rna" in text for text in program.ptx.values())


def test_what_is_infinite_in_f32_is_nan_where_it_takes_part() -> None:
    """As docs/numerics.md has it: of what rounds to infinity, the rest is infinite with the other sign."""
    problem = Problem("", "f32", (1, 20, 16), (1, 24, 16), 16)
    arrays = problem.arrays()
    arrays[2][0, 3, 5], arrays[2][0, 4, 6], arrays[2][0, 5, 7] = np.inf, np.finfo(np.float32).max, 3.4019e38
    found = compile_program(problem.forward(), *arrays).interpret(*arrays)[0]
    assert np.isnan(found[..., 5:7]).all() and np.isfinite(np.delete(found, (5, 6), axis=-1)).all()


def test_packed_operands_are_read_in_place() -> None:
    packed = np.random.default_rng(0).standard_normal((1, 70, 3, 2, 32)).astype(DTYPES["bf16"])

    def function(packed):
        return blu.attention(*(packed[:, :, place].swapaxes(1, 2) for place in range(3)), causal=True)

    program = compile_program(function, packed)
    assert list(program.ptx) == ["attention_0"]
    operands = [packed[:, :, place].swapaxes(1, 2).astype(np.float64) for place in range(3)]
    expected = Attention.reference(*operands, None, None, True, 32**-0.5)
    np.testing.assert_allclose(program.interpret(packed)[0].astype(np.float64), expected, rtol=2**-8, atol=2**-8)


def test_other_dtypes_have_no_kernel_of_their_own() -> None:
    operands = [np.zeros((2, 20, 16), np.float64)] * 3
    assert not any(name.startswith("attention") for name in compile_program(blu.attention, *operands).ptx)


# On Hopper, warpgroups would do most of this.
def by_warps(problem: Problem, target: str = "sm_90a") -> dict[str, Fields]:
    """Schedules for all kernels."""
    return {problem.forward_kernel(target): {"kind": "tiles"}, "attention_gradient_0": {"kind": "gradient"}}


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize(
    ("dtype", "width"),
    [("bf16", 64), ("f16", 128), ("bf16", 256), ("f32", 64), ("f32", 80), ("f32", 128), ("tf32", 128)],
)
def test_nothing_is_spilled(target: str, dtype: str, width: int) -> None:
    shape = (2, 4, 1024, width)
    stored, precision = ("f32", "tf32") if dtype == "tf32" else (dtype, "highest")
    problem = Problem("", stored, shape, shape, width, causal=True, precision=precision)
    program = compile_program(problem.backward(), *problem.arrays(), target=target, schedules=by_warps(problem, target))
    names = [problem.forward_kernel(target), "attention_gradient_0_query", "attention_gradient_0_key"]
    assert set(names) <= set(program.kernels("attention"))
    assert not program.spills("attention")
    for name in program.kernels("attention"):
        text = program.written(name)
        product = "m16n8k8.row.col.f32.tf32" if stored == "f32" else f"m16n8k16.row.col.f32.{dtype}.{dtype}.f32"
        assert f"mma.sync.aligned.{product}" in text
        assert "cp.async.cg.shared.global" in text
        assert ("ldmatrix.sync.aligned.m8n8.x4.trans" in text) == (stored != "f32")
    for launch in program.plan["launches"]:
        assert launch["shared_bytes"] <= {"sm_80": 163, "sm_89": 99, "sm_90a": 227}[target] * 1024


def test_products_of_a_tile_are_counted() -> None:
    """For 32 x 64 scores a warp and 64 columns: 64 instructions for scores and 64 for results, masked and not."""
    problem = Problem("", "bf16", (1, 1, 256, 64), (1, 1, 256, 64), 64, causal=True)
    program = compile_program(problem.backward(), *problem.arrays(), schedules=by_warps(problem))
    counts = {name: text.count("mma.sync") for name, text in program.ptx.items() if "attention" in name}
    assert counts == {problem.forward_kernel(): 256, "attention_gradient_0_query": 192, "attention_gradient_0_key": 256}
