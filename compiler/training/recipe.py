"""What decides how a run goes: the recipe of its steps, and how often it reports, validates, samples and saves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from blu.dataclass import dataclass
from blu.errors import ArgumentError
from blu.frontend.schedules import SCHEDULES

DTYPES = ("f32", "tf32", "bf16", "f16")
REDUCE_DTYPES = ("f32", "bf16")
ON_NONFINITE = ("stop", "skip")


@dataclass(frozen=True)
class Recipe:
    """All numbers that change what is learnt. Every field is saved with a checkpoint.

    A step takes `accumulate` micro-batches of `batch_size` sequences of `length` tokens. `warmup` and `decay_steps` are
    steps, `clip` the largest norm of the gradients (0: any). `on_nonfinite` says what to do about a loss or gradients
    that are NaN or infinite. `remat_budget` is how many bytes of a micro-batch's activations are kept for its gradients
    (0: all); the rest is computed again. `reduce_dtype` is that in which ranks add up their gradients. With
    `sequence_parallel`, ranks that share layers have parts of the positions where no product needs all of them.
    """

    batch_size: int = 8
    length: int = 1024
    accumulate: int = 1
    steps: int = 1000
    learning_rate: float = 6e-4
    final_learning_rate: float = 6e-5
    schedule: str = "cosine"
    warmup: int = 0
    decay_steps: int = 1000
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    clip: float = 1.0
    dtype: str = "f32"
    seed: int = 0
    shuffle: bool = True
    on_nonfinite: str = "stop"
    remat_budget: int = 0
    reduce_dtype: str = "f32"
    sequence_parallel: bool = False

    def __post_init__(self) -> None:
        if problems := list(_problems(self)):
            raise ArgumentError("the run cannot be as it is described:\n    " + "\n    ".join(problems))

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one update learns from."""
        return self.batch_size * self.length * self.accumulate

    def rate(self, step: int) -> float:
        """The learning rate at a step, from 0."""
        schedule = SCHEDULES[self.schedule]
        return schedule(step, self.learning_rate, self.final_learning_rate, self.warmup, self.decay_steps)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Recipe:
        """The recipe of a dict that `to_dict` gave; keys that it does not know are left out."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})

    def changed(self, **values: Any) -> Recipe:
        """The recipe with other values."""
        return replace(self, **values)


@dataclass(frozen=True)
class Cadence:
    """How often things happen besides learning, in steps; 0 is never. They change nothing of what is learnt."""

    log_every: int = 10
    validate_every: int = 250
    validate_batches: int = 20
    sample_every: int = 0
    sample_tokens: int = 64
    sample_prompt: str = ""
    checkpoint_every: int = 250
    compare_every: int = 0
    keep_last: int = 3

    def __post_init__(self) -> None:
        optional = ("log_every", "validate_every", "sample_every", "sample_tokens", "checkpoint_every", "compare_every")
        for name in optional:
            if getattr(self, name) < 0:
                raise ArgumentError(f"{name} is {getattr(self, name)}, expected steps, or 0 for never")
        for name in ("validate_batches", "keep_last"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} is {getattr(self, name)}, expected at least 1")


def _problems(recipe: Recipe) -> Iterator[str]:
    for name in ("batch_size", "length", "accumulate", "decay_steps"):
        if getattr(recipe, name) < 1:
            yield f"{name} is {getattr(recipe, name)}, expected at least 1"
    for name in ("steps", "warmup", "seed", "remat_budget"):
        if getattr(recipe, name) < 0:
            yield f"{name} is {getattr(recipe, name)}, expected 0 or more"
    if not 0 < recipe.learning_rate < math.inf:
        yield f"learning_rate is {recipe.learning_rate:g}, expected a number above 0"
    yield from _range_problems(recipe)
    choices = {"schedule": tuple(SCHEDULES), "dtype": DTYPES, "on_nonfinite": ON_NONFINITE}
    for name, known in (choices | {"reduce_dtype": REDUCE_DTYPES}).items():
        if getattr(recipe, name) not in known:
            yield f"{name} is {getattr(recipe, name)!r}, expected one of {', '.join(known)}"


def _range_problems(recipe: Recipe) -> Iterator[str]:
    for name in ("final_learning_rate", "weight_decay", "epsilon", "clip"):
        if not 0 <= getattr(recipe, name) < math.inf:
            yield f"{name} is {getattr(recipe, name):g}, expected 0 or more"
    for name in ("beta1", "beta2"):
        if not 0 <= getattr(recipe, name) < 1:
            yield f"{name} is {getattr(recipe, name):g}, expected a number from 0 to below 1"
    if recipe.final_learning_rate > recipe.learning_rate:
        yield f"final_learning_rate {recipe.final_learning_rate:g} is above learning_rate {recipe.learning_rate:g}"
