"""What optimizers have in common: a state of moments beside each parameter, and steps that may be skipped."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import computing_dtype
from blu.errors import ArgumentError
from blu.frontend.functional import functional as ops
from blu.frontend.optim.trees import Tree, aligned, choose, with_buffers, without_buffers, zeros_beside

Decays = Callable[[str, tuple[int, ...]], bool]
"""Whether weight decay applies to the parameter of a name and shape."""


class Optimizer(ABC):
    """A rule for one step of training. It holds numbers only; what changes from step to step is in its state."""

    @abstractmethod
    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first step."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """What a state of this optimizer has."""
        return ("step",)

    @abstractmethod
    def _update(self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any) -> tuple[Tree, Any]:
        """Parameters and state after one step."""

    def update(
        self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any, apply: Any = None
    ) -> tuple[Tree, Any]:
        """Parameters and state after one step; both as they are where `apply` is given and false.

        The buffers of modules stay what they are.
        """
        missing = [name for name in self.state_names if not isinstance(state, Mapping) or name not in state]
        if missing:
            advice = "Begin with state = optimizer.init(parameters), and pass what update returns from then on."
            raise ArgumentError(f"{type(self).__name__}: the state has no {', '.join(missing)}", advice=advice)
        trained = without_buffers(parameters)
        updated = self._update(trained, gradients, state, learning_rate)
        found, state = updated if apply is None else choose(apply, updated, (trained, state))
        return with_buffers(found, parameters), state


class Elementwise(Optimizer):
    """An optimizer that moves each element by itself, with moments of the parameters' shapes."""

    @property
    @abstractmethod
    def moments(self) -> tuple[str, ...]:
        """The names of the moments in the state."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """What a state of this optimizer has."""
        return ("step", *self.moments)

    @abstractmethod
    def _update_one(
        self, name: str, p: Any, g: Any, moments: tuple[Any, ...], shared: tuple[Any, ...], rate: Any
    ) -> tuple[Any, ...]:
        """The parameter of this name, and its moments, after one step."""

    def _advanced(self, state: dict[str, Any]) -> dict[str, Any]:
        """The scalars of a state after a step: how many steps there were, and what else counts them."""
        return {"step": step_of(state)}

    def _shared(self, scalars: dict[str, Any]) -> tuple[Any, ...]:
        """What does not depend on the parameter, such as corrections of moments, of the scalars in a step."""
        return ()

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first step."""
        return {"step": np.int32(0), **{name: zeros_beside(parameters) for name in self.moments}}

    def _update(self, parameters: Tree, gradients: Tree, state: dict[str, Any], learning_rate: Any) -> tuple[Tree, Any]:
        rows, tree = aligned(parameters, gradients, *[state[name] for name in self.moments])
        scalars = self._advanced(state)
        shared = self._shared(scalars)
        results = [
            self._update_one(name, p, g, tuple(moments), shared, learning_rate)
            for name, (p, g, *moments) in zip(tree.names, rows, strict=True)
        ]
        columns = list(zip(*results, strict=True)) or [()] * (1 + len(self.moments))  # nothing to train is no mistake
        moved, *moments_after = (tree.unflatten(list(column)) for column in columns)
        return moved, {**scalars, **dict(zip(self.moments, moments_after, strict=True))}


def check_rates(rates: Mapping[str, float], *, below: float = math.inf) -> None:
    """ArgumentError for a number that is negative, or not below the limit."""
    for name, value in rates.items():
        if not 0 <= value < below:
            limits = f"in [0, {below:g})" if below < math.inf else "not negative"
            raise ArgumentError(f"{name} must be {limits}, got {value}")


def step_of(state: dict[str, Any]) -> Any:
    """The number of the step that is made of a state, from 1 on."""
    return ops.add(state["step"], 1)


def bias_correction(beta: float, step: Any) -> Any:
    """1 - beta^step as f64, without the cancellation that f32 would suffer at the first steps."""
    if beta == 0:
        return ops.ones((), "f64")
    return -ops.expm1(step.astype("f64") * math.log(beta))


def decayed(parameter: Any, gradient: Any, weight_decay: float) -> Any:
    """The gradient, in the dtype to compute in, with weight_decay * parameter added."""
    wide = computing_dtype(parameter.dtype)
    gradient = gradient.astype(wide)
    return gradient + weight_decay * parameter.astype(wide) if weight_decay else gradient


def shrunk_and_moved(parameter: Any, direction: Any, rate: Any, weight_decay: float) -> Any:
    """The parameter (1 - rate * weight_decay), less rate * direction, which is computed in a wider dtype."""
    kept = parameter.astype(computing_dtype(parameter.dtype))
    if weight_decay:
        kept = kept * (1 - rate * weight_decay)
    return (kept - rate * direction).astype(parameter.dtype)


def moved(parameter: Any, distance: Any) -> Any:
    """The parameter less a distance that was computed in a wider dtype."""
    wide = computing_dtype(parameter.dtype)
    return (parameter.astype(wide) - distance.astype(wide)).astype(parameter.dtype)
