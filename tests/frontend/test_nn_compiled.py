"""Tests of modules as arguments of compiled functions."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu import nn


class Tower(nn.Module):
    """`depth` residual layers."""

    def __init__(self, depth: int, width: int = 8, scale: float = 0.1):
        self.scale = scale
        self.layers = [nn.Linear(width, width) for _ in range(depth)]
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + blu.tanh(layer(x)) * self.scale
        return self.norm(x)


@blu.jit
def apply(model: nn.Module, x: Any) -> Any:
    return model(x)


def expected(model: Tower, x: np.ndarray) -> np.ndarray:
    y = torch.tensor(x)
    for layer in model.layers:
        y = (
            y
            + torch.tanh(torch.nn.functional.linear(y, torch.tensor(layer.weight), torch.tensor(layer.bias)))
            * model.scale
        )
    return torch.nn.functional.layer_norm(y, y.shape[-1:]).numpy()


X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


def test_a_module_is_an_argument() -> None:
    model = Tower(2).initialize(1)
    np.testing.assert_allclose(np.asarray(apply(model, X)), expected(model, X), atol=1e-5)


def test_other_weights_need_no_other_program(caplog: pytest.LogCaptureFixture) -> None:
    model = Tower(2).initialize(2)
    apply(model, X)
    model.layers[0].weight = model.layers[0].weight * 2
    with caplog.at_level(logging.INFO, "blu"):
        found = apply(model, X)
    assert caplog.messages == []
    np.testing.assert_allclose(np.asarray(found), expected(model, X), atol=1e-5)


def test_another_constant_is_another_program_and_said(caplog: pytest.LogCaptureFixture) -> None:
    apply(Tower(2).initialize(3), X)
    model = Tower(2, scale=0.2).initialize(3)
    with caplog.at_level(logging.INFO, "blu"):
        found = apply(model, X)
    assert [text for text in caplog.messages if "model: scale = 0.1 -> 0.2" in text]
    np.testing.assert_allclose(np.asarray(found), expected(model, X), atol=1e-5)


def test_modules_are_results_too() -> None:
    @blu.jit
    def halved(model: nn.Linear) -> nn.Linear:
        model.weight = model.weight / 2
        return model

    model = nn.Linear(4, 4).initialize(0)
    found = halved(model)
    assert isinstance(found, nn.Linear)
    np.testing.assert_array_equal(np.asarray(found.weight), model.weight / 2)
    np.testing.assert_array_equal(np.asarray(found.bias), model.bias)


def test_a_module_without_numbers_cannot_run() -> None:
    with pytest.raises(blu.BluError, match=r"weight is a Parameter and has no numbers \(nor have 1 more\)"):
        apply(nn.Linear(8, 8), X)


def test_a_module_may_be_captured() -> None:
    model = Tower(2).initialize(4)
    np.testing.assert_allclose(np.asarray(blu.jit(lambda x: model(x))(X)), expected(model, X), atol=1e-5)


@pytest.mark.slow
def test_a_thousand_layers_compile() -> None:
    model = Tower(1000, scale=0.01).initialize(5)
    np.testing.assert_allclose(np.asarray(apply(model, X)), expected(model, X), atol=1e-4)
