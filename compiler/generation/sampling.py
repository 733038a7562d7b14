"""Choosing the next token from a model's logits, on the host: greedy, or at random, the same for the same seed."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from blu.dataclass import dataclass
from blu.errors import ArgumentError


@dataclass(frozen=True)
class Sampling:
    """How to choose: `greedy`, or with `temperature` (> 0) among the `top_k` likeliest tokens (0: all of them) that
    together have at least the probability `top_p` (0 < top_p <= 1)."""

    greedy: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check(0 < self.temperature < float("inf"), f"temperature={self.temperature}", "above 0 (or take greedy)")
        _check(self.top_k >= 0, f"top_k={self.top_k}", "0 (all tokens) or more")
        _check(0 < self.top_p <= 1, f"top_p={self.top_p}", "above 0 and at most 1")
        _check(self.seed >= 0, f"seed={self.seed}", "0 or more")


def _check(condition: bool, found: str, expected: str) -> None:
    if not condition:
        raise ArgumentError(f"{found} must be {expected}")


class Sampler:
    """Chooses tokens one after the other, drawing from one random stream."""

    def __init__(self, sampling: Sampling):
        self.sampling = sampling

    @cached_property
    def _generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(self.sampling.seed))

    def choose(self, logits: np.ndarray) -> int:
        """The next token for logits [V]. Raises ArgumentError for logits that are not numbers."""
        check_finite(float(np.max(logits)))
        if self.sampling.greedy:
            return int(np.argmax(logits))
        tokens, probabilities = candidates(logits, self.sampling)
        threshold = self._generator.random() * probabilities.sum()
        chosen = int(np.searchsorted(np.cumsum(probabilities), threshold, side="right"))
        return int(tokens[min(chosen, len(tokens) - 1)])


def check_finite(largest: float) -> None:
    """ArgumentError unless the largest of the logits is a number (one that is NaN counts as the largest)."""
    if not math.isfinite(largest):
        raise ArgumentError("the model's logits are not finite", advice="Its weights are damaged, or too large.")


def candidates(logits: np.ndarray, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that may be chosen and their probabilities (float64, unnormalised): by temperature, top-k, top-p."""
    tokens = np.arange(len(logits))
    if 0 < sampling.top_k < len(logits):
        # Everything as likely as the k-th stays, so that ties do not depend on the order of a partial sort.
        tokens = tokens[logits >= np.partition(logits, -sampling.top_k)[-sampling.top_k]]
    scaled = logits[tokens].astype(np.float64) / sampling.temperature
    probabilities = np.exp(scaled - scaled.max())
    if sampling.top_p == 1:
        return tokens, probabilities
    order = np.argsort(-probabilities, kind="stable")
    before = np.cumsum(probabilities[order]) - probabilities[order]
    kept = order[before < sampling.top_p * probabilities.sum()]
    return tokens[kept], probabilities[kept]
