"""Attention whose weights are dropped, and whose operands have other dimensions before the heads, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (RNG.standard_normal((2, heads, rows, 8)) for heads, rows in ((4, 5), (2, 7), (2, 7)))


def weights(query: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Of causal attention: [..., Hq, Tq, Tk]."""
    key = np.repeat(key, query.shape[-3] // key.shape[-3], axis=-3)
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    rows, columns = scores.shape[-2:]
    scores = np.where(np.tri(rows, columns, columns - rows, dtype=bool), scores, -np.inf)
    found = np.exp(scores - scores.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


def dropping(query: Any, key: Any, value: Any, seed: Any, dropout: float = 0.3) -> Any:
    return blu.attention(query, key, value, causal=True, dropout=dropout, dropout_key=seed)


def test_weights_are_dropped_and_the_others_raised() -> None:
    unit = np.broadcast_to(np.eye(7), (2, 2, 7, 7))
    seeds = [blu.random.key(seed) for seed in (1, 2, 1)]

    @blu.jit
    def attended(query: Any, key: Any, value: Any, seeds: list[Any]) -> Any:
        y, pull_back = blu.vjp(lambda *operands: dropping(*operands, seeds[0]), query, key, value)
        return [dropping(query, key, unit, seed) for seed in seeds], y, pull_back(y)

    (left, others, again), y, gradients = attended(QUERY, KEY, VALUE, seeds)
    left, own = np.asarray(left), weights(QUERY, KEY)
    np.testing.assert_allclose(left, np.where(left == 0, 0, own / 0.7), rtol=1e-12)
    dropped = (left[own > 0] == 0).mean()
    assert 0.2 < dropped < 0.4
    assert np.array_equal(left, again) and not np.array_equal(left, others)
    np.testing.assert_allclose(y, left @ np.repeat(VALUE, 2, axis=1), rtol=1e-12, atol=1e-12)
    of_heads = np.swapaxes(left, -1, -2) @ np.asarray(y)
    np.testing.assert_allclose(gradients[2], of_heads.reshape(2, 2, 2, 7, 8).sum(2), rtol=1e-12, atol=1e-12)
    # The slope along a direction, of all three operands at once.
    moves = [RNG.standard_normal(operand.shape) for operand in (QUERY, KEY, VALUE)]
    ends = []
    for step in (1e-5, -1e-5):
        moved = [operand + step * move for operand, move in zip((QUERY, KEY, VALUE), moves, strict=True)]
        ends.append((np.asarray(attended(*moved, seeds)[1]) * np.asarray(y)).sum())
    slope = sum((np.asarray(part) * move).sum() for part, move in zip(gradients, moves, strict=True))
    np.testing.assert_allclose((ends[0] - ends[1]) / 2e-5, slope, rtol=1e-7)


def test_all_or_no_weights_may_be_dropped() -> None:
    none, every = blu.jit(
        lambda *operands: [dropping(*operands, None, 0.0), dropping(*operands, blu.random.key(0), 1)]
    )(QUERY, KEY, VALUE)
    np.testing.assert_allclose(none, weights(QUERY, KEY) @ np.repeat(VALUE, 2, axis=1), rtol=1e-9, atol=1e-12)
    assert not np.asarray(every).any()


@pytest.mark.parametrize("leads", [((), (3,), (3,)), ((3,), (), ()), ((3, 1), (2,), (3, 2)), ((0,), (), (1,))])
def test_dimensions_before_heads_broadcast(leads: tuple[tuple[int, ...], ...]) -> None:
    query, key, value = (
        RNG.standard_normal((*lead, *operand.shape[1:]))
        for lead, operand in zip(leads, (QUERY, KEY, VALUE), strict=True)
    )

    @blu.jit
    def attended(*operands: Any) -> Any:
        y, pull_back = blu.vjp(lambda *operands: blu.attention(*operands, causal=True), *operands)
        return y, pull_back(y)

    y, gradients = attended(query, key, value)
    np.testing.assert_allclose(y, weights(query, key) @ np.repeat(value, 2, axis=-3), rtol=1e-9, atol=1e-12)
    lead = np.broadcast_shapes(*leads)
    whole = attended(*(np.broadcast_to(item, (*lead, *item.shape[-3:])).copy() for item in (query, key, value)))[1]
    for item, own, other in zip((query, key, value), gradients, whole, strict=True):
        axes = tuple(range(len(lead) + 3 - item.ndim))
        summed = np.asarray(other).sum(axes)
        ones = tuple(axis for axis, size in enumerate(item.shape) if size == 1 != summed.shape[axis])
        np.testing.assert_allclose(own, summed.sum(ones, keepdims=True), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dropout": 1.5}, ArgumentError, "a probability, from 0 to 1, not 1.5"),
        ({"dropout": 0.5}, ArgumentError, "dropout needs a dropout_key"),
    ],
)
def test_what_does_not_fit_is_told(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        blu.jit(lambda *operands: blu.attention(*operands, **options))(QUERY, KEY, VALUE)
    with pytest.raises(ShapeError, match="broadcast"):
        blu.jit(lambda *operands: blu.attention(*operands))(QUERY, KEY[:1].repeat(3, 0), VALUE)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_operands_without_heads(dropout: float) -> None:
    """Of two dimensions, as PyTorch takes them: those of all heads, and without a head in the result if all are so."""
    query, key, value = QUERY[0, 0], KEY[0, 0], VALUE[0, 0, :, :5]
    options = {"causal": True, "dropout": dropout, "dropout_key": blu.random.key(3)}
    found = blu.jit(lambda *operands: blu.attention(*operands, **options))(query, key, value)
    with_heads = blu.attention(query[None], key[None], value[None], **options)
    np.testing.assert_allclose(found, np.asarray(with_heads)[0], rtol=1e-12)
    assert found.shape == (5, 5)
    if not dropout:
        np.testing.assert_allclose(found, (weights(query[None], key[None]) @ value)[0], rtol=1e-12)
        slopes = blu.grad(lambda q: blu.sum(blu.attention(q, key, value) ** 2))(query)
        assert slopes.shape == query.shape
    for operands in ((QUERY, key, value), (query, KEY, VALUE), (QUERY[0], KEY[0], value), (QUERY[0], key, VALUE[0])):
        heads = [item if item.ndim > 2 else np.broadcast_to(item, (2, *item.shape)) for item in operands]
        np.testing.assert_allclose(blu.attention(*operands), blu.attention(*heads), rtol=1e-12)
