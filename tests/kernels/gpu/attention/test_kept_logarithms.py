"""Gradients of attention that read the logarithms which the forward has left, and where there are such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.dialects.ops.attention import Attention, AttentionPiece
from blu.dialects.ops.attention_gradient import AttentionGradient
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import GpuProgram, compile_program

# Blocks have 64 rows, tiles 64.
PROBLEMS = [
    Problem("one of all", "bf16", (1, 1, 16), (1, 1, 16), 16, causal=True),
    Problem("one less than a tile, and one more", "f16", (1, 63, 24), (1, 65, 24), 24),
    Problem("several blocks, no multiples", "bf16", (1, 129, 64), (1, 200, 64), 64, causal=True),
    Problem("queries that see nothing", "f16", (1, 130, 16), (1, 60, 16), 16, causal=True, scale=-0.2),
    Problem("scores far below zero", "bf16", (1, 70, 16), (1, 66, 16), 16, causal=True, scale=-30.0),
    Problem("grouped heads", "bf16", (2, 4, 66, 32), (2, 2, 64, 40), 40, causal=True),
]


def gradients(problem: Problem) -> Callable:
    """The result and its gradients, which are told the logarithms whatever sizes are."""
    attributes = {"causal": problem.causal, "scale": problem.scale, "precision": "highest"}

    def function(query, key, value, g):
        result, sums = AttentionPiece(query, key, value, None, **attributes)
        operands = (g, query, key, value, result, None, None, sums)
        return result, *AttentionGradient(*operands, **attributes, narrow=True)

    return function


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_gradients_of_known_logarithms_are_those_of_the_formula(problem: Problem, groups: int) -> None:
    problem = replace(problem, key=(*problem.key[:-1], problem.query[-1]))
    blocks = {} if groups == 1 else {"query_blocks": 1, "key_blocks": 1, "query_groups": 2, "key_groups": 2}
    wished = {"attention_piece_0": {"kind": "wgmma"}, "attention_gradient_0": {"kind": "wgmma", **blocks}}
    arrays = problem.arrays()
    program = compile_program(gradients(problem), *arrays, schedules=wished)
    assert not has_running_softmax(program)
    problem.check(program.interpret(*arrays))


def has_running_softmax(program: GpuProgram) -> bool:
    """Whether the launch for queries looks for the largest scores."""
    return "max.f32" in program.ptx["attention_gradient_0_query"]


SQUARE = Problem("square", "bf16", (2, 70, 16), (2, 70, 16), 16, causal=True)


@pytest.mark.parametrize(
    ("problem", "is_kept"),
    [
        (SQUARE, True),
        (replace(SQUARE, causal=False), True),
        (replace(SQUARE, offset=3), True),
        (replace(SQUARE, mask=(70, 70)), False),
        (replace(SQUARE, dtype="f32"), False),
        (replace(SQUARE, query=(2, 63, 16)), False),
        (replace(SQUARE, query=(2, 70, 256), key=(2, 70, 256)), True),
    ],
)
def test_where_logarithms_are_kept(problem: Problem, is_kept: bool) -> None:
    program = compile_program(problem.backward(), *problem.arrays())
    names = {"attention_piece_0"} if is_kept else {"attention_0"}
    assert names == {name for name in program.ptx if "attention" in name and "gradient" not in name}
    assert has_running_softmax(program) == (not is_kept)


def test_operands_that_are_computed_again_are_the_same() -> None:
    """Views of packed operands are cheap, so that the gradient has its own."""

    def function(packed, g):
        def attend(packed):
            return blu.attention(*(packed[:, :, place].swapaxes(1, 2) for place in range(3)), causal=True)

        result, pull = blu.vjp(attend, packed)
        return result, *pull(g)

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("bfloat16") for shape in ((1, 70, 3, 2, 16), (1, 2, 70, 16))]
    assert "attention_piece_0" in compile_program(function, *arrays).ptx


def test_operands_may_be_rounded_before_they_are_moved_or_after() -> None:
    """As autocast leaves them."""

    def function(packed, g):
        def attend(packed):
            with blu.autocast("bf16"):
                return blu.attention(*(packed[:, :, place].swapaxes(1, 2) for place in range(3)), causal=True)

        result, pull = blu.vjp(attend, packed)
        return result, *pull(g.astype(result.dtype))

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((1, 70, 3, 2, 16), (1, 2, 70, 16))]
    assert "attention_piece_0" in compile_program(function, *arrays).ptx


@pytest.mark.parametrize("other", ["scale", "causal", "key", "query"])
def test_another_attention_keeps_nothing(other: str) -> None:
    def function(query, key, value, g):
        attributes = {"causal": True, "scale": 0.25, "precision": "highest"}
        result = Attention(query, key, value, None, None, **attributes)
        if other in attributes:
            attributes[other] = {"scale": 0.5, "causal": False}[other]
        own = (-query if other == "query" else query, -key if other == "key" else key, value, result)
        return result, *AttentionGradient(g, *own, None, None, None, **attributes, narrow=True)

    program = compile_program(function, *SQUARE.arrays())
    assert "attention_0" in program.ptx and has_running_softmax(program)


def test_other_targets_find_them_again() -> None:
    arrays = SQUARE.arrays()
    SQUARE.check(compile_program(gradients(SQUARE), *arrays, target="sm_80").interpret(*arrays))
    SQUARE.check([np.asarray(item) for item in blu.jit(gradients(SQUARE))(*arrays)])
