"""Modules that hold modules, with torch's names; dropout, in training and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu import nn
from blu.errors import ArgumentError, ShapeError

X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


def test_a_sequence_is_torchs() -> None:
    peer = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(8, 3)))
    model = nn.Sequential(nn.Linear(4, 8), blu.relu, nn.Sequential(nn.Linear(8, 3)))
    model.load_state_dict({name: array.numpy() for name, array in peer.state_dict().items()})
    expected = peer(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(model(X), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(blu.jit(lambda model, x: model(x))(model, X), expected, rtol=1e-5, atol=1e-6)


def test_gradients_of_sequences_have_their_names() -> None:
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(12)]).initialize(0)
    gradients = blu.jit(blu.grad(lambda model: blu.sum(model(X) ** 2)))(model)
    expected = [f"{number}.{name}" for number in range(12) for name in ("weight", "bias")]
    assert [name for name, _ in model.named_parameters()] == expected
    assert {name for name, _ in gradients.named_parameters()} == set(expected)
    stepped = blu.jit(lambda model: model)(model)
    assert [item.weight.shape for item in stepped] == [(4, 4)] * 12
    np.testing.assert_array_equal(stepped(X), model(X))


def test_lists_are_lists() -> None:
    layers = nn.ModuleList(nn.Linear(size, size + 1) for size in range(1, 12))
    layers.append(nn.Linear(12, 1)).extend([blu.tanh])
    assert len(layers) == 13 and layers[-1] is blu.tanh and layers[10].weight.shape == (12, 11)
    assert [item.weight.shape[1] for item in layers[2:4]] == [3, 4] and isinstance(layers[2:4], nn.ModuleList)
    layers[0] = nn.Linear(1, 2, bias=False)
    assert [name for name, _ in layers.named_parameters()][:2] == ["0.weight", "1.weight"]
    assert isinstance(nn.Sequential(blu.exp, blu.tanh)[:1], nn.Sequential)
    with pytest.raises(IndexError, match="module 13 of 13"):
        layers[13]


def test_dicts_are_dicts() -> None:
    heads = nn.ModuleDict({"up": nn.Linear(4, 8), "down": nn.Linear(4, 2)}).initialize(0)
    assert list(heads) == list(heads.keys()) == ["up", "down"] and len(heads) == 2
    assert "up" in heads and "left" not in heads
    assert [name for name, _ in heads.named_parameters()] == ["up.weight", "up.bias", "down.weight", "down.bias"]
    assert blu.jit(lambda heads, x: heads["down"](x))(heads, X).shape == (5, 2)
    assert [type(item) for _, item in heads.items()] == [nn.Linear] * 2 == [type(item) for item in heads.values()]
    with pytest.raises(KeyError, match="no module 'left'; there are up, down"):
        heads["left"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Sequential(nn.Linear(2, 2), 3), "a Sequential holds modules and functions, got 3"),
        (lambda: nn.ModuleDict({"a.b": nn.Linear(2, 2)}), "'a.b' cannot be the name of a module"),
        (lambda: nn.ModuleDict({"keys": nn.Linear(2, 2)}), "'keys' cannot be the name of a module"),
        (lambda: nn.ModuleDict({"a": 1}), "holds modules and functions, got 1 as 'a'"),
        (lambda: nn.Dropout(1.5), r"in \[0, 1\], got 1.5"),
    ],
)
def test_what_is_no_module_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.75, 1.0])
def test_dropout_keeps_the_mean(rate: float, dtype: str) -> None:
    count = 40_000
    x = blu.jit(lambda: blu.full((count,), 2.0, dtype))()
    found = np.asarray(blu.jit(lambda x, key: blu.dropout(x, rate, key))(x, blu.random.key(1))).astype(np.float64)
    kept = found != 0
    # Six deviations of a binomial distribution.
    assert abs(kept.mean() - (1 - rate)) <= 6 * (rate * (1 - rate) / count) ** 0.5
    np.testing.assert_allclose(found[kept], 2 / max(1 - rate, 1e-9), rtol=1e-2 if "16" in dtype else 1e-6)


def test_the_same_key_drops_the_same_elements_in_the_gradient_too() -> None:
    function = blu.jit(lambda x, key: blu.dropout(x, 0.5, key))
    first, again, other = (function(X, blu.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    slope = blu.jit(blu.grad(lambda x, key: blu.sum(blu.dropout(x, 0.5, key))))(X, blu.random.key(0))
    np.testing.assert_array_equal(slope, np.where(np.asarray(first) != 0, np.float32(2), np.float32(0)))


def test_whole_channels_are_dropped() -> None:
    found = np.asarray(blu.dropout(np.ones((64, 3, 5), np.float32), 0.5, blu.random.key(0), (64, 3, 1)))
    assert ((found == 0).all(-1) | (found == 2).all(-1)).all() and 0 < (found == 0).mean() < 1
    with pytest.raises(ShapeError, match=r"shape \(64, 2, 1\), which is not broadcast to \(64, 3, 5\)"):
        blu.dropout(np.ones((64, 3, 5), np.float32), 0.5, blu.random.key(0), (64, 2, 1))
    assert np.asarray(blu.dropout(np.zeros((0, 3), np.float32), 0.5, blu.random.key(0))).shape == (0, 3)
    infinite = np.full(4, np.inf, np.float32)
    np.testing.assert_array_equal(blu.dropout(infinite, 1.0, blu.random.key(0)), np.zeros(4, np.float32))


def test_models_drop_in_training_only() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Sequential(blu.tanh, nn.Dropout(0.5)))
    run = blu.jit(lambda model, x, key: model(x, key))
    trained = np.asarray(run(model, X, blu.random.key(0)))
    assert 0.5 < (trained == 0).mean() < 1
    dropped = [np.asarray(run(nn.Sequential(nn.Dropout(0.5)), X, blu.random.key(seed))) for seed in (0, 1)]
    assert not np.array_equal(*dropped)
    with pytest.raises(ArgumentError, match=r"Dropout\(0.5\) is told no key"):
        model(X)
    np.testing.assert_allclose(model.eval()(X), np.tanh(X), rtol=1e-6)
    np.testing.assert_allclose(run(model, X, blu.random.key(0)), np.tanh(X), rtol=1e-6)
    np.testing.assert_array_equal(run(model.train(), X, blu.random.key(0)), trained)
