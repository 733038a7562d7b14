"""The gradient of attention by its own kernel: right for all forms of masks, the same bits on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.ops.attention import Attention
from blu.dialects.ops.attention_gradient import AttentionGradient
from blu.runtime.host import set_threads

# Query [.., Hq, Tq, D], key [.., Hkv, Tk, D], width of values, causal.
SHAPES = [
    ((1, 2, 64, 64), (1, 2, 64, 64), 64, True),
    ((2, 4, 70, 20), (2, 2, 131, 20), 37, True),
    ((6, 33, 33), (2, 200, 33), 8, False),
    ((2, 17, 16), (2, 3, 16), 16, True),
    ((3, 1, 64), (1, 150, 64), 64, False),
    ((1, 5, 40), (1, 15, 40), 150, True),
]


def random(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def expected(g: np.ndarray, *operands: Any, causal: bool, scale: float) -> tuple[np.ndarray, ...]:
    """The three gradients in f64."""
    g, query, key, value, *rest = (item if item is None or item.dtype == bool else item.astype(np.float64)
                                   for item in (g, *operands))  # fmt: skip
    result = Attention.reference(query, key, value, *rest, causal=causal, scale=scale)
    return AttentionGradient.reference(g, query, key, value, result, *rest, None, causal=causal, scale=scale)


def gradients(causal: bool, scale: float) -> Any:
    @blu.jit
    def run(g: Any, *operands: Any) -> Any:
        mask = operands[3] if len(operands) > 3 else None

        def loss(query: Any, key: Any, value: Any) -> Any:
            return blu.sum(blu.attention(query, key, value, mask=mask, causal=causal, scale=scale) * g)

        return blu.grad(loss, argnums=(0, 1, 2))(*operands[:3])

    return run


def check(found: Any, wanted: tuple[np.ndarray, ...]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("query", "key", "width", "causal"), SHAPES)
def test_gradients_are_right_and_threads_do_not_change_them(query, key, width, causal):
    operands = [random(shape, seed) for seed, shape in enumerate((query, key, (*key[:-1], width)))]
    g, scale = random((*query[:-1], width), 3), query[-1] ** -0.5
    run = gradients(causal, scale)
    found = run(g, *operands)
    check(found, expected(g, *operands, None, None, causal=causal, scale=scale))
    set_threads(1)
    try:
        alone = run(g, *operands)
    finally:
        set_threads(2)
    assert all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(found, alone, strict=True))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", ["full", "by key", "by query", "flags"])
def test_masks(form: str, causal: bool) -> None:
    rng = np.random.default_rng(0)
    shape = {"full": (4, 40, 75), "by key": (1, 75), "by query": (4, 40, 1), "flags": (2, 1, 40, 75)}[form]
    mask = np.where(rng.integers(0, 3, shape), rng.standard_normal(shape), -np.inf).astype(np.float32)
    mask = mask > -np.inf if form == "flags" else mask
    operands = [random(item, seed) for seed, item in enumerate(((2, 4, 40, 24), (2, 2, 75, 24), (2, 2, 75, 24)))]
    g = random((2, 4, 40, 24), 3)
    found = gradients(causal, 0.2)(g, *operands, mask)
    check(found, expected(g, *operands, mask, None, causal=causal, scale=0.2))


def test_a_packed_projection_needs_no_matrix_of_scores() -> None:
    length, heads, size = 256, 2, 16
    packed, g = random((length, 3 * heads * size), 0), random((length, heads * size), 1)

    def loss(packed: Any, g: Any) -> Any:
        parts = blu.transpose(packed.reshape(length, 3, heads, size), (1, 2, 0, 3))
        attended = blu.attention(parts[0], parts[1], parts[2], causal=True, scale=0.25)
        return blu.sum(blu.transpose(attended, (1, 0, 2)).reshape(length, heads * size) * g)

    run = blu.jit(blu.grad(loss))
    program = run.trace(packed, g).compile().program
    assert program.plan.arena_bytes < length * length * 4 * heads
    q, k, v = packed.reshape(length, 3, heads, size).transpose(1, 2, 0, 3)
    upstream = g.reshape(length, heads, size).transpose(1, 0, 2)
    wanted = expected(upstream, q, k, v, None, None, causal=True, scale=0.25)
    found = np.asarray(run(packed, g)).reshape(length, 3, heads, size).transpose(1, 2, 0, 3)
    check(list(found), wanted)


def test_half_precision_sums_in_f32() -> None:
    operands = [random((2, 60, 16), seed).astype(np.float16) for seed in range(3)]
    g = random((2, 60, 16), 3).astype(np.float16)
    found = gradients(True, 0.25)(g, *operands)
    wanted = expected(g, *operands, None, None, causal=True, scale=0.25)
    for one, other in zip(found, wanted, strict=True):
        assert np.asarray(one).dtype == np.float16
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=2**-11, atol=4e-4)


def test_large_heads_are_differentiated_by_the_formula() -> None:
    query, key, value = (random((1, 6, 1500), seed) for seed in range(3))
    g = random((1, 6, 1500), 3)
    found = gradients(True, 0.02)(g, query, key, value)
    check(found, expected(g, query, key, value, None, None, causal=True, scale=0.02))
