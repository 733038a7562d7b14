"""Learning rates as functions of the step number, on the host. Imports nothing: runs need no compiler for it.

Steps count from 0. All schedules begin with a linear warmup to `peak`, which they reach after `warmup` steps.
"""

from __future__ import annotations

import math

STABLE_SHARE = 0.8


def cosine_schedule(step: int, peak: float, final: float, warmup: int, total: int) -> float:
    """The learning rate at a step: after the warmup a half cosine down to `final` at `total`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= total:
        return final
    return final + 0.5 * (peak - final) * (1 + math.cos(math.pi * _progress(step, warmup, total)))


def linear_schedule(step: int, peak: float, final: float, warmup: int, total: int) -> float:
    """The learning rate at a step: after the warmup linearly down to `final` at `total`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak + (final - peak) * _progress(step, warmup, total)


def constant_schedule(step: int, peak: float, final: float, warmup: int, total: int) -> float:
    """The learning rate at a step: `peak` after the warmup."""
    return peak * (step + 1) / warmup if step < warmup else peak


def stable_schedule(step: int, peak: float, final: float, warmup: int, total: int) -> float:
    """The learning rate at a step: `peak`, and in the last fifth of `total` down to `final` as 1 - sqrt ("wsd")."""
    if step < warmup:
        return peak * (step + 1) / warmup
    decay = int(STABLE_SHARE * total)
    return peak if step < decay else final + (peak - final) * (1 - math.sqrt(_progress(step, decay, total)))


def _progress(step: int, begin: int, end: int) -> float:
    """How much of [begin, end] is over, in [0, 1]."""
    return min(1.0, (step - begin) / max(1, end - begin))


SCHEDULES = {
    "cosine": cosine_schedule,
    "linear": linear_schedule,
    "constant": constant_schedule,
    "wsd": stable_schedule,
}
