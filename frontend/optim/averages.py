"""Averages of parameters over the steps of training."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.frontend.optim.optimizer import bias_correction, check_rates, step_of
from blu.frontend.optim.trees import Tree, aligned, with_buffers, without_buffers, zeros_beside


@dataclass(frozen=True)
class EMA:
    """The exponential moving average of weights, which is often better than the last weights are.

        average = optim.EMA(0.999)
        state = average.init(model)
        state = average.update(model, state)         (in the step, after the optimizer)
        best = average.weights(model, state)

    The sum starts at 0 and is divided by 1 - decay^t, so that after one update it is what the weights are.
    """

    decay: float = 0.999

    def __post_init__(self) -> None:
        check_rates({"decay": self.decay}, below=1)

    def init(self, parameters: Tree) -> dict[str, Any]:
        """The state before the first update."""
        return {"step": np.int32(0), "sum": zeros_beside(parameters)}

    def update(self, parameters: Tree, state: dict[str, Any]) -> dict[str, Any]:
        """The state with the parameters of now."""
        pairs, tree = aligned(without_buffers(parameters), state["sum"])
        sums = [self.decay * total + (1 - self.decay) * p.astype(total.dtype) for p, total in pairs]
        return {"step": step_of(state), "sum": tree.unflatten(sums)}

    def weights(self, parameters: Tree, state: dict[str, Any]) -> Tree:
        """The average, in the dtypes of the parameters, with their buffers; NaN before the first update."""
        pairs, tree = aligned(without_buffers(parameters), state["sum"])
        correction = bias_correction(self.decay, state["step"])
        means = [(total / correction.astype(total.dtype)).astype(p.dtype) for p, total in pairs]
        return with_buffers(tree.unflatten(means), parameters)
