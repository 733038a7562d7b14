"""Attention whose scores are so large that nothing of a logarithm is left beside them: as masks of -1e9 make them."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from blu.dialects.ops.attention import AttentionPiece
from blu.dialects.ops.attention_gradient import AttentionGradient
from tests.support.kernels.gpu_program import DTYPES, compile_program

ROUNDINGS = {"bf16": 2**-8, "f16": 2**-10, "tf32": 2**-10, "f32": 2**-19}
NAMES = ("result", "query", "key", "value")
QUERIES, KEYS, COLUMNS = 70, 130, 32


def random(dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, shape).astype(DTYPES["f16" if dtype == "tf32" else dtype]) for shape in shapes]


def check(found: list[np.ndarray], scores: np.ndarray, operands: list[np.ndarray], scale: float, dtype: str) -> None:
    """Compare the result and the gradients of query, key and value with those in f64 of scores as they are in f32."""
    query, key, value, g = (np.asarray(item, np.float64) for item in operands)
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores.astype(np.float64) - np.where(largest == -np.inf, 0, largest))
    weights /= np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
    of_weights, inner = g @ turned(value), (g * (weights @ value)).sum(axis=-1, keepdims=True)
    slopes = weights * (of_weights - inner) * scale
    off_slopes = weights * (np.abs(g) @ turned(np.abs(value)) + np.abs(inner)) * abs(scale)
    wanted = [weights @ value, slopes @ key, turned(slopes) @ query, turned(weights) @ g]
    q, k, v, g = (np.abs(item) for item in (query, key, value, g))
    off = [weights @ v, off_slopes @ k, turned(off_slopes) @ q, turned(weights) @ g]
    for name, array, reference, errors in zip(NAMES, found, wanted, off, strict=False):
        far = np.abs(np.asarray(array, np.float64) - reference) / (ROUNDINGS[dtype] * (errors + 1e-3))
        assert np.nanmax(far) <= 2 and not np.isnan(far).any(), f"{name}: {np.nanmax(far):.1f} roundings off"


def turned(matrices: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrices, -1, -2)


def masks() -> np.ndarray:
    """Rows that are far below, or above, everywhere or for some keys: in the first and the last tile of queries."""
    lowest, mask = np.finfo(np.float32).min, np.zeros((QUERIES, KEYS), np.float32)
    for place, number in enumerate((-1e9, lowest, -1e4, 1e9)):
        mask[[place, -1 - place]] = number
        mask[8 + place, :100] = mask[60 + place, 5:] = number
    mask[12, :] = -np.inf
    mask[13, 64:] = -np.inf
    return mask


ADDED = [(dtype, target, 0.3) for dtype in ("bf16", "f16", "f32", "tf32") for target in ("sm_80", "sm_90a")]


@pytest.mark.parametrize(("dtype", "target", "scale"), [*ADDED, ("f16", "sm_80", -0.3)])
def test_rows_of_added_masks(dtype: str, target: str, scale: float) -> None:
    q, k, v, g = random(dtype, (1, QUERIES, COLUMNS), (1, KEYS, COLUMNS), (1, KEYS, COLUMNS), (1, QUERIES, COLUMNS))
    if dtype == "tf32":
        q, k, v, g = (item.astype(np.float32) for item in (q, k, v, g))
    mask, precision = masks(), "tf32" if dtype == "tf32" else "highest"

    def function(query, key, value, g, mask):
        options = {"scale": scale, "precision": precision}
        result, pull = blu.vjp(lambda *items: blu.attention(*items, mask, **options), query, key, value)
        return result, *pull(g)

    found = compile_program(function, q, k, v, g, mask, target=target).interpret(q, k, v, g, mask)
    scores = (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * scale).astype(np.float32) + mask
    check(found, scores, [q, k, v, g], scale, dtype)


KINDS = {
    "wgmma": ("bf16", {"attention_piece_0": {"kind": "wgmma"}, "attention_gradient_0": {"kind": "wgmma"}}),
    "wgmma_shared": ("f16", {"attention_piece_0": {"kind": "wgmma_shared"}}),
    "tf32": ("tf32", {}),
    "parts": ("f32", {}),
    "joint": ("bf16", {"attention_gradient_0": {"kind": "wgmma_joint"}}),
    "tiles": ("f32", {"attention_piece_0": {"kind": "tiles"}, "attention_gradient_0": {"kind": "gradient"}}),
}


WAYS = [*((kind, True) for kind in KINDS), *((kind, False) for kind in KINDS if kind != "joint")]


@pytest.mark.parametrize(("kind", "is_known"), WAYS)
def test_rows_of_equal_keys(kind: str, is_known: bool) -> None:
    """Products of 2^30 with each key: all weights are the same."""
    (dtype, wished), columns = KINDS[kind], 128 if kind == "joint" else COLUMNS
    q, k, v, g = random(dtype, (1, QUERIES, columns), (1, KEYS, columns), (1, KEYS, columns), (1, QUERIES, columns))
    if dtype == "tf32":
        q, k, v, g = (item.astype(np.float32) for item in (q, k, v, g))
    q[:, ::2], q[:, 1::2, 0] = 0, 0
    q[:, ::2, 0] = k[..., 0] = 2.0 ** (14 if dtype == "f16" else 15)
    attributes = {"causal": False, "scale": 0.3, "precision": "tf32" if dtype == "tf32" else "highest"}

    def function(query, key, value, g):
        result, sums = AttentionPiece(query, key, value, None, **attributes)
        operands = (g, query, key, value, result, None, None, sums if is_known else None)
        return result, *AttentionGradient(*operands, **attributes, narrow=False)

    found = compile_program(function, q, k, v, g, target="sm_90a", schedules=wished).interpret(q, k, v, g)
    scores = (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * 0.3).astype(np.float32)
    check(found, scores, [q, k, v, g], 0.3, dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_one_large_row_of_many_is_found(causal: bool) -> None:
    """Blocks ask once whether any of their queries has a rest, which threads look for in sixteen tiles at a time."""
    queries, keys = 17 * 64 + 3, 70
    q, k, v, g = random("bf16", (1, queries, 8), (1, keys, 8), (1, keys, 8), (1, queries, 8))
    q, k[..., 0], scale = q / 64, 2.0**15, 0.3
    options = {"scale": scale, "causal": causal, "offset": 0 if causal else None}

    def function(query, key, value, g):
        result, pull = blu.vjp(lambda *items: blu.attention(*items, **options), query, key, value)
        return result, *pull(g)

    program = compile_program(function, q, k, v, g, target="sm_90a", schedules=KINDS["wgmma"][1])
    for row in (0, 64, 16 * 64 + 5, queries - 1):
        large = q.copy()
        large[:, :, 0], large[:, row] = 0, 0
        large[:, row, 0] = 2.0**15
        scores = (large.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * scale).astype(np.float32)
        if causal:
            scores[:, np.arange(keys) > np.arange(queries)[:, None]] = -np.inf
        check(program.interpret(large, k, v, g), scores, [large, k, v, g], scale, "bf16")


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_few_queries(dtype: str) -> None:
    """Each query has a row of another kind."""
    q, k, v = random(dtype, (1, 5, COLUMNS), (1, KEYS, COLUMNS), (1, KEYS, COLUMNS))
    mask = masks()[[0, 1, 3, 9, 12]]

    def function(query, key, value, mask):
        return blu.attention(query, key, value, mask, scale=0.3)

    found = compile_program(function, q, k, v, mask, target="sm_90a").interpret(q, k, v, mask)
    scores = (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * 0.3).astype(np.float32) + mask
    check(found if isinstance(found, list) else [found], scores, [q, k, v, q], 0.3, dtype)
