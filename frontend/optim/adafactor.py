"""Adafactor: the moments of a matrix in as many numbers as it has rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import computing_dtype
from blu.frontend.functional import functional as ops
from blu.frontend.optim.optimizer import Optimizer, check_rates, moved, step_of
from blu.frontend.optim.trees import Tree, aligned, without_buffers
from blu.frontend.tracing.tree import flatten


@dataclass(frozen=True)
class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, "Adafactor: Adaptive learning rates with sublinear memory cost").

    Of g^2 the means over rows and over columns are kept, averaged with weights t^-decay for the newest, and its
    estimate is their product over the mean of both. A step is g / sqrt(estimate), scaled down to a root mean square of
    `clip`, times min(lr, 1 / sqrt(t)) and the root mean square of the parameter, which counts as `epsilon` at least.
    Parameters of fewer than two dimensions keep the average of g^2 whole. Weight decay is p (1 - lr decay).
    """

    decay: float = 0.8
    epsilon: float = 1e-3
    clip: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        rates = {"decay": self.decay, "epsilon": self.epsilon, "clip": self.clip, "weight_decay": self.weight_decay}
        check_rates(rates)

    @property
    def state_names(self) -> tuple[str, ...]:
        """What a state of this optimizer has."""
        return ("step", "means")

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first step: means by the names of parameters."""
        leaves, tree = flatten(without_buffers(parameters))
        means = {name: _first_means(leaf) for name, leaf in zip(tree.names, leaves, strict=True)}
        return {"step": np.int32(0), "means": means}

    def _update(self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any) -> tuple[Tree, Any]:
        pairs, tree = aligned(parameters, gradients)
        step = step_of(state)
        time = step.astype("f64")
        weight, most = ops.power(time, -self.decay), ops.rsqrt(time)
        results = [
            self._update_one(p, g, state["means"][name], weight, most, learning_rate)
            for name, (p, g) in zip(tree.names, pairs, strict=True)
        ]
        means = {name: found for name, (_, found) in zip(tree.names, results, strict=True)}
        return tree.unflatten([p for p, _ in results]), {"step": step, "means": means}

    def _update_one(
        self, p: Any, g: Any, means: dict[str, Any], weight: Any, most: Any, rate: Any
    ) -> tuple[Any, dict[str, Any]]:
        wide = computing_dtype(p.dtype)
        g, rate, kept = g.astype(wide), ops.astype(rate, wide), p.astype(wide)
        newest = {name: _mean(g * g, name) for name in means}
        weight = weight.astype(wide)
        means = {name: mean + weight * (newest[name] - mean) for name, mean in means.items()}
        smallest = float(np.finfo(wide.numpy).eps)
        direction = g * ops.rsqrt(ops.maximum(_estimate(means, smallest), smallest**2))
        size = ops.maximum(_root_mean_square(kept), self.epsilon) * ops.minimum(rate, most.astype(wide))
        size = size / ops.maximum(_root_mean_square(direction) / self.clip, 1.0)
        return moved(p, rate * self.weight_decay * kept + size * direction), means


def _first_means(parameter: Any) -> dict[str, np.ndarray]:
    shape, dtype = tuple(parameter.shape), computing_dtype(parameter.dtype).numpy
    if len(shape) < 2:
        return {"whole": np.zeros(shape, dtype)}
    return {"rows": np.zeros((*shape[:-1], 1), dtype), "columns": np.zeros((*shape[:-2], 1, shape[-1]), dtype)}


_AXES = {"rows": -1, "columns": -2}


def _mean(squares: Any, name: str) -> Any:
    return squares if name == "whole" else ops.mean(squares, _AXES[name], keepdims=True)


def _estimate(means: dict[str, Any], smallest: float) -> Any:
    """What g^2 is taken to be."""
    if "whole" in means:
        return means["whole"]
    rows = means["rows"]
    return rows * means["columns"] / ops.maximum(ops.mean(rows, -2, keepdims=True), smallest)


def _root_mean_square(values: Any) -> Any:
    return ops.sqrt(ops.mean(ops.square(values)))
