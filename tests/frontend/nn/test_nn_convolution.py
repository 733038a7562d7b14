"""Layers that look through windows, beside torch's with the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from blu import nn
from blu.errors import BluError
from tests.frontend.test_nn_layers import draw, from_torch, run

LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "Conv1d": (lambda kind: kind(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 7)),
    "Conv2d": (lambda kind: kind(3, 4, (3, 2), padding="same", bias=False), (2, 3, 5, 4)),
    "Conv3d": (lambda kind: kind(2, 3, 2, dilation=(1, 2, 1)), (1, 2, 3, 4, 3)),
    "ConvTranspose1d": (lambda kind: kind(4, 6, 3, 2, 1, 1, groups=2), (2, 4, 5)),
    "ConvTranspose2d": (lambda kind: kind(3, 2, 2, stride=2), (1, 3, 3, 2)),
    "ConvTranspose3d": (lambda kind: kind(2, 1, (1, 2, 1)), (1, 2, 2, 2, 3)),
    "MaxPool1d": (lambda kind: kind(2), (1, 2, 6)),
    "MaxPool2d": (lambda kind: kind(3, stride=2, padding=1), (1, 2, 6, 5)),
    "MaxPool3d": (lambda kind: kind(2), (1, 1, 2, 4, 2)),
    "AvgPool1d": (lambda kind: kind(2), (1, 2, 6)),
    "AvgPool2d": (lambda kind: kind(3, stride=1), (1, 2, 4, 5)),
    "AvgPool3d": (lambda kind: kind(2), (1, 1, 2, 4, 2)),
    "AdaptiveAvgPool2d": (lambda kind: kind(1), (2, 3, 4, 5)),
    "AdaptiveMaxPool2d": (lambda kind: kind((2, 1)), (2, 3, 4, 5)),
    "AdaptiveAvgPool1d": (lambda kind: kind(3), (2, 3, 5)),
    "AdaptiveAvgPool3d": (lambda kind: kind((1, 2, 3)), (1, 2, 2, 3, 4)),
    "AdaptiveMaxPool1d": (lambda kind: kind(2), (2, 3, 5)),
    "AdaptiveMaxPool3d": (lambda kind: kind(2), (1, 2, 2, 3, 4)),
    "Unfold": (lambda kind: kind((2, 3), padding=1), (1, 2, 4, 3)),
    "Fold": (lambda kind: kind((4, 3), (2, 3), padding=1), (1, 12, 15)),
    "GroupNorm": (lambda kind: kind(2, 6), (2, 6, 3, 4)),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_torchs(name: str) -> None:
    make, shape = LAYERS[name]
    reference = make(getattr(torch.nn, name))
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.copy_(torch.rand_like(parameter) + 0.5)
    x = draw(*shape)
    [found] = run(lambda module, x: module(x), module=from_torch(make(getattr(nn, name)), reference), x=x)
    np.testing.assert_allclose(found, reference(torch.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose2d", "GroupNorm"])
def test_layers_take_channels_last(name: str) -> None:
    make: dict[str, Any] = {
        "Conv2d": lambda **last: nn.Conv2d(4, 2, 2, **last),
        "ConvTranspose2d": lambda **last: nn.ConvTranspose2d(4, 2, 2, **last),
        "GroupNorm": lambda **last: nn.GroupNorm(2, 4, **last),
    }
    plain, last = make[name]().initialize(1), make[name](channels_last=True).initialize(1)
    x = draw(2, 4, 3, 5)
    [wanted] = run(lambda module, x: module(x), module=plain, x=x)
    [found] = run(lambda module, x: module(x), module=last, x=np.moveaxis(x, 1, -1))
    np.testing.assert_allclose(np.moveaxis(found, -1, 1), wanted, rtol=1e-5, atol=1e-6)


def test_parameters_start_as_torchs() -> None:
    """Uniform within one over the root of how many numbers a result is the sum of."""
    weight = nn.Conv2d(8, 64, 3, groups=2).initialize().weight
    assert weight.shape == (64, 4, 3, 3) and 0.95 / 6 < np.abs(weight).max() <= 1 / 6


def test_groups_that_do_not_fit_are_refused_at_once() -> None:
    with pytest.raises(BluError, match="3 inputs and 4 outputs cannot be cut into 2 groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(BluError, match="6 channels cannot be cut into 4 groups"):
        nn.GroupNorm(4, 6)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", ["same", (2, 1)])
def test_data_are_padded_by_mode(mode: str, padding: Any) -> None:
    x = draw(2, 3, 5, 6)
    theirs = torch.nn.Conv2d(3, 4, (2, 3), padding=padding, padding_mode=mode)
    layer = nn.Conv2d(3, 4, (2, 3), padding=padding, padding_mode=mode)
    layer.load_state_dict({name: value.detach().numpy() for name, value in theirs.state_dict().items()})
    last = nn.Conv2d(3, 4, (2, 3), padding=padding, padding_mode=mode, channels_last=True)
    last.load_state_dict(layer.state_dict())
    expected = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(layer(x), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.moveaxis(last(np.moveaxis(x, 1, -1)), -1, 1), expected, rtol=1e-5, atol=1e-6)


def test_a_mode_that_there_is_not() -> None:
    with pytest.raises(BluError, match="padding_mode='mirror' is none of zeros, reflect, replicate, circular"):
        nn.Conv1d(3, 4, 3, padding_mode="mirror")
