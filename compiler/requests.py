"""Programs of a GPT-2 by what is asked of them: traced and compiled, or from the cache.

A hit imports neither MLIR nor the frontend's ops. An executable says by the names of its inputs what it needs
("model.h.0.attn.c_attn.weight", "tokens"), so weights are bound without tracing.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Self

from blu.compiler.cache import Cache, Members
from blu.compiler.fingerprint import key_of
from blu.compiler.tuning.table import tuned_key
from blu.dataclass import dataclass

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


@dataclass(frozen=True)
class ProgramRequest(ABC):
    """One program: `entry` is one of `entries`, for tokens [batch, length] and parameters of a dtype."""

    kind: ClassVar[str]
    entries: ClassVar[tuple[str, ...]]

    entry: str
    config: tuple[tuple[str, Any], ...]
    target: str
    batch: int = 1
    length: int = 1
    dtype: str = "f32"

    @classmethod
    def of(cls, entry: str, config: Mapping[str, Any], target: str, **options: Any) -> Self:
        """The request for a configuration as config.json has it."""
        assert entry in cls.entries, entry
        return cls(entry, tuple((key, config[key]) for key in CONFIG_KEYS), target, **options)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.entry} [{self.batch}, {self.length}]"

    def key(self) -> str:
        """The key of the request in the compile cache: every field changes it."""
        return key_of(self.kind, json.dumps(asdict(self)), *tuned_key(self.target))

    @abstractmethod
    def trace(self) -> Any:
        """The traced program (`blu.compiler.jit.Traced`)."""


def compile_request(request: ProgramRequest, cache: Cache, on_pass: Callable[[str], None] | None = None) -> Members:
    """The program's members: from the cache, where it knows the request, else traced and compiled.

    `on_pass` is told the name of each pass before it runs.
    """
    key = request.key()
    found = cache.recall(key)
    if found is not None:
        return found
    from blu.compiler.driver.driver import DriverOptions

    options = DriverOptions(on_pass=lambda step: on_pass(step.name)) if on_pass else None
    compiled = request.trace().compile(options=options)
    cache.remember(key, compiled.details["key"])
    return compiled.executable
