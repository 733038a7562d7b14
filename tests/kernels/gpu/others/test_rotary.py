"""Heads that are turned by their positions, on GPUs: what that was made of was a dozen kernels, half of them copies."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import DTYPES, compile_program


def _turned(x, cosine, sine):
    """[B, T, 2 * D] as [B, 2, T, D], with pairs (i, i + D / 2) turned."""
    batch, length, width = x.shape
    first, second = blu.split(blu.swapaxes(x.reshape((batch, length, 2, width // 2)), 1, 2), 2, axis=-1)
    return blu.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def _arrays(dtype: str, length: int, depth: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, length, 2 * depth)).astype(DTYPES[dtype])
    angles = rng.standard_normal((2, length, depth // 2)).astype(np.float32)
    return [x, *angles]


@pytest.mark.parametrize(("dtype", "length", "depth"), [("bf16", 5, 16), ("f32", 3, 6)])
def test_both_ways_are_one_launch(dtype: str, length: int, depth: int):
    arrays = [*_arrays(dtype, length, depth), np.ones((2, 2, length, depth), DTYPES[dtype])]

    def both(x, cosine, sine, given):
        found, back = blu.vjp(lambda x: blu.astype(_turned(x, cosine, sine), x.dtype), x)
        return found, back(given)[0].reshape(x.shape)

    program = compile_program(both, *arrays)
    assert len(program.plan["launches"]) == 1, [launch["kernel"] for launch in program.plan["launches"]]
    for found, expected in zip(program.interpret(*arrays), _expected(*arrays), strict=True):
        eps = 2**-7 if dtype == "bf16" else 1e-6
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=eps, atol=2 * eps)


def _expected(x, cosine, sine, given) -> list[np.ndarray]:
    """In f64: the pairs turned, and `given` turned back."""
    x, cosine, sine, given = (item.astype(np.float64) for item in (x, cosine, sine, given))
    batch, length, width = x.shape
    first, second = np.split(np.swapaxes(x.reshape(batch, length, 2, width // 2), 1, 2), 2, axis=-1)
    turned = np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    first, second = np.split(given, 2, axis=-1)
    back = np.concatenate([first * cosine + second * sine, second * cosine - first * sine], axis=-1)
    return [turned, np.swapaxes(back, 1, 2).reshape(x.shape)]
