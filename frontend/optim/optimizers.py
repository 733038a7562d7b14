"""Optimizers as functions of tensors: an update is a part of the traced training step.

    optimizer = optim.AdamW(weight_decay=0.1)
    state = optimizer.init(model)

    @blu.jit(donate=("model", "state"))
    def step(model, state, tokens, targets, learning_rate):
        loss, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
        gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
        model, state = optimizer.update(model, gradients, state, learning_rate)
        return model, state, loss, norm

Parameters, gradients and state are trees of the same nesting; the step number and the learning rate are values at run
time. Moments are f32 for narrower parameters.

A step that must not count is skipped in the program: with `apply`, a bool scalar such as `optim.is_finite(norm)`,
parameters and state stay what they are where it is false, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import computing_dtype
from blu.errors import ArgumentError
from blu.frontend.functional import functional as ops
from blu.frontend.optim.trees import Tree, aligned, choose, zeros_beside


def _check_rate(name: str, value: float, *, below: float = math.inf) -> None:
    if not 0 <= value < below:
        limits = f"in [0, {below:g})" if below < math.inf else "not negative"
        raise ArgumentError(f"{name} must be {limits}, got {value}")


def _step_of(state: dict[str, Any]) -> Any:
    return ops.add(state["step"], 1)


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent: v = momentum * v + g, p = p - lr * v (or lr * (g + momentum * v) with `nesterov`).

    `weight_decay` is added to the gradient as weight_decay * p, as in torch.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        _check_rate("momentum", self.momentum, below=1)
        _check_rate("weight_decay", self.weight_decay)

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first step."""
        state: dict[str, Any] = {"step": np.int32(0)}
        return {**state, "momentum": zeros_beside(parameters)} if self.momentum else state

    def update(
        self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any, apply: Any = None
    ) -> tuple[Tree, Any]:
        """Parameters and state after one step; both as they are where `apply` is given and false."""
        updated = self._update(parameters, gradients, state, learning_rate)
        return updated if apply is None else choose(apply, updated, (parameters, state))

    def _update(self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any) -> tuple[Tree, Any]:
        if not self.momentum:
            pairs, tree = aligned(parameters, gradients)
            moved = [_moved(p, learning_rate * self._decayed(p, g)) for p, g in pairs]
            return tree.unflatten(moved), {"step": _step_of(state)}
        triples, tree = aligned(parameters, gradients, state["momentum"])
        results = [self._with_momentum(p, g, v, learning_rate) for p, g, v in triples]
        velocity = tree.unflatten([v for _, v in results])
        return tree.unflatten([p for p, _ in results]), {"step": _step_of(state), "momentum": velocity}

    def _decayed(self, parameter: Any, gradient: Any) -> Any:
        wide = computing_dtype(parameter.dtype)
        gradient = gradient.astype(wide)
        return gradient + self.weight_decay * parameter.astype(wide) if self.weight_decay else gradient

    def _with_momentum(self, parameter: Any, gradient: Any, velocity: Any, learning_rate: Any) -> tuple[Any, Any]:
        gradient = self._decayed(parameter, gradient)
        velocity = self.momentum * velocity + gradient
        direction = gradient + self.momentum * velocity if self.nesterov else velocity
        return _moved(parameter, learning_rate * direction), velocity


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization").

    m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  p = p (1 - lr decay) - lr m' / (sqrt(v') + epsilon)
    with the bias-corrected m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t). Weight decay applies to parameters for
    which `decays(name, shape)` holds: by default those of two and more dimensions.
    """

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    decays: Callable[[str, tuple[int, ...]], bool] = lambda name, shape: len(shape) >= 2

    def __post_init__(self) -> None:
        _check_rate("beta1", self.beta1, below=1)
        _check_rate("beta2", self.beta2, below=1)
        _check_rate("epsilon", self.epsilon)
        _check_rate("weight_decay", self.weight_decay)

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first step."""
        return {"step": np.int32(0), "m": zeros_beside(parameters), "v": zeros_beside(parameters)}

    def update(
        self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any, apply: Any = None
    ) -> tuple[Tree, Any]:
        """Parameters and state after one step; both as they are where `apply` is given and false."""
        updated = self._update(parameters, gradients, state, learning_rate)
        return updated if apply is None else choose(apply, updated, (parameters, state))

    def _update(self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any) -> tuple[Tree, Any]:
        rows, tree = aligned(parameters, gradients, state["m"], state["v"])
        step = _step_of(state)
        corrections = [_bias_correction(beta, step) for beta in (self.beta1, self.beta2)]
        results = [
            self._update_one(self.decays(name, tuple(row[0].shape)), *[*row, *corrections, learning_rate])
            for name, row in zip(tree.names, rows, strict=True)
        ]
        new_parameters, m, v = (tree.unflatten(list(column)) for column in zip(*results, strict=True))
        return new_parameters, {"step": step, "m": m, "v": v}

    def _update_one(
        self, decays: bool, p: Any, g: Any, m: Any, v: Any, correction1: Any, correction2: Any, rate: Any
    ) -> tuple[Any, Any, Any]:
        wide = computing_dtype(p.dtype)
        g, rate = g.astype(wide), ops.astype(rate, wide)
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        direction = (m / correction1.astype(wide)) / (ops.sqrt(v / correction2.astype(wide)) + self.epsilon)
        kept = p.astype(wide)
        if decays and self.weight_decay:
            kept = kept * (1 - rate * self.weight_decay)
        return (kept - rate * direction).astype(p.dtype), m, v


def _bias_correction(beta: float, step: Any) -> Any:
    """1 - beta^step as f64, without the cancellation that f32 would suffer at the first steps."""
    if beta == 0:
        return ops.ones((), "f64")
    return -ops.expm1(step.astype("f64") * math.log(beta))


def _moved(parameter: Any, distance: Any) -> Any:
    """The parameter less a distance that was computed in a wider dtype."""
    wide = computing_dtype(parameter.dtype)
    return (parameter.astype(wide) - distance.astype(wide)).astype(parameter.dtype)
