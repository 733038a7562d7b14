"""Training steps of a small GPT-2: loss, gradients, clipping by the global norm and AdamW, with state in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import blu
from bench.gpu.case import Case
from blu import nn
from blu.frontend import optim
from blu.frontend.tracing.tree import flatten

CONFIG = {"n_layer": 2, "n_head": 2, "n_embd": 64, "vocab_size": 259, "n_positions": 48}
# What is rounded to bf16 differs by one rounding here and there.
ERRORS = {"f32": 2e-5, "tf32": 5e-3, "bf16": 3e-2}


def cases() -> Iterator[Case]:
    """All cases of this file."""
    random = np.random.default_rng(5)
    adamw = optim.AdamW(0.9, 0.95, weight_decay=0.1)
    model = nn.GPT2(CONFIG).initialize(0)
    leaves, structure = flatten(adamw.init(model))
    state = structure.unflatten([_moments(random, leaf) for leaf in leaves])
    tokens, targets = (random.integers(0, 259, (3, 45)).astype(np.int32) for _ in range(2))
    for policy, error in ERRORS.items():
        arguments = (model, state, tokens, targets, np.float32(6e-4))
        yield Case(f"training step {policy}", _step(adamw, policy), arguments, error, donate=("model", "state"))


def _moments(random: np.random.Generator, leaf: Any) -> np.ndarray:
    """Means of gradients and of squares, which are not negative; a count of steps."""
    if np.asarray(leaf).dtype.kind in "iu":
        return np.full_like(leaf, 10)
    return np.abs(random.standard_normal(np.shape(leaf))).astype(np.float32) * np.float32(0.01)


def _step(adamw: optim.AdamW, policy: str) -> Callable[..., tuple]:
    def step(model: nn.GPT2, state: Any, tokens: blu.Tensor, targets: blu.Tensor, rate: blu.Tensor) -> tuple:
        with blu.autocast(policy):
            loss, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
        gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
        return *adamw.update(model, gradients, state, rate), loss, norm

    return step
