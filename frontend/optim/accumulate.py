"""Gradients of several micro-batches, added up on the device before one update."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.frontend.functional import functional as ops
from blu.frontend.optim.trees import Tree, aligned, zeros_beside
from blu.frontend.tracing.tree import flatten


@dataclass(frozen=True)
class Accumulation:
    """The weighted mean of the losses and gradients of micro-batches, in buffers that are updated in place.

        accumulation = optim.Accumulation()
        sums = accumulation.init(model)

        @blu.jit(donate=("sums",))
        def micro_step(model, sums, tokens, targets):
            loss, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
            return accumulation.add(sums, loss, gradients)

        @blu.jit(donate=("model", "state", "sums"))
        def update(model, state, sums, learning_rate):
            loss, gradients, sums = accumulation.mean(sums)
            return *optimizer.update(model, gradients, state, learning_rate), sums, loss

    K micro-batches of equal size and one update give what one step on all K together gives, to rounding; K is known
    only at run time. Micro-batches that count differently (by their numbers of targets, say) get a `weight`.
    Sums are f32 for narrower gradients.
    """

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The sums of no micro-batch."""
        return {"loss": np.float32(0), "weight": np.float32(0), "gradients": zeros_beside(parameters)}

    def add(self, sums: dict[str, Any], loss: Any, gradients: Tree, weight: Any = 1.0) -> dict[str, Any]:
        """The sums with one micro-batch more."""
        is_first = sums["weight"] == 0
        pairs, tree = aligned(sums["gradients"], gradients)
        return {
            "loss": _sum(is_first, sums["loss"], loss, weight),
            "weight": sums["weight"] + weight,
            "gradients": tree.unflatten([_sum(is_first, total, item, weight) for total, item in pairs]),
        }

    def mean(self, sums: dict[str, Any]) -> tuple[Any, Tree, dict[str, Any]]:
        """The mean loss, the mean gradients, and the sums of no micro-batch, to begin again.

        Only their weight is set to 0, which says that there is nothing in them.
        """
        leaves, tree = flatten(sums["gradients"])
        share = 1.0 / sums["weight"]
        means = tree.unflatten([leaf * share.astype(leaf.dtype) for leaf in leaves])
        return sums["loss"] * share, means, {**sums, "weight": ops.zeros((), sums["weight"].dtype)}


def _sum(is_first: Any, total: Any, value: Any, weight: Any) -> Any:
    """The total and a value times its weight in the total's dtype; a weight of the Python number 1 costs nothing."""
    wide = value.astype(total.dtype)
    wide = wide if isinstance(weight, float) and weight == 1.0 else wide * ops.astype(weight, total.dtype)
    return ops.where(is_first, 0.0, total) + wide
