"""Muon: steps of matrices that are orthogonal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import computing_dtype
from blu.frontend.functional import functional as ops
from blu.frontend.optim.optimizer import Optimizer, check_rates, moved, step_of
from blu.frontend.optim.optimizers import AdamW
from blu.frontend.optim.trees import Tree, aligned, without_buffers, zeros_beside
from blu.frontend.tracing.tree import flatten

_QUINTIC = (3.4445, -4.7750, 2.0315)
"""What brings singular values near 1 in few steps: a s + b s^3 + c s^5 (Jordan et al.)."""


@dataclass(frozen=True)
class Muon(Optimizer):
    """Momentum whose steps are made orthogonal, for the matrices of hidden layers (Jordan et al., "Muon").

    v = momentum v + (1 - momentum) g;  p = p (1 - lr decay) - lr sqrt(max(1, rows / columns)) O(v), where O brings all
    singular values near 1, in `steps` steps of Newton and Schulz's iteration, and v is (1 - momentum) g + momentum v
    first with `nesterov`. Parameters of two dimensions for which `takes(name, shape)` holds are moved so; embeddings
    and heads should not be. All others are `others`' to move, at the same learning rate.
    """

    momentum: float = 0.95
    weight_decay: float = 0.1
    nesterov: bool = True
    steps: int = 5
    takes: Callable[[str, tuple[int, ...]], bool] = lambda name, shape: True
    others: Optimizer = field(default_factory=AdamW)

    def __post_init__(self) -> None:
        check_rates({"momentum": self.momentum}, below=1)
        check_rates({"weight_decay": self.weight_decay, "steps": self.steps})

    @property
    def state_names(self) -> tuple[str, ...]:
        """What a state of this optimizer has."""
        return ("step", "momentum", "others")

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first step: that of the matrices by their names, and that of `others`."""
        matrices, rest = self._apart(without_buffers(parameters))
        return {"step": np.int32(0), "momentum": zeros_beside(matrices), "others": self.others.init(rest)}

    def _update(self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any) -> tuple[Tree, Any]:
        _, tree = aligned(parameters, gradients)
        (matrices, rest), (slopes, other_slopes) = self._apart(parameters), self._apart(gradients)
        rows, _ = aligned(matrices, slopes, state["momentum"])
        results = [self._update_one(p, g, velocity, learning_rate) for p, g, velocity in rows]
        found, others = self.others.update(rest, other_slopes, state["others"], learning_rate)
        found = {**found, **{name: p for name, (p, _) in zip(matrices, results, strict=True)}}
        momentum = {name: velocity for name, (_, velocity) in zip(matrices, results, strict=True)}
        state = {"step": step_of(state), "momentum": momentum, "others": others}
        return tree.unflatten([found[name] for name in tree.names]), state

    def _apart(self, parameters: Tree) -> tuple[dict[str, Any], dict[str, Any]]:
        """The matrices that are made orthogonal steps of, and all other leaves, by name."""
        leaves, tree = flatten(parameters)
        named = dict(zip(tree.names, leaves, strict=True))
        shapes = {name: tuple(leaf.shape) for name, leaf in named.items()}
        chosen = {name for name, shape in shapes.items() if len(shape) == 2 and self.takes(name, shape)}
        matrices = {name: leaf for name, leaf in named.items() if name in chosen}
        return matrices, {name: leaf for name, leaf in named.items() if name not in chosen}

    def _update_one(self, p: Any, g: Any, velocity: Any, rate: Any) -> tuple[Any, Any]:
        wide = computing_dtype(p.dtype)
        g, rate = g.astype(wide), ops.astype(rate, wide)
        velocity = self.momentum * velocity + (1 - self.momentum) * g
        direction = (1 - self.momentum) * g + self.momentum * velocity if self.nesterov else velocity
        rows, columns = p.shape
        distance = rate * math.sqrt(max(1.0, rows / columns)) * orthogonal(direction, self.steps)
        return moved(p, rate * self.weight_decay * p.astype(wide) + distance), velocity


def orthogonal(matrix: Any, steps: int) -> Any:
    """About U V^T of a matrix U S V^T: singular values between 0.7 and 1.2 after five steps, but those near 0."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / (ops.sqrt(ops.sum(ops.square(x))) + 1e-7)
    a, b, c = _QUINTIC
    for _ in range(steps):
        square = x @ x.T
        x = a * x + (b * square + c * (square @ square)) @ x
    return x.T if is_tall else x
