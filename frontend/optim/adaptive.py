"""Optimizers that divide gradients by what there was of them: Adagrad, Adadelta, and other kinds of Adam."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.frontend.functional import functional as ops
from blu.frontend.optim.optimizer import Elementwise, bias_correction, check_rates, decayed, moved
from blu.frontend.optim.optimizers import Adam
from blu.frontend.optim.trees import Tree
from blu.frontend.tracing.tree import flatten

Moments = tuple[Any, ...]


@dataclass(frozen=True)
class Adagrad(Elementwise):
    """Adagrad (Duchi, Hazan and Singer, "Adaptive subgradient methods"): v = v + g^2 and
    p = p - lr / (1 + (t - 1) rate_decay) g / (sqrt(v) + epsilon), where v is `initial` before the first step.
    `weight_decay` is added to the gradient as weight_decay * p."""

    rate_decay: float = 0.0
    weight_decay: float = 0.0
    initial: float = 0.0
    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        check_rates({"rate_decay": self.rate_decay, "weight_decay": self.weight_decay})
        check_rates({"initial": self.initial, "epsilon": self.epsilon})

    @property
    def moments(self) -> tuple[str, ...]:
        return ("v",)

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first step."""
        state = super().init(parameters)
        leaves, tree = flatten(state["v"])
        return {**state, "v": tree.unflatten([leaf + np.asarray(self.initial, leaf.dtype) for leaf in leaves])}

    def _shared(self, scalars: dict[str, Any]) -> tuple[Any, ...]:
        return (1 + (scalars["step"].astype("f64") - 1) * self.rate_decay,)

    def _update_one(self, name: str, p: Any, g: Any, moments: Moments, shared: tuple[Any, ...], rate: Any) -> Moments:
        g = decayed(p, g, self.weight_decay)
        v = moments[0] + g * g
        rate = ops.astype(rate, g.dtype) / shared[0].astype(g.dtype)
        return moved(p, rate * (g / (ops.sqrt(v) + self.epsilon))), v


@dataclass(frozen=True)
class Adadelta(Elementwise):
    """Adadelta (Zeiler, "An adaptive learning rate method"): p = p - lr d with d = sqrt(u + epsilon) /
    sqrt(v + epsilon) g, where v and u are the means of g^2 and of the d^2 before: v = rho v + (1 - rho) g^2.
    `weight_decay` is added to the gradient as weight_decay * p. A learning rate of 1 is as in the paper."""

    rho: float = 0.9
    epsilon: float = 1e-6
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_rates({"rho": self.rho}, below=1)
        check_rates({"epsilon": self.epsilon, "weight_decay": self.weight_decay})

    @property
    def moments(self) -> tuple[str, ...]:
        return "v", "u"

    def _update_one(self, name: str, p: Any, g: Any, moments: Moments, shared: tuple[Any, ...], rate: Any) -> Moments:
        g, (v, u) = decayed(p, g, self.weight_decay), moments
        v = self.rho * v + (1 - self.rho) * g * g
        distance = ops.sqrt(u + self.epsilon) / ops.sqrt(v + self.epsilon) * g
        u = self.rho * u + (1 - self.rho) * distance * distance
        return moved(p, ops.astype(rate, g.dtype) * distance), v, u


@dataclass(frozen=True)
class Adamax(Adam):
    """Adamax (Kingma and Ba, "Adam", section 7): as `Adam`, with v = max(beta2 v, |g| + epsilon) in the place of the
    root of the mean square, which is not corrected."""

    def _direction(self, g: Any, moments: Moments, shared: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        m, v = moments
        m = self.beta1 * m + (1 - self.beta1) * g
        v = ops.maximum(self.beta2 * v, abs(g) + self.epsilon)
        return m / shared[0].astype(g.dtype) / v, m, v


@dataclass(frozen=True)
class NAdam(Adam):
    """NAdam (Dozat, "Incorporating Nesterov momentum into Adam"): as `Adam`, with the first moment of a step ahead,
    where beta1 in step t is beta1 (1 - 0.96^(t momentum_decay) / 2)."""

    momentum_decay: float = 4e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rates({"momentum_decay": self.momentum_decay})

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first step; "product" is that of beta1 in all steps so far."""
        begun = super().init(parameters)
        return {"step": begun["step"], "product": np.float64(1), **begun}

    def _momentum(self, step: Any) -> Any:
        """beta1 in a step."""
        return self.beta1 * (1 - 0.5 * ops.power(0.96, step.astype("f64") * self.momentum_decay))

    def _advanced(self, state: dict[str, Any]) -> dict[str, Any]:
        scalars = super()._advanced(state)
        return {**scalars, "product": state["product"] * self._momentum(scalars["step"])}

    def _shared(self, scalars: dict[str, Any]) -> tuple[Any, ...]:
        step, product = scalars["step"], scalars["product"]
        ahead = self._momentum(step + 1)
        of_gradient = (1 - self._momentum(step)) / (1 - product)
        return of_gradient, ahead / (1 - product * ahead), bias_correction(self.beta2, step)

    def _direction(self, g: Any, moments: Moments, shared: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        (m, v), (of_gradient, of_moment, correction) = moments, (item.astype(g.dtype) for item in shared)
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        return (of_gradient * g + of_moment * m) / (ops.sqrt(v / correction) + self.epsilon), m, v


@dataclass(frozen=True)
class RAdam(Adam):
    """RAdam (Liu et al., "On the variance of the adaptive learning rate"): as `Adam`, whose first steps, in which the
    second moment is of few gradients, are not divided by that, and whose later ones are the smaller, the fewer."""

    def _shared(self, scalars: dict[str, Any]) -> tuple[Any, ...]:
        step = scalars["step"]
        correction1, correction2 = (bias_correction(beta, step) for beta in (self.beta1, self.beta2))
        longest = 2 / (1 - self.beta2) - 1
        length = longest - 2 * step.astype("f64") * (1 - correction2) / correction2
        is_known = length > 5
        length = ops.where(is_known, length, 6.0)
        factor = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        return correction1, ops.sqrt(factor * correction2), is_known

    def _direction(self, g: Any, moments: Moments, shared: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        (m, v), (correction, factor, is_known) = moments, shared
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        divided = factor.astype(g.dtype) / (ops.sqrt(v) + self.epsilon)
        return m / correction.astype(g.dtype) * ops.where(is_known, divided, ops.ones((), g.dtype)), m, v
