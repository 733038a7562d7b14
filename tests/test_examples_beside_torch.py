"""The gradients of the models of examples/ beside PyTorch's of the same weights in float64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import blu
from blu import nn

torch = pytest.importorskip("torch")

from tests.support.training.torch_models import MODELS, tensors_of, twin_of  # noqa: E402 - needs torch

# The norm of the difference of a gradient, by its norm.
LIMIT, DOUBLE_LIMIT = 2e-6, 1e-11
# At more than some 10^5 numbers, roundings decide on which side of zero some of them are cut off: no limit means much.
MEDIUM = [pytest.param(name, "medium", marks=pytest.mark.slow) for name in MODELS if name != "convnet"]

Gradients = dict[str, np.ndarray]


def _drawn(name: str, size: str) -> tuple[Any, Any, tuple[np.ndarray, ...]]:
    """The example, its model with numbers, and a batch."""
    example = import_module(f"examples.{name}")
    model = example.build(example.SIZES[size]).initialize(1)
    return example, model, example.draw(np.random.default_rng(1), example.SIZES[size])


def _by_torch(name: str, size: Any, model: nn.Module, batch: Any, dtype: Any) -> tuple[float, Gradients]:
    twin = twin_of(name, size, {key: np.array(array) for key, array in model.state_dict().items()}, dtype)
    loss = twin(*tensors_of(batch, dtype))
    loss.backward()
    return loss.item(), {key: parameter.grad.numpy() for key, parameter in twin.named_parameters()}


def _by_blu(loss: Any, model: nn.Module, batch: Any) -> tuple[float, Gradients]:
    value, gradients = blu.jit(blu.value_and_grad(loss))(model, *batch)
    return float(value), {key: np.asarray(array) for key, array in gradients.named_parameters()}


def _errors(found: Gradients, expected: Gradients) -> dict[str, float]:
    assert found.keys() == expected.keys()
    return {
        key: float(np.linalg.norm(found[key].astype(np.float64) - array) / np.linalg.norm(array))
        for key, array in expected.items()
    }


def _in_double(model: nn.Module, batch: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Widen the floats of a model, and those of a batch."""
    for _, module in model.named_modules():
        for key, value in list(vars(module).items()):
            if getattr(value, "dtype", None) == np.float32:
                setattr(module, key, np.asarray(value).astype(np.float64))
    return tuple(array.astype(np.float64) if array.dtype == np.float32 else array for array in batch)


@pytest.mark.parametrize(("name", "size"), [*((name, "small") for name in MODELS), *MEDIUM])
def test_gradients_of_f32_are_those_of_torch(name: str, size: str):
    example, model, batch = _drawn(name, size)
    expected_loss, expected = _by_torch(name, example.SIZES[size], model, batch, torch.float64)
    loss, found = _by_blu(example.loss, model, batch)
    wrong = {key: error for key, error in _errors(found, expected).items() if not error < LIMIT}
    assert not wrong, wrong
    assert loss == pytest.approx(expected_loss, rel=LIMIT)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_f64_are_those_of_torch(name: str):
    example, model, batch = _drawn(name, "small")
    batch = _in_double(model, batch)
    expected_loss, expected = _by_torch(name, example.SIZES["small"], model, batch, torch.float64)
    loss, found = _by_blu(example.loss, model, batch)
    assert all(array.dtype == np.float64 for array in found.values())
    wrong = {key: error for key, error in _errors(found, expected).items() if not error < DOUBLE_LIMIT}
    assert not wrong, wrong
    assert loss == pytest.approx(expected_loss, rel=DOUBLE_LIMIT)
