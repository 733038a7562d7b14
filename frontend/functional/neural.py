"""Functions of neural networks: activations, normalisations, losses."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axes, normalize_axis
from blu.dialects.core.dtypes import product
from blu.dialects.core.op import Op
from blu.dialects.ops import activation, loss, normalization
from blu.dialects.tensor.arithmetic import not_equal
from blu.dialects.tensor.arrangement import flatten, moveaxis, reshape
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.folding import fold_axes
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.frontend.functional.losses import check_reduction, reduced

__all__ = [
    "cross_entropy",
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
