"""Activations by name against torch.nn.functional: values, gradients, special values, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import blu
from blu.errors import BluError

CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in "hardsigmoid hardswish logsigmoid mish relu6 selu softsign tanhshrink glu".split()),
    *(("softplus", options) for options in ({}, {"beta": 2.0, "threshold": 1.0})),
    *(("leaky_relu", options) for options in ({}, {"negative_slope": 0.2})),
    *((name, options) for name in ("elu", "celu") for options in ({}, {"alpha": 0.7})),
    *(("hardtanh", options) for options in ({}, {"min_val": -2.0, "max_val": 0.5})),
    *(("softshrink", options) for options in ({}, {"lambd": 1.25})),
]
VALUES = np.array([-200, -30, -7.5, -2.2, -0.4, -1e-4, 1e-4, 0.4, 1.9, 2.5, 7.5, 30, 200, 0.9])


def both(name: str, options: dict[str, Any], x: np.ndarray) -> tuple[Any, Any, torch.Tensor, torch.Tensor]:
    function: Callable[..., Any] = getattr(blu, name)

    @blu.jit
    def run(x: Any) -> tuple[Any, Any]:
        return function(x, **options), blu.grad(lambda x: function(x, **options).sum())(x)

    ours, gradient = run(x)
    argument = torch.tensor(x, requires_grad=True)
    theirs = getattr(functional, name)(argument, **options)
    theirs.sum().backward()
    assert argument.grad is not None
    return np.asarray(ours), np.asarray(gradient), theirs.detach(), argument.grad


@pytest.mark.parametrize(("name", "options"), CASES)
def test_values_and_gradients_are_torchs(name: str, options: dict[str, Any]) -> None:
    ours, gradient, theirs, expected = both(name, options, VALUES)
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)  # softplus's threshold leaves exp(-20) out
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", "softplus logsigmoid leaky_relu elu celu selu relu6 hardsigmoid".split())
def test_infinities_and_nan_are_torchs(name: str) -> None:
    ours, _, theirs, _ = both(name, {}, np.array([-np.inf, np.inf, np.nan], np.float32))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: blu.glu(x), "size must be even"),
        (lambda x: blu.softplus(x, beta=0), "must not be 0"),
        (lambda x: blu.celu(x, alpha=0), "alpha above 0"),
        (lambda x: blu.hardtanh(x, 2, 1), "min_val <= max_val"),
        (lambda x: blu.softshrink(x, -1), "at least 0"),
    ],
)
def test_wrong_parameters(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(BluError, match=message):
        blu.jit(call)(np.ones(3, np.float32))
