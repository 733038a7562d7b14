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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blu.dialects.dtypes import as_dtype, computing_dtype
from blu.errors import ArgumentError, ShapeError
from blu.frontend import functional as ops
from blu.frontend.tree import flatten

Tree = Any


def _zeros(leaf: Any) -> np.ndarray:
    return np.zeros(tuple(leaf.shape), computing_dtype(as_dtype(leaf.dtype)).numpy)


def _moments(parameters: Tree) -> Tree:
    """Zeros beside each parameter."""
    leaves, tree = flatten(parameters)
    return tree.unflatten([_zeros(leaf) for leaf in leaves])


def _aligned(parameters: Tree, *others: Tree) -> tuple[list[tuple[Any, ...]], Any]:
    """Each parameter with its partners from the other trees, which must have the same leaves."""
    leaves, tree = flatten(parameters)
    columns = [leaves]
    for other in others:
        partners, other_tree = flatten(other)
        if other_tree.names != tree.names:
            missing = sorted(set(tree.names) ^ set(other_tree.names))
            raise ShapeError(f"parameters and gradients or state differ in {', '.join(missing[:5])}")
        columns.append(partners)
    return list(zip(*columns, strict=True)), tree


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
        return {**state, "momentum": _moments(parameters)} if self.momentum else state

    def update(self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any) -> tuple[Tree, Any]:
        """Parameters and state after one step."""
        if not self.momentum:
            pairs, tree = _aligned(parameters, gradients)
            moved = [_moved(p, learning_rate * self._decayed(p, g)) for p, g in pairs]
            return tree.unflatten(moved), {"step": _step_of(state)}
        triples, tree = _aligned(parameters, gradients, state["momentum"])
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
        return {"step": np.int32(0), "m": _moments(parameters), "v": _moments(parameters)}

    def update(self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any) -> tuple[Tree, Any]:
        """Parameters and state after one step."""
        rows, tree = _aligned(parameters, gradients, state["m"], state["v"])
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


def global_norm(gradients: Tree) -> Any:
    """The Euclidean norm of all gradients together, as an f32 scalar (f64 for f64 gradients)."""
    leaves, _ = flatten(gradients)
    squares = [ops.sum(ops.square(leaf.astype(computing_dtype(leaf.dtype)))) for leaf in leaves]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return ops.sqrt(total)


def clip_by_global_norm(gradients: Tree, limit: float) -> tuple[Tree, Any]:
    """Gradients scaled so that their global norm is at most `limit`, and the norm they had."""
    if not limit > 0:
        raise ArgumentError(f"the limit of the gradients' norm must be positive, got {limit}")
    norm = global_norm(gradients)
    scale = ops.minimum(limit / (norm + 1e-6), 1.0)
    leaves, tree = flatten(gradients)
    return tree.unflatten([(leaf * scale.astype(leaf.dtype)) for leaf in leaves]), norm


def cosine_schedule(step: int, peak: float, final: float, warmup: int, total: int) -> float:
    """The learning rate at a step (from 0): linear warmup to `peak`, then a half cosine down to `final` at `total`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= total:
        return final
    progress = (step - warmup) / max(1, total - warmup)
    return final + 0.5 * (peak - final) * (1 + math.cos(math.pi * progress))


def linear_schedule(step: int, peak: float, final: float, warmup: int, total: int) -> float:
    """The learning rate at a step (from 0): linear warmup to `peak`, then linearly down to `final` at `total`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return peak + (final - peak) * progress
