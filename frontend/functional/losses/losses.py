"""Losses by the names and defaults they have in torch.nn.functional, composed of elementwise functions and sums."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axis
from blu.dialects.ops import indexing as ops
from blu.dialects.tensor.arithmetic import (
    absolute,
    equal,
    exp,
    less,
    log,
    maximum,
    minimum,
    not_equal,
    relu,
    sqrt,
    where,
)
from blu.dialects.tensor.arrangement import broadcast_to, expand_dims, squeeze
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.activations import logsigmoid

__all__ = [
    "binary_cross_entropy_with_logits",
    "cosine_similarity",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
]

REDUCTIONS = ("mean", "sum", "none")


def check_reduction(reduction: str) -> None:
    """ArgumentError where a reduction is none that losses know."""
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")


def reduced(losses: Tensor, reduction: str, weights: Tensor | None = None) -> Tensor:
    """All losses ("none"), their "sum", or their "mean": the sum over that of the weights, where there are any."""
    check_reduction(reduction)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weights is None else losses.sum() / weights.sum().astype(losses.dtype)


def _distance(x: Any, target: Any) -> Tensor:
    first, second = promoted_floats(x, target)
    return absolute(first - second)


def _huber(distance: Tensor, delta: float) -> Tensor:
    bounded = minimum(distance, delta)
    return bounded * (distance - bounded * 0.5)


@public
def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(x - target)**2, of shapes that broadcast: the mean, the "sum", or all ("none").

    ArgumentError for another `reduction`.
    """
    first, second = promoted_floats(x, target)
    difference = first - second
    return reduced(difference * difference, reduction)


@public
def l1_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    """|x - target|, of shapes that broadcast: the mean, the "sum", or all ("none").

    ArgumentError for another `reduction`.
    """
    return reduced(_distance(x, target), reduction)


@public
def huber_loss(x: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d**2 / 2 for d = |x - target| up to delta, delta * (d - delta / 2) above; delta is above 0.

    Shapes broadcast; the result is the mean, the "sum", or all ("none"). ArgumentError for a `delta` that is not above
    0, or another `reduction`.
    """
    if not delta > 0:
        raise ArgumentError(f"huber_loss needs a delta above 0, got {delta}")
    return reduced(_huber(_distance(x, target), delta), reduction)


@public
def smooth_l1_loss(x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """huber_loss with a delta of beta, divided by beta; l1_loss where beta, which is at least 0, is 0.

    ArgumentError for a `beta` below 0, or another `reduction`.
    """
    if not beta >= 0:
        raise ArgumentError(f"smooth_l1_loss needs a beta of at least 0, got {beta}")
    distance = _distance(x, target)
    return reduced(_huber(distance, beta) / beta if beta else distance, reduction)


@public
def binary_cross_entropy_with_logits(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """-(pos_weight * target * log(sigmoid(x)) + (1 - target) * log(1 - sigmoid(x))) * weight, without forming sigmoid.

    x and target (of probabilities) have one shape, to which weight and pos_weight broadcast where they are given. The
    result is the mean, the "sum", or all ("none"). ShapeError for a target of another shape, ArgumentError for another
    `reduction`.
    """
    given = [value for value in (weight, pos_weight) if value is not None]
    logits, truth, *factors = promoted_floats(x, target, *given)
    if logits.shape != truth.shape:
        raise ShapeError(f"logits and target must have one shape, got {logits.type} and {truth.type}")
    surprise = -logsigmoid(logits)
    if pos_weight is not None:
        surprise = surprise * ((factors.pop() - 1.0) * truth + 1.0)
    losses = (1.0 - truth) * logits + surprise
    return reduced(losses if weight is None else losses * factors[0], reduction)


@public
def nll_loss(
    log_probs: Any, targets: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """-log_probs[target] * weight[target]: log_probs [..., V], integer targets [...], weight [V] or None (ones).

    As in `cross_entropy`, classes are the last dimension, and positions whose target is `ignore_index` do not count.
    The result is the mean (over the sum of the weights), the "sum", or all ("none"). Other targets outside of 0..V-1
    are an IndexError when the program runs. ShapeError for targets or weights of other shapes, ArgumentError for
    another `reduction`.
    """
    check_reduction(reduction)
    scores, *factors = promoted_floats(log_probs, *(() if weight is None else (weight,)))
    classes = as_indices(targets)
    if not scores.ndim or scores.shape[:-1] != classes.shape:
        raise ShapeError(f"log_probs must be [..., V] and targets [...], got {scores.type} and {classes.type}")
    if factors and factors[0].shape != scores.shape[-1:]:
        raise ShapeError(f"weight must be [V], got {factors[0].type} for log_probs {scores.type}")
    counted = not_equal(classes, ignore_index)
    # Indices below 0 would count from the end: they are moved to where there is no class.
    chosen = where(counted, where(less(classes, 0), classes - scores.shape[-1], classes), 0)
    losses = -squeeze(ops.TakeAlongAxis(scores, expand_dims(chosen, -1), axis=scores.ndim - 1), -1)
    if not factors:
        return reduced(where(counted, losses, 0.0), reduction, counted)
    weights = where(counted, ops.Take(factors[0], chosen, axis=0), 0.0)
    return reduced(where(counted, losses * weights, 0.0), reduction, weights)


@public
def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - x), of log-probabilities x and probabilities (their logarithms with `log_target`).

    Shapes broadcast. The result is the mean over all elements, the "sum", that over the size of the first dimension
    ("batchmean", which is the divergence), or all ("none"). A probability of 0 adds 0. ArgumentError for another
    `reduction`.
    """
    first, second = promoted_floats(x, target)
    if log_target:
        losses = exp(second) * (second - first)
    else:  # log(1) stands for the logarithm of 0, whose product with 0 and whose gradient would be NaN
        losses = second * log(where(equal(second, 0.0), 1.0, second)) - second * first
    if reduction == "batchmean":
        return losses.sum() / (losses.shape[0] if losses.shape else 1)
    return reduced(losses, reduction)


@public
def hinge_embedding_loss(x: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """x where target is 1, max(0, margin - x) where it is -1; shapes broadcast: the mean, the "sum" or all ("none").

    ArgumentError for another `reduction`.
    """
    distance, side = promoted_floats(x, target)
    near = where(not_equal(side, -1.0), distance, 0.0)
    return reduced(near + where(not_equal(side, 1.0), relu(margin - distance), 0.0), reduction)


@public
def cosine_similarity(x: Any, y: Any, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(x * y) / (|x| * |y|) along an axis, of shapes that broadcast; lengths below eps count as eps."""
    first, second = promoted_floats(x, y)
    along = normalize_axis(axis, max(first.ndim, second.ndim))
    product = first * second
    lengths = []
    for tensor in (first, second):
        squares = broadcast_to(tensor * tensor, product.shape).sum(along)
        lengths.append(sqrt(maximum(squares, eps * eps)))
    return product.sum(along) / (lengths[0] * lengths[1])
