"""Functions of neural networks: activations, normalisations, losses."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axes, normalize_axis
from blu.dialects.core.dtypes import computing_dtype, product
from blu.dialects.core.op import Op
from blu.dialects.ops import activation, loss, normalization
from blu.dialects.tensor.arithmetic import not_equal, where
from blu.dialects.tensor.arrangement import broadcast_to, flatten, moveaxis, reshape
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.folding import fold_axes
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.losses import check_reduction, reduced
from blu.frontend.functional.random import bernoulli

__all__ = [
    "cross_entropy",
    "dropout",
    "gelu",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "silu",
    "softmax",
]


def _along(op: type[Op], x: Any, axis: Any) -> Tensor:
    """The op along an axis, or over several, which are one dimension meanwhile."""
    (tensor,) = promoted_floats(x)
    if not tensor.ndim and not fold_axes(axis, 0):
        return reshape(op(reshape(tensor, 1), axis=0), ())
    if not isinstance(axis, tuple | list):
        return op(tensor, axis=normalize_axis(axis, tensor.ndim))
    axes = normalize_axes(axis, tensor.ndim)
    last = tuple(range(tensor.ndim - len(axes), tensor.ndim))
    turned = moveaxis(tensor, axes, last)
    sizes = turned.shape[: tensor.ndim - len(axes)]
    found = op(reshape(turned, (*sizes, product(turned.shape[len(sizes) :]))), axis=len(sizes))
    return moveaxis(reshape(found, turned.shape), last, axes)


@method
def softmax(x: Any, axis: Any = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, or over several.

    A row that is all -inf, or holds NaN or +inf, gives NaN, as in torch.
    """
    return _along(normalization.Softmax, x, axis)


@method
def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """log(softmax(x)) along an axis, or over several, without forming softmax; NaN where softmax is NaN."""
    return _along(normalization.LogSoftmax, x, axis)


def _with_parameters(*values: Any) -> list[Tensor | None]:
    """The values that are there as floats of one dtype, None for the others."""
    present = iter(promoted_floats(*(value for value in values if value is not None)))
    return [None if value is None else next(present) for value in values]


@public
def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimension; weight and bias [C] may be None."""
    return normalization.LayerNorm(*_with_parameters(x, weight, bias), epsilon=eps)


@public
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean(x * x) + eps) * weight over the last dimension; the weight [C] may be None."""
    return normalization.RmsNorm(*_with_parameters(x, weight), epsilon=eps)


@method
def gelu(x: Any, approximate: str = "erf") -> Tensor:
    """x times the normal distribution's probability below x: exactly by "erf", or by GPT-2's formula with "tanh"."""
    return activation.Gelu(*promoted_floats(x), approximate=approximate)


@method
def silu(x: Any) -> Tensor:
    """x * sigmoid(x)."""
    return activation.Silu(*promoted_floats(x))


@public
def cross_entropy(logits: Any, targets: Any, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """-log(softmax(logits)[target]): logits [..., V], integer targets [...]; the mean, the "sum", or all ("none").

    Positions whose target is `ignore_index` count neither in the sum nor in the mean (which is NaN where none is left).
    The result is f32 (f64 for f64 logits). Other targets outside of 0..V-1 are an IndexError when the program runs.
    """
    check_reduction(reduction)
    (scores,) = promoted_floats(logits)
    classes = as_indices(targets)
    if not scores.ndim or scores.shape[:-1] != classes.shape:
        raise ShapeError(f"logits must be [..., V] and targets [...], got {scores.type} and {classes.type}")
    rows = reshape(scores, (classes.size, scores.shape[-1]))
    losses = loss.CrossEntropy(rows, flatten(classes), ignore_index=ignore_index)
    result = reduced(losses, reduction, not_equal(classes, ignore_index))
    return reshape(result, classes.shape) if reduction == "none" else result


@public
def dropout(x: Any, rate: float, key: Any, shape: Any = None) -> Tensor:
    """x with each element set to 0 with probability `rate`, and the others divided by 1 - rate.

    `shape`, which is broadcast to that of x, is of what is drawn: (n, c, 1, 1) drops whole channels of (n, c, h, w).
    The same `key` drops the same elements (Srivastava et al., "Dropout: A simple way to prevent neural networks from
    overfitting").
    """
    (tensor,) = promoted_floats(x)
    if not 0 <= rate <= 1:
        raise ArgumentError(f"the rate of dropout must be in [0, 1], got {rate}")
    drawn = tensor.shape if shape is None else tuple(shape)
    if len(drawn) != tensor.ndim or any(
        size not in (1, whole) for size, whole in zip(drawn, tensor.shape, strict=True)
    ):
        raise ShapeError(f"what is drawn has shape {drawn}, which is not broadcast to {tensor.shape}")
    if rate in (0, 1):
        return tensor if rate == 0 else where(False, tensor, 0.0)
    kept = broadcast_to(bernoulli(key, 1 - rate, drawn), tensor.shape)
    wide = converted(tensor, computing_dtype(tensor.dtype))
    return converted(where(kept, wide / (1 - rate), 0.0), tensor.dtype)
