"""Tests of layers and of GPT-2 as programs: run by the ops' NumPy references, compared with torch and transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from blu import nn
from blu.dialects.core.dtypes import TensorType
from blu.errors import ShapeError, WeightsError
from blu.frontend.io import gpt2_state_dict, load_config, random_state_dict
from blu.frontend.nn import gpt2_steps
from blu.frontend.tracing.spec import spec
from blu.frontend.tracing.trace import signature_of, trace
from tests.support.programs.interpret import interpret


def run(function: Callable[..., Any], **arguments: Any) -> list[np.ndarray]:
    """Trace a function and run what it means; its results, flat."""
    signature, leaves = signature_of((), arguments, ())
    inputs = [leaf for leaf, kind in zip(leaves, signature.leaves, strict=True) if isinstance(kind, TensorType)]
    return interpret(trace(function, signature).module, inputs)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def from_torch(module: nn.Module, reference: torch.nn.Module) -> nn.Module:
    module.load_state_dict({name: array.detach().numpy() for name, array in reference.state_dict().items()})
    return module


LAYERS = {
    "linear": (lambda: nn.Linear(5, 3), lambda: torch.nn.Linear(5, 3)),
    "linear without bias": (lambda: nn.Linear(5, 3, bias=False), lambda: torch.nn.Linear(5, 3, bias=False)),
    "layer norm": (lambda: nn.LayerNorm(5), lambda: torch.nn.LayerNorm(5)),
    "layer norm without bias": (lambda: nn.LayerNorm(5, bias=False), lambda: torch.nn.LayerNorm(5, bias=False)),
    "layer norm of two": (lambda: nn.LayerNorm((4, 5)), lambda: torch.nn.LayerNorm((4, 5))),
    "rms norm": (lambda: nn.RMSNorm(5), lambda: torch.nn.RMSNorm(5, eps=1e-6)),
    "rms norm of two": (lambda: nn.RMSNorm((4, 5)), lambda: torch.nn.RMSNorm((4, 5), eps=1e-6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_torchs(name: str) -> None:
    make, make_reference = LAYERS[name]
    reference = make_reference()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.copy_(torch.rand_like(parameter) + 0.5)
    x = draw(2, 4, 5)
    [found] = run(lambda module, x: module(x), module=from_torch(make(), reference), x=x)
    np.testing.assert_allclose(found, reference(torch.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_an_embedding_takes_rows() -> None:
    module = nn.Embedding(7, 3).initialize(1)
    indices = np.array([[0, 6], [3, 3]], np.int32)
    [found] = run(lambda module, x: module(x), module=module, x=indices)
    np.testing.assert_array_equal(found, module.weight[indices])


CONFIG = {"n_layer": 3, "n_head": 5, "n_embd": 80, "vocab_size": 1009, "n_positions": 48}
LENGTH = 33


@pytest.fixture(params=["gelu_new", "gelu"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[nn.GPT2, Any]:
    """A GPT-2 of odd sizes with weights that `transformers` wrote, and transformers' model."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    reference = GPT2LMHeadModel(GPT2Config(**CONFIG, activation_function=request.param)).eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(3)  # else the activation function hardly shows
    reference.save_pretrained(tmp_path)
    model = nn.GPT2(load_config(tmp_path))
    model.load_state_dict(gpt2_state_dict(tmp_path))
    return model, reference


def test_gpt2_means_what_transformers_computes(checkpoint: tuple[nn.GPT2, Any]) -> None:
    model, reference = checkpoint
    tokens = np.random.default_rng(0).integers(0, CONFIG["vocab_size"], (2, LENGTH)).astype(np.int32)
    [found] = run(gpt2_steps.forward, model=model, tokens=tokens)
    expected = reference(torch.tensor(tokens.astype(np.int64))).logits.detach().numpy()
    np.testing.assert_allclose(found, expected, atol=3e-5)


def test_prompt_and_steps_with_a_cache_are_the_whole(checkpoint: tuple[nn.GPT2, Any]) -> None:
    model, _ = checkpoint
    tokens = np.random.default_rng(1).integers(0, CONFIG["vocab_size"], (1, LENGTH)).astype(np.int32)
    [expected] = run(gpt2_steps.forward, model=model, tokens=tokens)
    cache = [{name: np.zeros(item.shape, np.float32) for name, item in layer.items()} for layer in model.cache_specs()]
    padded = np.zeros((1, 40), np.int32)
    padded[:, :30] = tokens[:, :30]
    results = run(gpt2_steps.prefill, model=model, tokens=padded, cache=cache, length=np.int32(30))
    for position in range(30, LENGTH):
        logits, token, *arrays = results
        np.testing.assert_allclose(logits, expected[:, position - 1], atol=3e-5)
        assert token == logits.argmax(-1)
        cache = [{"key": arrays[2 * i], "value": arrays[2 * i + 1]} for i in range(CONFIG["n_layer"])]
        token = tokens[:, position : position + 1]
        results = run(gpt2_steps.decode, model=model, tokens=token, cache=cache, position=np.int32(position))
    np.testing.assert_allclose(results[0], expected[:, -1], atol=3e-5)


def test_gpt2_names_are_hugging_faces() -> None:
    config = nn.GPT2Config(vocab_size=11, n_positions=8, n_embd=6, n_layer=2, n_head=3, tie_word_embeddings=False)
    fresh = random_state_dict(config.to_dict(), 0)
    model = nn.GPT2(config)
    assert {name: item.shape for name, item in model.state_dict().items()} == {k: v.shape for k, v in fresh.items()}
    model.initialize(0)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, fresh[name])


def test_ops_carry_the_path_of_their_module() -> None:
    signature, _ = signature_of((nn.GPT2(nn.GPT2Config(**CONFIG)), spec((1, 4), "i32")), {}, ("model", "tokens"))
    text = trace(gpt2_steps.forward, signature).text
    for path in ("wte", "h.2.attn", "h.2.mlp.c_fc", "ln_f"):
        assert f'loc("{path}"(' in text
    assert "layers.py" in text


def test_more_tokens_than_positions_are_refused() -> None:
    signature, _ = signature_of((nn.GPT2(nn.GPT2Config(**CONFIG)), spec((1, 49), "i32")), {}, ("model", "tokens"))
    with pytest.raises(ShapeError, match="49 tokens are more than the model's 48 positions"):
        trace(gpt2_steps.forward, signature)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("gpt3", "'gpt3' is not a GPT-2 that Blu knows"),
        ({"n_embd": 10, "n_head": 3}, "n_embd 10 is not a multiple of n_head 3"),
    ],
)
def test_configurations_that_are_none_are_refused(config: Any, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        nn.GPT2(config)
