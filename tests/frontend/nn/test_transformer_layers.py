"""What transformers are made of: rotary positions, attention of several heads, gated layers, embeddings, PReLU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu import nn
from blu.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def turned(x: np.ndarray, positions: np.ndarray, frequencies: np.ndarray, interleaved: bool) -> np.ndarray:
    """Each pair as a complex number, times e^(i angle)."""
    half = len(frequencies)
    pairs = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    found = (pairs[0] + 1j * pairs[1]) * np.exp(1j * positions[..., None] * frequencies)
    both = (found.real, found.imag)
    return np.stack(both, -1).reshape(x.shape) if interleaved else np.concatenate(both, -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 7, 6), (1, 2), (3, 0, 4), (0, 2, 4), (4, 0)])
def test_rotary_turns_pairs(shape: tuple[int, ...], interleaved: bool) -> None:
    x = numbers(*shape)
    frequencies = 10000.0 ** (-np.arange(shape[-1] // 2) / max(shape[-1] // 2, 1))
    expected = turned(x, np.arange(shape[-2]), frequencies, interleaved)
    np.testing.assert_allclose(blu.rotary(x, interleaved=interleaved), expected, rtol=1e-12, atol=1e-12)


def test_positions_frequencies_and_a_part_of_the_width() -> None:
    x = numbers(2, 3, 4, 10)
    frequencies = np.array([1.0, 0.25, 0.1])
    positions = np.array([[7, 0, 3, 3], [1, 2, 4, 100]])[:, None]
    found = blu.jit(lambda x, positions: blu.rotary(x, positions, width=6, frequencies=frequencies))(x, positions)
    np.testing.assert_allclose(found[..., :6], turned(x[..., :6], positions, frequencies, False), rtol=1e-12)
    np.testing.assert_array_equal(found[..., 6:], x[..., 6:])


def test_one_token_at_its_position_is_that_of_the_whole_sequence() -> None:
    x = numbers(2, 9, 8).astype(np.float32)
    whole = np.asarray(blu.rotary(x, base=500.0))
    one = blu.jit(lambda x, position: blu.rotary(x, position, base=500.0))
    for position in (0, 5, 8):
        np.testing.assert_array_equal(one(x[:, position : position + 1], np.int64(position))[:, 0], whole[:, position])


def test_the_product_of_two_depends_on_their_distance() -> None:
    q, k = numbers(1, 8), numbers(1, 8)
    products = [float((blu.rotary(q, place) * blu.rotary(k, place + 3)).sum()) for place in (0, 4, 1000)]
    assert products == pytest.approx([products[0]] * 3, rel=1e-9)


def test_what_rotary_refuses() -> None:
    with pytest.raises(ShapeError, match=r"a width of 5 .* must be even"):
        blu.rotary(numbers(3, 5))
    with pytest.raises(ShapeError, match=r"a width of 8 .* not larger"):
        blu.rotary(numbers(3, 6), width=8)
    with pytest.raises(ShapeError, match="3 pairs have as many frequencies"):
        blu.rotary(numbers(3, 6), frequencies=np.ones(2))
    with pytest.raises(ShapeError, match="rotary turns"):
        blu.rotary(numbers(6))


def of_torch(layer: nn.Module, peer: torch.nn.Module) -> Any:
    layer.load_state_dict({name: value.numpy().copy() for name, value in peer.state_dict().items()})
    return layer


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["self", "memory", "memory and values", "causal", "mask"])
def test_attention_of_several_heads_is_torchs(kind: str, bias: bool) -> None:
    peer = torch.nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, dtype=torch.float64)
    layer = of_torch(nn.MultiheadAttention(12, 3, bias=bias, dtype="f64"), peer)
    x, memory, values, g = numbers(2, 5, 12), numbers(2, 7, 12), numbers(2, 7, 12), numbers(2, 5, 12)
    sources = {"memory": (x, memory), "memory and values": (x, memory, values)}.get(kind, (x,))
    mask = RNG.random((5, 5)) < 0.6
    mask[:, 0] = True
    mask = {"mask": mask, "causal": np.tri(5, dtype=bool)}.get(kind)
    given = {"causal": True} if kind == "causal" else {"mask": mask}
    theirs = [torch.tensor(source, requires_grad=True) for source in sources]
    hidden = None if mask is None else torch.tensor(~mask)
    full = (theirs[0], theirs[-1] if len(theirs) < 3 else theirs[1], theirs[-1])
    expected = peer(*full, attn_mask=hidden, need_weights=False)[0]
    slopes = torch.autograd.grad(expected, [*theirs, *peer.parameters()], torch.tensor(g))

    @blu.jit
    def both(layer, sources):
        y, pull_back = blu.vjp(lambda layer, sources: layer(*sources, **given), layer, sources)
        return y, *pull_back(g)

    y, of_layer, of_sources = both(layer, sources)
    np.testing.assert_allclose(y, expected.detach(), rtol=1e-9, atol=1e-10)
    found = [*of_sources, *(of_layer.state_dict()[name] for name, _ in peer.named_parameters())]
    for one, other in zip(found, slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_grouped_heads_with_rotary_positions() -> None:
    layer = nn.MultiheadAttention(16, 4, kv_heads=2, bias=False, dtype="f64").initialize(0)
    assert layer.in_proj_weight.shape == (32, 16)
    x = numbers(2, 6, 16)
    q, k, v = np.split(x @ np.asarray(layer.in_proj_weight).T, [16, 24], axis=-1)
    q, k, v = (item.reshape(2, 6, -1, 4).transpose(0, 2, 1, 3) for item in (q, k, v))
    q, k = np.asarray(blu.rotary(q)), np.asarray(blu.rotary(k))
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(torch.tensor(item) for item in (q, k.repeat(2, 1), v.repeat(2, 1))), is_causal=True
    )
    expected = expected.numpy().transpose(0, 2, 1, 3).reshape(2, 6, 16) @ np.asarray(layer.out_proj.weight).T
    np.testing.assert_allclose(layer(x, causal=True, rotate=blu.rotary), expected, rtol=1e-9)


def test_attention_drops_weights_while_training() -> None:
    layer = nn.MultiheadAttention(8, 2, dropout=0.5).initialize(0)
    x = numbers(1, 4, 8).astype(np.float32)
    with pytest.raises(ArgumentError, match="MultiheadAttention is told no key"):
        layer(x)
    first, second = (np.asarray(layer(x, key=blu.random.key(seed))) for seed in (0, 1))
    assert (first != second).any()
    np.testing.assert_array_equal(layer.eval()(x), layer(x, key=blu.random.key(3)))
    for heads in ((3,), (0,), (2, 0), (4, 3)):
        with pytest.raises(ShapeError, match="width=8 must be a multiple of num_heads="):
            nn.MultiheadAttention(8, *heads)
    for shape in ((4, 8), (1, 4, 7)):
        with pytest.raises(ShapeError, match=r"MultiheadAttention takes sequences \[B, T, 8\], got \["):
            layer(np.zeros(shape, np.float32))
    assert not np.asarray(nn.MultiheadAttention(8, 2).initialize(0).out_proj.bias).any()


@pytest.mark.parametrize(("layer", "activation"), [(nn.SwiGLU, torch.nn.functional.silu), (nn.GatedMLP, None)])
def test_gated_layers(layer: Any, activation: Any) -> None:
    model = layer(6, 10, dtype="f64").initialize(0) if activation else layer(6, 10, blu.gelu, True, "f64").initialize(0)
    act = activation or torch.nn.functional.gelu
    gate, up, down = (
        lambda x, each=each: torch.nn.functional.linear(
            x, torch.tensor(np.asarray(each.weight)), None if each.bias is None else torch.tensor(np.asarray(each.bias))
        )
        for each in (model.gate_proj, model.up_proj, model.down_proj)
    )
    x = numbers(3, 6)
    expected = down(act(gate(torch.tensor(x))) * up(torch.tensor(x)))
    np.testing.assert_allclose(model(x), expected, rtol=1e-9)
    assert next(name for name, _ in model.named_parameters()) == "gate_proj.weight"


@pytest.mark.parametrize("padding", [0, 2, -1])
def test_the_row_of_padding_has_no_gradient(padding: int) -> None:
    peer = torch.nn.Embedding(5, 3, padding_idx=padding)
    layer = nn.Embedding(5, 3, padding_idx=padding).initialize(0)
    np.testing.assert_array_equal(np.asarray(layer.weight)[padding], 0)
    assert np.abs(np.asarray(layer.weight)).sum(axis=1).astype(bool).sum() == 4
    of_torch(layer, peer)
    indices, g = RNG.integers(0, 5, (4, 6)), numbers(4, 6, 3).astype(np.float32)
    expected = peer(torch.tensor(indices))
    expected.backward(torch.tensor(g))
    np.testing.assert_array_equal(layer(indices), expected.detach())
    found = blu.grad(lambda layer: blu.sum(layer(indices) * g))(layer).weight
    np.testing.assert_allclose(found, peer.weight.grad, rtol=1e-5, atol=1e-6)
    backward = blu.grad(lambda layer: blu.sum(layer(indices - 5) * g))(layer).weight  # indices from the end
    np.testing.assert_array_equal(backward, found)
    with pytest.raises(ArgumentError, match="padding_idx=5 is none of 5 rows"):
        nn.Embedding(5, 3, padding_idx=5)


@pytest.mark.parametrize(("count", "shape"), [(1, (4, 3)), (3, (4, 3)), (3, (2, 3, 4, 5)), (1, (7,)), (3, (0, 3))])
def test_prelu_is_torchs(count: int, shape: tuple[int, ...]) -> None:
    peer = torch.nn.PReLU(count, dtype=torch.float64)
    layer = of_torch(nn.PReLU(count, dtype="f64"), peer)
    x, g = numbers(*shape), numbers(*shape)
    theirs = torch.tensor(x, requires_grad=True)
    expected = peer(theirs)
    slopes = torch.autograd.grad(expected, [peer.weight, theirs], torch.tensor(g))
    y, pull_back = blu.vjp(lambda layer, x: layer(x), layer, x)
    found = pull_back(g)
    np.testing.assert_allclose(y, expected.detach())
    np.testing.assert_allclose(found[0].weight, slopes[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1], slopes[1])


def test_prelu_says_which_weights_fit() -> None:
    with pytest.raises(ShapeError, match="one weight, or one for each channel"):
        blu.prelu(numbers(2, 3), numbers(4))


@pytest.mark.parametrize("padding", [None, 2])
def test_gradients_of_rows_are_divided_by_how_often_they_are_asked_for(padding: int | None) -> None:
    peer = torch.nn.Embedding(5, 3, padding_idx=padding, scale_grad_by_freq=True)
    layer = nn.Embedding(5, 3, padding_idx=padding, scale_grad_by_freq=True).initialize(0)
    peer.weight.data = torch.tensor(np.asarray(layer.weight))
    indices = np.array([[0, 1, 1], [4, -1, 2]])

    @blu.jit
    def run(layer: nn.Embedding) -> Any:
        return layer(indices), blu.grad(lambda layer: blu.sum(blu.sin(layer(indices))))(layer)

    found, slopes = run(layer)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(layer.weight)[indices])
    peer(torch.tensor(indices % 5)).sin().sum().backward()
    assert peer.weight.grad is not None
    np.testing.assert_allclose(np.asarray(slopes.weight), peer.weight.grad, rtol=1e-6)
