"""Whole small models, interpreted: gradients of what kernels meet in models alone, and counters seen through views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import compile_program

Weights = dict[str, np.ndarray]


def drawn(**shapes: tuple[int, ...]) -> Weights:
    rng = np.random.default_rng(7)
    return {name: rng.standard_normal(shape).astype(np.float32) / 2 for name, shape in shapes.items()}


def relative_attention(weights: Any, tokens: Any) -> Any:
    """A layer of a T5-like encoder: how far two positions are apart is a bucket, which has a bias in each head."""
    x = blu.take(weights["embedding"], tokens, axis=0)
    places = blu.arange(tokens.shape[1])
    apart = blu.absolute(places[:, None] - places)
    far = 2 + blu.log(blu.maximum(apart, 2).astype("f32") / 2) * 1.5
    buckets = blu.where(apart < 2, apart, blu.minimum(far.astype("i64"), 4)) + 5 * (places[:, None] > places)
    bias = blu.moveaxis(blu.take(weights["bias"], buckets, axis=0), -1, 0)
    q, k, v = (blu.einsum("btc,hcd->bhtd", x, weights[name]) for name in ("query", "key", "value"))
    mixed = blu.softmax(blu.einsum("bhtd,bhsd->bhts", q, k) + bias) @ v
    y = blu.rms_norm(x + blu.einsum("bhtd,hdc->btc", mixed, weights["out"]))
    logits = y @ weights["embedding"].T
    return blu.cross_entropy(logits.reshape(-1, logits.shape[-1]), blu.roll(tokens, 1, 1).reshape(-1))


def experts(weights: Any, tokens: Any) -> Any:
    """A mixture of experts: each token goes to its best two, as far as these have room for it."""
    x = blu.take(weights["embedding"], tokens.reshape(-1), axis=0)
    count, room = weights["up"].shape[0], 3
    gates, chosen = blu.top_k(blu.softmax(x @ weights["router"]), 2)
    flags = blu.one_hot(chosen.reshape(-1), count)
    place = blu.cumsum(flags, 0) - flags
    is_in = flags * (place < room)
    slots = is_in[..., None] * blu.one_hot(place.astype("i64"), room)
    slots = slots.reshape(x.shape[0], 2, count, room)
    given = blu.einsum("nkes,nc->esc", slots, x)
    made = blu.einsum("esd,edc->esc", blu.gelu(blu.einsum("esc,ecd->esd", given, weights["up"])), weights["down"])
    y = blu.einsum("nkes,nk,esc->nc", slots, gates, made)
    return blu.mean(blu.square(y - x[::-1])) + blu.mean(flags.mean(0) * blu.softmax(x @ weights["router"]).mean(0))


def selective_scan(weights: Any, x: Any) -> Any:
    """A Mamba-like block: a convolution of each channel, and a state whose decay depends on what is seen."""
    y = blu.conv(blu.pad(x, ((0, 0), (0, 0), (2, 0))), weights["window"], groups=x.shape[1])
    y = blu.silu(blu.moveaxis(y, -1, 0))
    steps = blu.softplus(y @ weights["step"])
    decay = blu.exp(-steps[..., None] * blu.exp(weights["decay"]))

    def step(state: Any, seen: Any) -> Any:
        keep, value, gate = seen
        state = keep * state + value[..., None]
        return state, blu.sum(state * gate[:, None], -1)

    state = blu.zeros((x.shape[0], *weights["decay"].shape))
    _, found = blu.scan(step, state, (decay, steps * y, y @ weights["gate"]))
    return blu.mean(blu.square(found - blu.flip(y, 0)))


MODELS: dict[str, tuple[Callable[..., Any], Weights, np.ndarray]] = {
    "relative attention": (
        relative_attention,
        drawn(embedding=(11, 6), bias=(10, 2), query=(2, 6, 3), key=(2, 6, 3), value=(2, 6, 3), out=(2, 3, 6)),
        np.arange(14).reshape(2, 7) * 5 % 11,
    ),
    "experts": (
        experts,
        drawn(embedding=(9, 4), router=(4, 3), up=(3, 4, 5), down=(3, 5, 4)),
        np.arange(10).reshape(2, 5) * 7 % 9,
    ),
    "selective scan": (
        selective_scan,
        drawn(window=(4, 1, 3), step=(4, 4), decay=(4, 2), gate=(4, 2)),
        np.random.default_rng(8).standard_normal((2, 4, 5)).astype(np.float32),
    ),
}


@pytest.mark.parametrize(("name", "target"), list(zip(MODELS, ("sm_90a", "sm_80", "sm_90a"), strict=True)))
def test_gradients_of_small_models_are_those_of_processors(name: str, target: str) -> None:
    model, weights, x = MODELS[name]

    def loss(*arrays: Any) -> Any:
        return model(dict(zip(weights, arrays, strict=False)), arrays[-1])

    both, arrays = blu.value_and_grad(loss, tuple(range(len(weights)))), (*weights.values(), x)
    value, gradients = blu.jit(both)(*arrays)
    found = compile_program(both, *arrays, target=target).interpret(*arrays)
    np.testing.assert_allclose(found[0], value, rtol=1e-5)
    for own, key, gradient in zip(found[1:], weights, gradients, strict=True):
        size = float(np.abs(np.asarray(gradient)).max())
        assert size > 0, key
        np.testing.assert_allclose(own, gradient, rtol=1e-4, atol=1e-5 * size, err_msg=key)


VIEWS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda m, n: n[:, None] - n,
    lambda m, n: n.reshape(-1, 2),
    lambda m, n: n.T,
    lambda m, n: n[::2],
    lambda m, n: m.flip(n, 0),
    lambda m, n: m.repeat(n, 3, axis=0),
    lambda m, n: m.tile(n, (2, *(1,) * (n.ndim - 1))),
    lambda m, n: m.broadcast_to(n, (2, *n.shape)),
    lambda m, n: m.roll(n, 1, 0),
    lambda m, n: m.concatenate([n, n[:1]], 0),
    lambda m, n: m.swapaxes(n, 0, -1),
    lambda m, n: n.reshape(-1),
)
PROGRAMS = np.random.default_rng(3).integers(0, len(VIEWS), (40, 3)).tolist()


def seen(m: Any, choices: list[int]) -> Any:
    """A counter through views, in turn, as long as there are not too many numbers."""
    n: Any = m.arange(6)
    for choice in choices:
        is_odd, is_large = n.size % 2 and choice == 1, n.size > 60 or (n.ndim > 2 and choice in (0, 7))
        n = n if is_odd or is_large else VIEWS[choice](m, n)
    return n


def counted(m: Any, x: Any) -> list[Any]:
    """Counters beside what is read, in conditions, as indices and alone."""
    found = []
    for number, choices in enumerate(PROGRAMS):
        n = seen(m, choices)
        beside = m.broadcast_to(x[number], n.shape)
        found.append((n + beside, m.where(n % 3 == 1, beside, n), m.take(x, n % 40), n * n)[number % 4])
    return found


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_counters_through_views_are_numpys(target: str) -> None:
    x = np.random.default_rng(4).integers(0, 1000, 40)

    def program(x: Any) -> list[Any]:
        return counted(blu, x)

    found = blu.jit(program)(x) if target == "cpu" else compile_program(program, x, target=target).interpret(x)
    for choices, own, other in zip(PROGRAMS, found, counted(np, x), strict=True):
        np.testing.assert_array_equal(own, other, err_msg=f"views {choices}")
