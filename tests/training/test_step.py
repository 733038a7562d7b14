"""A whole training step of a small odd GPT-2 as one program, against PyTorch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import blu
from blu import nn
from blu.frontend import optim

CONFIG = {"n_layer": 2, "n_head": 5, "n_embd": 80, "vocab_size": 1009, "n_positions": 33}
BATCH = 2
# Relative to the norm of each gradient; PyTorch's own f32 gradients are as far off.
GRADIENT_TOLERANCE = 2e-6
STEPS = 10


@pytest.fixture(scope="module")
def model() -> nn.GPT2:
    return nn.GPT2(CONFIG).initialize(0)


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, np.ndarray]:
    shape = (BATCH, CONFIG["n_positions"])
    rng = np.random.default_rng(0)
    return tuple(rng.integers(0, CONFIG["vocab_size"], shape).astype(np.int32) for _ in range(2))


def reference(model: nn.GPT2, dtype: torch.dtype) -> GPT2LMHeadModel:
    """transformers' model with the same weights and no dropout."""
    peer = GPT2LMHeadModel(GPT2Config(**CONFIG, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).to(dtype)
    state = {name: torch.tensor(np.asarray(array)) for name, array in model.state_dict().items()}
    missing, unexpected = peer.transformer.load_state_dict(state, strict=False)
    assert not unexpected and all(name.endswith((".attn.bias", ".masked_bias")) for name in missing)
    return peer


def torch_loss(peer: GPT2LMHeadModel, batch: tuple[np.ndarray, np.ndarray]) -> torch.Tensor:
    tokens, targets = (torch.tensor(array, dtype=torch.int64) for array in batch)
    logits = peer(tokens).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_every_gradient_equals_torch_in_float64(model: nn.GPT2, batch: tuple[np.ndarray, np.ndarray]) -> None:
    value, gradients = blu.value_and_grad(nn.gpt2_loss)(model, *batch)
    peer = reference(model, torch.float64)
    exact = torch_loss(peer, batch)
    exact.backward()
    assert float(value) == pytest.approx(float(exact.detach()), rel=1e-6)
    expected = {name: item.grad.numpy() for name, item in peer.transformer.named_parameters()}
    found = gradients.state_dict()
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        error = np.linalg.norm(np.asarray(found[name]) - gradient) / np.linalg.norm(gradient)
        assert error < GRADIENT_TOLERANCE, f"{name}: relative error {error:.1e}"


OPTIMIZER = optim.AdamW(beta1=0.9, beta2=0.95, weight_decay=0.1)


def step(model: nn.GPT2, state: Any, tokens: Any, targets: Any, rate: Any) -> tuple:
    """Forward, backward, clipping and the update: the parameters, the state, the loss and the gradients' norm."""
    value, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
    gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
    return *OPTIMIZER.update(model, gradients, state, rate), value, norm


train_step = blu.jit(step, donate=("model", "state"))


def torch_optimizer(peer: GPT2LMHeadModel) -> torch.optim.Optimizer:
    decayed = [item for item in peer.parameters() if item.ndim >= 2]
    other = [item for item in peer.parameters() if item.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)


def test_ten_steps_of_adamw_follow_torch(model: nn.GPT2, batch: tuple[np.ndarray, np.ndarray]) -> None:
    peer = reference(model, torch.float32)
    adamw = torch_optimizer(peer)
    trained, state = nn.GPT2(CONFIG).initialize(0), OPTIMIZER.init(model)
    for number in range(STEPS):
        rate = optim.cosine_schedule(number, 1e-3, 1e-4, 3, STEPS)
        trained, state, value, norm = train_step(trained, state, *batch, rate)
        for group in adamw.param_groups:
            group["lr"] = rate
        adamw.zero_grad()
        expected = torch_loss(peer, batch)
        expected.backward()
        expected_norm = torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        adamw.step()
        assert float(value) == pytest.approx(float(expected.detach()), abs=1e-4)
        assert float(norm) == pytest.approx(float(expected_norm), rel=1e-3)


def test_the_step_updates_parameters_in_place(model: nn.GPT2, batch: tuple[np.ndarray, np.ndarray]) -> None:
    traced = train_step.trace(model, OPTIMIZER.init(model), *batch, 1e-3)
    outputs = traced.compile().program.outputs
    copied = [spec for spec in outputs if spec.input is None and spec.nbytes > 4096]
    assert not copied, f"{len(copied)} large results are not updated in place"
