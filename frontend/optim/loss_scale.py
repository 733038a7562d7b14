"""Dynamic loss scaling, for gradients in f16: small ones would vanish, so they are computed of a loss times a scale."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import computing_dtype
from blu.errors import ArgumentError
from blu.frontend.functional import functional as ops
from blu.frontend.optim.trees import Tree
from blu.frontend.tracing.tree import flatten
from blu.frontend.transform import value_and_grad


@dataclass(frozen=True)
class LossScale:
    """A scale that is halved when gradients overflow, and doubled after `interval` steps in which none did.

        scaling = optim.LossScale()
        scale = scaling.init()

        @blu.jit(donate=("model", "state", "scale"))
        def step(model, state, scale, tokens, targets, learning_rate):
            loss, gradients = scaling.value_and_grad(nn.gpt2_loss, scale)(model, tokens, targets)
            gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
            finite = optim.is_finite(norm)
            model, state = optimizer.update(model, gradients, state, learning_rate, apply=finite)
            return model, state, scaling.update(scale, finite), loss, norm

    The state {"scale": f32, "good_steps": i32, "skipped_steps": i32} lives on the device. The defaults are torch's;
    the scale stays between `minimum` and `maximum`.
    """

    initial: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    minimum: float = 2.0**-24
    maximum: float = 2.0**24

    def __post_init__(self) -> None:
        if not 0 < self.minimum <= self.initial <= self.maximum:
            raise ArgumentError(f"the scale must be in {self.minimum:g}..{self.maximum:g}, got {self.initial:g}")
        if not (self.growth > 1 and 0 < self.backoff < 1):
            raise ArgumentError(
                f"growth must be above 1 and backoff between 0 and 1, got {self.growth} and {self.backoff}"
            )
        if self.interval < 1:
            raise ArgumentError(f"interval must be at least 1 step, got {self.interval}")

    def init(self) -> dict[str, Any]:
        """The state before the first step."""
        return {"scale": np.float32(self.initial), "good_steps": np.int32(0), "skipped_steps": np.int32(0)}

    def value_and_grad(
        self,
        function: Callable[..., Any],
        state: dict[str, Any],
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
    ) -> Callable[..., Any]:
        """`blu.value_and_grad` through the scaled loss; value and gradients come without the scale.

        Gradients that overflowed are infinite or NaN.
        """

        @functools.wraps(function)
        def scaled(*arguments: Any, **keywords: Any) -> Any:
            result = function(*arguments, **keywords)
            loss = result[0] if has_aux else result
            return loss * state["scale"].astype(computing_dtype(loss.dtype)), result

        @functools.wraps(function)
        def unscaled(*arguments: Any, **keywords: Any) -> Any:
            (_, value), gradients = value_and_grad(scaled, argnums, has_aux=True)(*arguments, **keywords)
            return value, self.unscale(gradients, state)

        return unscaled

    def unscale(self, gradients: Tree, state: dict[str, Any]) -> Tree:
        """Gradients of a scaled loss divided by the scale: f32 where they are narrower."""
        share = 1.0 / state["scale"]
        leaves, tree = flatten(gradients)
        wide = [leaf.astype(computing_dtype(leaf.dtype)) for leaf in leaves]
        return tree.unflatten([leaf * share.astype(leaf.dtype) for leaf in wide])

    def update(self, state: dict[str, Any], finite: Any) -> dict[str, Any]:
        """The state after a step, of which the bool scalar `finite` says whether its gradients were."""
        good = ops.where(finite, state["good_steps"] + 1, 0)
        grows = good >= self.interval
        larger = ops.minimum(state["scale"] * self.growth, self.maximum)
        smaller = ops.maximum(state["scale"] * self.backoff, self.minimum)
        return {
            "scale": ops.where(finite, ops.where(grows, larger, state["scale"]), smaller),
            "good_steps": ops.where(grows, 0, good),
            "skipped_steps": state["skipped_steps"] + ops.astype(ops.logical_not(finite), "i32"),
        }
