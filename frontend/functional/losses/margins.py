"""Losses of pairs and triplets, of Gaussian and Poisson distributions, and of probabilities, as torch names them."""

from __future__ import annotations

import math
from typing import Any

from blu.dialects.tensor.arithmetic import (
    absolute,
    equal,
    exp,
    greater,
    log,
    logaddexp,
    maximum,
    minimum,
    power,
    relu,
    where,
)
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.losses.losses import cosine_similarity, reduced

__all__ = [
    "binary_cross_entropy",
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]


@public
def binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """-(target * log(x) + (1 - target) * log(1 - x)) * weight, of probabilities x and target in one shape.

    Logarithms are at least -100, and have no gradient there. `binary_cross_entropy_with_logits` is exact where x is
    near 0 or 1. The result is the mean, the "sum", or all ("none"). ShapeError for a target of another shape.
    """
    probability, truth, *factors = promoted_floats(x, target, *(() if weight is None else (weight,)))
    if probability.shape != truth.shape:
        raise ShapeError(f"x and target must have one shape, got {probability.type} and {truth.type}")
    losses = -(truth * _bounded_log(probability) + (1.0 - truth) * _bounded_log(1.0 - probability))
    return reduced(losses * factors[0] if factors else losses, reduction)


def _bounded_log(x: Tensor) -> Tensor:
    return where(greater(x, 0.0), maximum(log(where(greater(x, 0.0), x, 1.0)), -100.0), -100.0)


@public
def margin_ranking_loss(x: Any, y: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """max(0, margin - target * (x - y)): x is to be larger where target is 1, smaller where it is -1.

    Shapes broadcast. The result is the mean, the "sum", or all ("none").
    """
    first, second, side = promoted_floats(x, y, target)
    return reduced(relu(margin - side * (first - second)), reduction)


@public
def soft_margin_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * x)) for targets 1 and -1; shapes broadcast: the mean, the "sum", or all ("none")."""
    score, side = promoted_floats(x, target)
    return reduced(logaddexp(-side * score, 0.0), reduction)


@public
def cosine_embedding_loss(x: Any, y: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """1 - cos(x, y) where target is 1, max(0, cos(x, y) - margin) where it is -1: x and y [..., C], target [...].

    cos is the cosine of the angle between them. The result is the mean, the "sum", or all ("none"). ShapeError for
    other shapes.
    """
    first, second, side = promoted_floats(x, y, target)
    if not first.ndim or not second.ndim:
        raise ShapeError(f"x and y must be [..., C], got {first.type} and {second.type}")
    cosine = cosine_similarity(first, second, axis=-1)
    apart = where(equal(side, -1.0), relu(cosine - margin), 0.0)
    return reduced(where(equal(side, 1.0), 1.0 - cosine, apart), reduction)


@public
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin), of [..., C], with distances by the p-norm.

    `eps` is added to each difference. With `swap`, the distance between positive and negative stands for that of the
    anchor where it is less. The result is the mean, the "sum", or all ("none"). ArgumentError for a `p` that is not
    above 0, ShapeError for operands without dimensions.
    """
    if not p > 0:
        raise ArgumentError(f"triplet_margin_loss needs a p above 0, got {p}")
    first, near, far = promoted_floats(anchor, positive, negative)
    if not first.ndim or not near.ndim or not far.ndim:
        raise ShapeError(f"anchor, positive and negative must be [..., C], got {first.type}, {near.type}, {far.type}")
    away = _distance(first, far, p, eps)
    away = minimum(away, _distance(near, far, p, eps)) if swap else away
    return reduced(relu(_distance(first, near, p, eps) - away + margin), reduction)


def _distance(x: Tensor, y: Tensor, p: float, eps: float) -> Tensor:
    """The p-norm of x - y + eps over the last dimension; its gradient is 0 where it is 0."""
    apart = absolute(x - y + eps)
    if p == math.inf:
        return apart.max(axis=-1)
    total = power(apart, p).sum(-1)
    is_zero = equal(total, 0.0)
    return where(is_zero, 0.0, power(where(is_zero, 1.0, total), 1.0 / p))


@public
def poisson_nll_loss(
    x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Tensor:
    """exp(x) - target * x, of the logarithm x of a Poisson distribution's mean; else x - target * log(x + eps).

    `full` adds Stirling's approximation of log(target!) where the target is above 1. Shapes broadcast; the result is
    the mean, the "sum", or all ("none").
    """
    rate, count = promoted_floats(x, target)
    losses = exp(rate) - count * rate if log_input else rate - count * log(rate + eps)
    if full:
        safe = where(greater(count, 1.0), count, 1.0)
        stirling = safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe)
        losses = losses + where(greater(count, 1.0), stirling, 0.0)
    return reduced(losses, reduction)


@public
def gaussian_nll_loss(
    x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (x - target)**2 / var) / 2, of a normal distribution's mean x and variance; shapes broadcast.

    Variances below `eps` count as eps. `full` adds log(2 pi) / 2. The result is the mean, the "sum", or all ("none").
    ArgumentError for an `eps` that is not above 0.
    """
    mean, truth, given = promoted_floats(x, target, var)
    if not eps > 0:
        raise ArgumentError(f"gaussian_nll_loss needs an eps above 0, got {eps}")
    variance = maximum(given, eps)
    difference = mean - truth
    losses = 0.5 * (log(variance) + difference * difference / variance)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)
