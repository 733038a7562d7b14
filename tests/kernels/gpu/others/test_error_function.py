"""erfc on GPUs, where halves are written: of f64 it took ten times as long as the product in front of it."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import DTYPES, compile_program


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_halves_have_it_in_f32_and_as_exact_as_they_are(dtype: str):
    x = np.concatenate([np.linspace(-10, 10, 501), [0.0, -0.0, 40.0, -40.0, np.inf, -np.inf]]).astype(DTYPES[dtype])
    program = compile_program(blu.erfc, x)
    assert not any(".f64" in ptx for ptx in program.ptx.values())
    (found,) = program.interpret(x)
    expected = np.array([math.erfc(value) for value in x.astype(np.float64)])
    limits = ml_dtypes.finfo(DTYPES[dtype])
    normal = float(limits.smallest_normal)
    bound = np.where(expected < normal, normal, 0.51 * float(limits.eps) * expected)  # or 0, as all exponentials
    wrong = np.abs(found.astype(np.float64) - expected) > bound
    assert not wrong.any(), x[wrong]


def test_gelu_behind_a_product_keeps_nothing_in_memory():
    """By "erf" exactly, and its gradient, as a vision transformer has them."""

    @blu.autocast("bf16")
    def layers(x, w, v, g):
        return blu.vjp(lambda x: blu.matmul(blu.gelu(blu.matmul(x, w)), v), x)[1](g)

    shapes = [(1024, 768), (768, 3072), (3072, 768), (1024, 768)]
    program = compile_program(layers, *(np.broadcast_to(np.float32(0), shape) for shape in shapes))
    assert not any(".f64" in ptx for ptx in program.ptx.values())
    assert not program.spills("gemm")
