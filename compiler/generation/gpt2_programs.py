"""The programs that a GPT-2 writes with: one for whole texts, one for prompts, one for each further token."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from blu.compiler.requests import ProgramRequest
from blu.dataclass import dataclass


@dataclass(frozen=True)
class Gpt2Request(ProgramRequest):
    """One program of a GPT-2: `entry` is "forward", "prefill" or "decode", for tokens [batch, length].

    `autocast` is a policy of `blu.autocast`, or empty.
    """

    kind = "gpt2"
    entries = ("forward", "prefill", "decode")

    autocast: str = ""

    def trace(self) -> Any:
        """Trace the program."""
        from blu.frontend.autocast import autocast

        with autocast(self.autocast) if self.autocast else nullcontext():
            return self._trace()

    def _trace(self) -> Any:
        from blu.compiler.jit import jit
        from blu.frontend.nn import gpt2_steps
        from blu.frontend.nn.gpt2 import GPT2
        from blu.frontend.tracing.spec import spec

        model = GPT2(dict(self.config), self.dtype)
        tokens = spec((self.batch, self.length), "i32")
        name = f"gpt2_{self.entry}"
        if self.entry == "forward":
            return jit(gpt2_steps.forward, name=name, target=self.target).trace(model, tokens)
        function = {"prefill": gpt2_steps.prefill, "decode": gpt2_steps.decode}[self.entry]
        step = jit(function, name=name, donate=("cache",), target=self.target)
        return step.trace(model, tokens, model.cache_specs(self.batch), spec((), "i32"))


def bucket(length: int, limit: int, smallest: int = 16) -> int:
    """The padded length of a prompt: the next power of two, from `smallest` on, at most `limit`."""
    size = smallest
    while size < length:
        size *= 2
    return min(size, limit)
