"""Learning rates as functions of the step number, on the host."""

from __future__ import annotations

import math


def cosine_schedule(step: int, peak: float, final: float, warmup: int, total: int) -> float:
    """The learning rate at a step (from 0): linear warmup to `peak`, then a half cosine down to `final` at `total`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= total:
        return final
    progress = (step - warmup) / max(1, total - warmup)
    return final + 0.5 * (peak - final) * (1 + math.cos(math.pi * progress))


def linear_schedule(step: int, peak: float, final: float, warmup: int, total: int) -> float:
    """The learning rate at a step (from 0): linear warmup to `peak`, then linearly down to `final` at `total`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return peak + (final - peak) * progress
