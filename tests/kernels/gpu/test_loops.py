"""Loops of launches on GPUs, interpreted: what steps carry, slices, and tensor maps that move on with the steps."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import compile_program

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_gradients_of_a_scan(target: str) -> None:
    def loss(x: Any, w: Any) -> Any:
        def step(h: Any, v: Any) -> Any:
            h = blu.tanh(h @ w + v)
            return h, h * 2

        last, states = blu.scan(step, x[0], x)
        return blu.sum(last * last) + blu.sum(states * x)

    gradient = blu.grad(loss, argnums=(0, 1))
    x, w = RNG.standard_normal((4, 3, 5)), RNG.standard_normal((5, 5))
    program = compile_program(gradient, x, w, target=target)
    assert [loop["count"] for loop in program.plan["loops"]] == [4, 4]
    for one, other in zip(program.interpret(x, w), blu.jit(gradient)(x, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_tensor_maps_move_on_with_the_steps() -> None:
    def products(x: Any, w: Any) -> Any:
        return blu.scan(lambda total, v: (total + v @ w, None), blu.zeros((256, 256), dtype="bf16"), x)[0]

    x = RNG.standard_normal((2, 256, 64)).astype(ml_dtypes.bfloat16)
    w = (RNG.standard_normal((64, 256)) / 8).astype(ml_dtypes.bfloat16)
    program = compile_program(products, x, w, schedules={"gemm_0": {"kind": "wgmma"}})
    assert any(len(item["buffer"]) == 4 for item in program.plan["tensor_maps"])
    [found] = program.interpret(x, w)
    expected = np.einsum("tij,jk->ik", x.astype(np.float64), w.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-2, atol=4e-2)


def test_what_a_step_finds_is_kept() -> None:
    def program(x: Any, i: Any) -> Any:
        return blu.scan(lambda h, j: (h + blu.take(x, j, axis=0), None), x[0], i)[0]

    x, i = RNG.standard_normal((3, 4)).astype(np.float32), np.array([0, 7, 1])
    assert compile_program(program, x, i).findings(x, i) == [7]
