"""The functions that training a GPT-2 is compiled as. All of them update what they return in place.

Results are called as the arguments that they are the new values of; besides these there are "loss" and "norm".

    step      one whole step: loss, gradients, clipping, update
    micro     the loss and gradients of a micro-batch, added to sums
    update    clipping and the update with the mean of the sums
    evaluate  the loss alone

Shapes: B sequences of T tokens. `scale` is the state of the loss scale, an empty dict where there is none.
"""

from __future__ import annotations

from typing import Any

from blu.dataclass import dataclass, field
from blu.frontend.autocast import autocast
from blu.frontend.functional import functional as ops
from blu.frontend.nn.gpt2 import GPT2
from blu.frontend.nn.gpt2_steps import loss as gpt2_loss
from blu.frontend.optim import Accumulation, AdamW, LossScale, clip_by_global_norm, global_norm, is_finite
from blu.frontend.transform import value_and_grad


@dataclass(frozen=True)
class TrainingSteps:
    """The steps for an optimizer. `clip` is the largest norm of the gradients (0: any); `policy` is autocast's.

    When `guarded`, a step whose loss or gradients are not finite changes neither parameters nor the optimizer's state.
    """

    optimizer: AdamW
    clip: float = 1.0
    policy: str = "f32"
    guarded: bool = False
    scaling: LossScale | None = None
    accumulation: Accumulation = field(default_factory=Accumulation)

    def init_scale(self) -> dict[str, Any]:
        """The state of the loss scale before the first step."""
        return {} if self.scaling is None else self.scaling.init()

    def step(self, model: GPT2, state: Any, scale: Any, tokens: Any, targets: Any, learning_rate: Any) -> dict:
        """Parameters, state, scale, the loss and the gradients' norm after one step on tokens and targets [B, T]."""
        loss, gradients = self._gradients(model, scale, tokens, targets)
        return self._apply(model, state, scale, loss, gradients, learning_rate)

    def micro(self, model: GPT2, sums: Any, scale: Any, tokens: Any, targets: Any) -> dict:
        """The sums with the loss and gradients of tokens and targets [B, T]."""
        loss, gradients = self._gradients(model, scale, tokens, targets)
        return {"sums": self.accumulation.add(sums, loss, gradients)}

    def update(self, model: GPT2, state: Any, sums: Any, scale: Any, learning_rate: Any) -> dict:
        """Parameters, state, empty sums, scale, the mean loss and the gradients' norm after a step."""
        loss, gradients, sums = self.accumulation.mean(sums)
        found = self._apply(model, state, scale, loss, gradients, learning_rate)
        return {"model": found.pop("model"), "state": found.pop("state"), "sums": sums, **found}

    def evaluate(self, model: GPT2, tokens: Any, targets: Any) -> dict:
        """The mean loss of targets [B, T] after tokens [B, T]."""
        with autocast(self.policy):
            return {"loss": gpt2_loss(model, tokens, targets)}

    def _gradients(self, model: GPT2, scale: Any, tokens: Any, targets: Any) -> tuple[Any, Any]:
        differentiate = value_and_grad if self.scaling is None else self._scaled(scale)
        with autocast(self.policy):
            return differentiate(gpt2_loss)(model, tokens, targets)

    def _scaled(self, scale: Any) -> Any:
        assert self.scaling is not None
        scaling = self.scaling
        return lambda function: scaling.value_and_grad(function, scale)

    def _apply(self, model: GPT2, state: Any, scale: Any, loss: Any, gradients: Any, learning_rate: Any) -> dict:
        if self.clip:
            gradients, norm = clip_by_global_norm(gradients, self.clip)
        else:
            norm = global_norm(gradients)
        finite = ops.logical_and(is_finite(norm), is_finite(loss)) if self.guarded else None
        model, state = self.optimizer.update(model, gradients, state, learning_rate, apply=finite)
        if self.scaling is not None:
            scale = self.scaling.update(scale, finite)
        return {"model": model, "state": state, "scale": scale, "loss": loss, "norm": norm}
