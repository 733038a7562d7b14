"""Every gradient of GPT-2 124M against PyTorch in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import blu
from blu import nn

CONFIG = {"n_layer": 12, "n_head": 12, "n_embd": 768, "vocab_size": 50257, "n_positions": 1024}
BATCH, POSITIONS = 2, 64
TOLERANCE = 2e-6
"""Of the difference's norm, relative to the gradient's."""


@pytest.mark.slow
def test_every_gradient_of_gpt2_124m_equals_torch_in_float64() -> None:
    model = nn.GPT2(CONFIG).initialize(0)
    rng = np.random.default_rng(0)
    tokens, targets = (rng.integers(0, 50257, (BATCH, POSITIONS)).astype(np.int32) for _ in range(2))
    value, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
    found = {name: np.asarray(array) for name, array in gradients.state_dict().items()}

    peer = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).to(torch.float64)
    state = {name: torch.from_numpy(np.asarray(array)) for name, array in model.state_dict().items()}
    peer.transformer.load_state_dict(state, strict=False)
    logits = peer(torch.from_numpy(tokens).long()).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(targets).long().flatten())
    loss.backward()
    assert abs(float(value) - float(loss.detach())) < 1e-5
    expected = {name: item.grad.numpy() for name, item in peer.transformer.named_parameters()}
    assert len(expected) == 148 and set(found) == set(expected)
    errors = {name: np.linalg.norm(found[name] - exact) / np.linalg.norm(exact) for name, exact in expected.items()}
    worst = max(errors, key=errors.__getitem__)
    assert errors[worst] < TOLERANCE, f"{worst}: relative error {errors[worst]:.1e}"
