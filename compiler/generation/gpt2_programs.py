"""The programs that a GPT-2 runs as, compiled or from the cache. A hit imports neither MLIR nor the frontend's ops.

An executable says by the names of its inputs what it needs ("model.h.0.attn.c_attn.weight", "tokens"), so weights are
bound without tracing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from blu.compiler.cache import Cache, Members
from blu.compiler.fingerprint import key_of

# The keys of a config.json that decide what is computed.
CONFIG_KEYS = (
    "vocab_size",
    "n_positions",
    "n_embd",
    "n_layer",
    "n_head",
    "n_inner",
    "activation_function",
    "layer_norm_epsilon",
    "tie_word_embeddings",
)
ENTRIES = ("forward", "prefill", "decode")


@dataclass(frozen=True)
class Gpt2Request:
    """One program of a GPT-2: `entry` is "forward", "prefill" or "decode", for tokens [batch, length].

    `autocast` is a policy of `blu.autocast`, or empty.
    """

    entry: str
    config: tuple[tuple[str, Any], ...]
    target: str
    batch: int = 1
    length: int = 1
    dtype: str = "f32"
    autocast: str = ""

    @classmethod
    def of(cls, entry: str, config: Mapping[str, Any], target: str, **sizes: Any) -> Gpt2Request:
        """The request for a configuration as config.json has it."""
        assert entry in ENTRIES, entry
        return cls(entry, tuple((key, config[key]) for key in CONFIG_KEYS), target, **sizes)

    @property
    def name(self) -> str:
        return f"gpt2 {self.entry} [{self.batch}, {self.length}]"

    def key(self) -> str:
        """The key of the request in the compile cache."""
        return key_of("gpt2", json.dumps(asdict(self)))


def trace_request(request: Gpt2Request) -> Any:
    """Trace the program that a request asks for."""
    from blu.frontend.autocast import autocast

    with autocast(request.autocast) if request.autocast else nullcontext():
        return _trace(request)


def _trace(request: Gpt2Request) -> Any:
    from blu.compiler.jit import jit
    from blu.frontend.nn import gpt2_steps
    from blu.frontend.nn.gpt2 import GPT2
    from blu.frontend.tracing.spec import spec

    model = GPT2(dict(request.config), request.dtype)
    tokens = spec((request.batch, request.length), "i32")
    name = f"gpt2_{request.entry}"
    if request.entry == "forward":
        return jit(gpt2_steps.forward, name=name, target=request.target).trace(model, tokens)
    function = {"prefill": gpt2_steps.prefill, "decode": gpt2_steps.decode}[request.entry]
    step = jit(function, name=name, donate=("cache",), target=request.target)
    return step.trace(model, tokens, model.cache_specs(request.batch), spec((), "i32"))


def compile_request(request: Gpt2Request, cache: Cache, on_pass: Callable[[str], None] | None = None) -> Members:
    """The program's members: from the cache, where it knows the request, else traced and compiled.

    `on_pass` is told the name of each pass before it runs.
    """
    key = request.key()
    found = cache.recall(key)
    if found is not None:
        return found
    from blu.compiler.driver.driver import DriverOptions

    options = DriverOptions(on_pass=lambda step: on_pass(step.name)) if on_pass else None
    compiled = trace_request(request).compile(options=options)
    cache.remember(key, compiled.details["key"])
    return compiled.executable


def bucket(length: int, limit: int, smallest: int = 16) -> int:
    """The padded length of a prompt: the next power of two, from `smallest` on, at most `limit`."""
    size = smallest
    while size < length:
        size *= 2
    return min(size, limit)
