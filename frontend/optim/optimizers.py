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

from typing import Any

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import computing_dtype
from blu.frontend.functional import functional as ops
from blu.frontend.optim.optimizer import (
    Decays,
    Elementwise,
    bias_correction,
    check_rates,
    decayed,
    moved,
    shrunk_and_moved,
)


@dataclass(frozen=True)
class SGD(Elementwise):
    """Stochastic gradient descent: v = momentum * v + g, p = p - lr * v (or lr * (g + momentum * v) with `nesterov`).

    `weight_decay` is added to the gradient as weight_decay * p, as in torch.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_rates({"momentum": self.momentum}, below=1)
        check_rates({"weight_decay": self.weight_decay})

    @property
    def moments(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    def _update_one(
        self, name: str, p: Any, g: Any, moments: tuple[Any, ...], shared: tuple[Any, ...], rate: Any
    ) -> tuple[Any, ...]:
        g = decayed(p, g, self.weight_decay)
        if not moments:
            return (moved(p, rate * g),)
        velocity = self.momentum * moments[0] + g
        direction = g + self.momentum * velocity if self.nesterov else velocity
        return moved(p, rate * direction), velocity


@dataclass(frozen=True)
class AdamW(Elementwise):
    """Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization").

    m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  p = p (1 - lr decay) - lr m' / (sqrt(v') + epsilon)
    with the bias-corrected m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t). Weight decay applies to parameters for
    which `decays(name, shape)` holds: by default those of two and more dimensions.
    """

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    decays: Decays = lambda name, shape: len(shape) >= 2

    def __post_init__(self) -> None:
        check_rates({"beta1": self.beta1, "beta2": self.beta2}, below=1)
        check_rates({"epsilon": self.epsilon, "weight_decay": self.weight_decay})

    @property
    def moments(self) -> tuple[str, ...]:
        return "m", "v"

    def _shared(self, scalars: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(bias_correction(beta, scalars["step"]) for beta in (self.beta1, self.beta2))

    def _update_one(
        self, name: str, p: Any, g: Any, moments: tuple[Any, ...], shared: tuple[Any, ...], rate: Any
    ) -> tuple[Any, ...]:
        wide = computing_dtype(p.dtype)
        g, rate = g.astype(wide), ops.astype(rate, wide)
        direction, m, v = self._direction(g, moments, shared)
        decay = self.weight_decay if self.decays(name, tuple(p.shape)) else 0.0
        return shrunk_and_moved(p, direction, rate, decay), m, v

    def _direction(self, g: Any, moments: tuple[Any, ...], shared: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """m' / (sqrt(v') + epsilon), m and v."""
        (m, v), (correction1, correction2) = moments, shared
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        wide = g.dtype
        return (m / correction1.astype(wide)) / (ops.sqrt(v / correction2.astype(wide)) + self.epsilon), m, v


@dataclass(frozen=True)
class Adam(AdamW):
    """Adam (Kingma and Ba, "Adam: A method for stochastic optimization"): as `AdamW`, but that weight decay, of all
    parameters, is added to the gradient as weight_decay * p."""

    beta2: float = 0.999
    weight_decay: float = 0.0
    decays: Decays = lambda name, shape: True

    def _update_one(
        self, name: str, p: Any, g: Any, moments: tuple[Any, ...], shared: tuple[Any, ...], rate: Any
    ) -> tuple[Any, ...]:
        g = decayed(p, g, self.weight_decay if self.decays(name, tuple(p.shape)) else 0.0)
        direction, m, v = self._direction(g, moments, shared)
        return moved(p, ops.astype(rate, g.dtype) * direction), m, v


@dataclass(frozen=True)
class RMSprop(Elementwise):
    """RMSprop (Hinton, "Neural networks for machine learning", lecture 6): p = p - lr g / (sqrt(v) + epsilon) with
    v = alpha v + (1 - alpha) g^2, less the square of the mean gradient if `centered`; with `momentum`, p moves by
    b = momentum b + g / (sqrt(v) + epsilon). `weight_decay` is added to the gradient as weight_decay * p."""

    alpha: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        check_rates({"alpha": self.alpha, "momentum": self.momentum}, below=1)
        check_rates({"epsilon": self.epsilon, "weight_decay": self.weight_decay})

    @property
    def moments(self) -> tuple[str, ...]:
        return ("v", *(("mean",) if self.centered else ()), *(("momentum",) if self.momentum else ()))

    def _update_one(
        self, name: str, p: Any, g: Any, moments: tuple[Any, ...], shared: tuple[Any, ...], rate: Any
    ) -> tuple[Any, ...]:
        g, found = decayed(p, g, self.weight_decay), dict(zip(self.moments, moments, strict=True))
        spread = found["v"] = self.alpha * found["v"] + (1 - self.alpha) * g * g
        if self.centered:
            found["mean"] = self.alpha * found["mean"] + (1 - self.alpha) * g
            spread = spread - found["mean"] * found["mean"]
        direction = g / (ops.sqrt(spread) + self.epsilon)
        if self.momentum:
            direction = found["momentum"] = self.momentum * found["momentum"] + direction
        return moved(p, ops.astype(rate, g.dtype) * direction), *found.values()


@dataclass(frozen=True)
class Lion(Elementwise):
    """Lion (Chen et al., "Symbolic discovery of optimization algorithms"): all elements move by the same distance.

    p = p (1 - lr decay) - lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g. Weight decay applies to
    parameters for which `decays(name, shape)` holds: by default those of two and more dimensions.
    """

    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0
    decays: Decays = lambda name, shape: len(shape) >= 2

    def __post_init__(self) -> None:
        check_rates({"beta1": self.beta1, "beta2": self.beta2}, below=1)
        check_rates({"weight_decay": self.weight_decay})

    @property
    def moments(self) -> tuple[str, ...]:
        return ("m",)

    def _update_one(
        self, name: str, p: Any, g: Any, moments: tuple[Any, ...], shared: tuple[Any, ...], rate: Any
    ) -> tuple[Any, ...]:
        wide, (m,) = computing_dtype(p.dtype), moments
        g, rate = g.astype(wide), ops.astype(rate, wide)
        direction = ops.sign(self.beta1 * m + (1 - self.beta1) * g)
        decay = self.weight_decay if self.decays(name, tuple(p.shape)) else 0.0
        return shrunk_and_moved(p, direction, rate, decay), self.beta2 * m + (1 - self.beta2) * g
