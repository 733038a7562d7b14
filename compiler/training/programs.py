"""The programs that training a GPT-2 runs as, compiled or from the cache. A hit imports no MLIR.

Their inputs say by name what they need: "model.*" are parameters, "state.*" the optimizer's state, "sums.*" gradients
of micro-batches, "scale.*" the loss scale, then "tokens", "targets" and "learning_rate".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from blu.compiler.cache import Cache, Members
from blu.compiler.fingerprint import key_of
from blu.compiler.generation.gpt2_programs import CONFIG_KEYS

ENTRIES = ("step", "micro", "update", "evaluate")


@dataclass(frozen=True)
class TrainingRequest:
    """One program of a training run: `entry` is "step", "micro", "update" or "evaluate", for tokens [batch, length].

    The numbers of the optimizer are part of the program; the learning rate is not.
    """

    entry: str
    config: tuple[tuple[str, Any], ...]
    target: str
    batch: int
    length: int
    dtype: str = "f32"
    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    guarded: bool = False
    remat_budget: int = 0

    @classmethod
    def of(cls, entry: str, config: Mapping[str, Any], target: str, **options: Any) -> TrainingRequest:
        """The request for a configuration as config.json has it."""
        assert entry in ENTRIES, entry
        return cls(entry, tuple((key, config[key]) for key in CONFIG_KEYS), target, **options)

    @property
    def name(self) -> str:
        return f"training {self.entry} [{self.batch}, {self.length}]"

    def key(self) -> str:
        """The key of the request in the compile cache."""
        return key_of("train", json.dumps(asdict(self)))


def trace_training(request: TrainingRequest) -> Any:
    """Trace the program that a request asks for."""
    from blu.compiler.jit import jit
    from blu.frontend.nn.gpt2 import GPT2
    from blu.frontend.optim import AdamW, LossScale
    from blu.frontend.tracing.spec import spec
    from blu.frontend.training_steps import TrainingSteps

    optimizer = AdamW(request.beta1, request.beta2, request.epsilon, request.weight_decay)
    scaling = LossScale() if request.dtype == "f16" else None
    steps = TrainingSteps(optimizer, request.clip, request.dtype, request.guarded or scaling is not None, scaling)
    model = GPT2(dict(request.config))
    tokens = spec((request.batch, request.length), "i32")
    rate, state, scale = spec((), "f32"), optimizer.init(model), steps.init_scale()
    sums = steps.accumulation.init(model)
    donated, arguments = {
        "step": (("model", "state", "scale"), (model, state, scale, tokens, tokens, rate)),
        "micro": (("sums",), (model, sums, scale, tokens, tokens)),
        "update": (("model", "state", "sums", "scale"), (model, state, sums, scale, rate)),
        "evaluate": ((), (model, tokens, tokens)),
    }[request.entry]
    name = f"gpt2_training_{request.entry}"
    options = {"target": request.target, "remat_budget": request.remat_budget}
    return jit(getattr(steps, request.entry), donate=donated, name=name, **options).trace(*arguments)


def compile_training(request: TrainingRequest, cache: Cache, on_pass: Callable[[str], None] | None = None) -> Members:
    """The program's members: from the cache, where it knows the request, else traced and compiled.

    `on_pass` is told the name of each pass before it runs.
    """
    key = request.key()
    found = cache.recall(key)
    if found is not None:
        return found
    from blu.compiler.driver.driver import DriverOptions

    options = DriverOptions(on_pass=lambda step: on_pass(step.name)) if on_pass else None
    compiled = trace_training(request).compile(options=options)
    cache.remember(key, compiled.details["key"])
    return compiled.executable
