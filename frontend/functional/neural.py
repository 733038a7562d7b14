"""Functions of neural networks: activations, normalisations, losses."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axes, normalize_axis
from blu.dialects.core.dtypes import computing_dtype
from blu.dialects.core.op import Op
from blu.dialects.ops import activation, loss, normalization
from blu.dialects.ops.convolution.standardize import Standardize
from blu.dialects.ops.indexing import Take
from blu.dialects.tensor.arithmetic import not_equal, where
from blu.dialects.tensor.arrangement import broadcast_to, flatten, moveaxis, reshape
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.folding import at_the_end, fold_axes
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import as_tensor, converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.draws import bernoulli
from blu.frontend.functional.losses.losses import check_reduction, reduced

__all__ = [
    "cross_entropy",
    "dropout",
    "gelu",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "silu",
    "softmax",
    "standardize",
]


def _along(op: type[Op], x: Any, axis: Any) -> Tensor:
    """The op along an axis, or over several, which are one dimension meanwhile."""
    (tensor,) = promoted_floats(x)
    if not tensor.ndim and not fold_axes(axis, 0):
        return reshape(op(reshape(tensor, 1), axis=0), ())
    if not isinstance(axis, tuple | list):
        return op(tensor, axis=normalize_axis(axis, tensor.ndim))
    axes = normalize_axes(axis, tensor.ndim)
    merged = at_the_end(tensor, axes)
    return _put_back(op(merged, axis=merged.ndim - 1), tensor, axes)


def _put_back(merged: Tensor, like: Tensor, axes: tuple[int, ...]) -> Tensor:
    """What has been made of `at_the_end(like, axes)`, in the shape of what it was made of."""
    sizes = (*merged.shape[:-1], *(like.shape[place] for place in axes))
    return moveaxis(reshape(merged, sizes), range(like.ndim - len(axes), like.ndim), axes)


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
    """The values, of which those behind the first may be None, as floats of one dtype."""
    first, *others = values
    present = iter(promoted_floats(first, *(value for value in others if value is not None)))
    return [next(present), *(None if value is None else next(present) for value in others)]


def _normalized(op: type[Op], values: tuple[Any, ...], axis: Any, eps: float) -> Tensor:
    """A norm over the last dimension, or over several, which are one meanwhile: those of x, and all of parameters."""
    tensor, *parameters = _with_parameters(*values)
    assert tensor is not None
    axes = normalize_axes(axis, tensor.ndim)
    if axes == (tensor.ndim - 1,):
        return op(tensor, *parameters, epsilon=eps)
    shape = tuple(tensor.shape[place] for place in axes)
    for parameter in parameters:
        if parameter is not None and parameter.shape != shape:
            raise ShapeError(
                f"parameters over axes {list(axes)} of {tensor.type} are {list(shape)}, got {parameter.type}"
            )
    flat = [None if parameter is None else flatten(parameter) for parameter in parameters]
    return _put_back(op(at_the_end(tensor, axes), *flat, epsilon=eps), tensor, axes)


@public
def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, axis: Any = -1) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimension, or over the `axis` or axes named.

    Weight and bias have the sizes of those axes, in x's order, or are None. ShapeError for parameters of another shape
    than that of the axes.
    """
    return _normalized(normalization.LayerNorm, (x, weight, bias), axis, eps)


@public
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, axis: Any = -1) -> Tensor:
    """x / sqrt(mean(x * x) + eps) * weight over the last dimension, or over the `axis` or axes named.

    The weight has the sizes of those axes, in x's order, or is None. ShapeError for a weight of another shape than that
    of the axes.
    """
    return _normalized(normalization.RmsNorm, (x, weight), axis, eps)


@public
def standardize(
    x: Any, axis: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) * weight + bias, and the mean and the variance over the `axis` or axes named.

    The moments have sizes of one along the axes; they, weight and bias are f32 where x is f16 or bf16. Weight and bias
    broadcast to the moments' shape, or are None.
    """
    (tensor,) = promoted_floats(x)
    wide = computing_dtype(tensor.dtype)
    parameters = [None if item is None else converted(as_tensor(item), wide) for item in (weight, bias)]
    beside = [
        None if item is None else reshape(item, (1,) * (tensor.ndim - item.ndim) + item.shape) for item in parameters
    ]
    return Standardize(tensor, *beside, axes=normalize_axes(axis, tensor.ndim), epsilon=eps)


@method
def gelu(x: Any, approximate: str = "erf") -> Tensor:
    """x times the normal distribution's probability below x: exactly by "erf", or by GPT-2's formula with "tanh"."""
    return activation.Gelu(*promoted_floats(x), approximate=approximate)


@method
def silu(x: Any) -> Tensor:
    """x * sigmoid(x)."""
    return activation.Silu(*promoted_floats(x))


@public
def cross_entropy(
    logits: Any,
    targets: Any,
    ignore_index: int = -100,
    reduction: str = "mean",
    weight: Any = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log(softmax(logits)[target]): logits [..., V], integer targets [...]; the mean, the "sum", or all ("none").

    Targets that are floats [..., V] are probabilities p of the classes: the loss is -sum(p * log(softmax(logits))), and
    the mean is over all positions. With `label_smoothing` e, of 0 to 1, the targets' probabilities are (1 - e) * p +
    e / V. `weight` [V] multiplies each class's term; the mean over integer targets is divided by the sum of their
    weights. Arguments mean what they do in torch, except that classes are the last dimension.

    Positions whose integer target is `ignore_index` count neither in the sum nor in the mean (which is NaN where none
    is left). The result is f32 (f64 for f64 logits). Other targets outside of 0..V-1 are an IndexError when the program
    runs. ShapeError for targets or weights of other shapes; ArgumentError for a `label_smoothing` outside of [0, 1], or
    an `ignore_index` where targets are probabilities.
    """
    check_reduction(reduction)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"cross_entropy: label_smoothing must be in [0, 1], got {label_smoothing}")
    (scores,) = promoted_floats(logits)
    factors = None if weight is None else converted(as_tensor(weight), computing_dtype(scores.dtype))
    if factors is not None and (not scores.ndim or factors.shape != scores.shape[-1:]):
        raise ShapeError(f"weight must be [V], got {factors.type} for logits {scores.type}")
    if (soft := as_tensor(targets)).dtype.is_float:
        if ignore_index >= 0:
            advice = "Integer targets can be ignored; give positions that shall not count probabilities of 0."
            raise ArgumentError(f"{ignore_index=} is no class of targets that are probabilities", advice=advice)
        return _soft_cross_entropy(scores, soft, reduction, factors, label_smoothing)
    classes = as_indices(targets)
    if not scores.ndim or scores.shape[:-1] != classes.shape:
        advice = "Targets that are probabilities are floats of the logits' shape."
        message = f"logits must be [..., V] and targets [...], got {scores.type} and {classes.type}"
        raise ShapeError(message, advice=advice)
    rows = reshape(scores, (classes.size, scores.shape[-1]))
    losses = loss.CrossEntropy(rows, flatten(classes), ignore_index=ignore_index)
    counted = not_equal(classes, ignore_index)
    if factors is not None or label_smoothing:
        losses, counted = _weighted(losses, rows, flatten(classes), flatten(counted), factors, label_smoothing)
    result = reduced(losses, reduction, counted)
    return reshape(result, classes.shape) if reduction == "none" else result


def _weighted(
    losses: Tensor, rows: Tensor, classes: Tensor, counted: Tensor, weight: Tensor | None, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Losses of integer targets [N] times their weights, partly spread over the classes, and what they are divided by.

    `losses` are 0 where targets are not counted; only what is spread reads the rows [N, V] a second time.
    """
    weights = counted
    if weight is not None:
        weights = where(counted, Take(weight, where(counted, classes, 0), axis=0), 0.0)
        losses = where(counted, losses * weights, 0.0)
    if label_smoothing:
        spread = where(counted, _surprise(rows, None, weight), 0.0)
        losses = (1 - label_smoothing) * losses + (label_smoothing / rows.shape[-1]) * spread
    return losses, weights


def _soft_cross_entropy(
    scores: Tensor, targets: Tensor, reduction: str, weight: Tensor | None, label_smoothing: float
) -> Tensor:
    """The cross entropy with probabilities of the classes."""
    if not scores.ndim or scores.shape != targets.shape:
        message = f"targets that are probabilities must have the logits' shape, got {targets.type} for {scores.type}"
        raise ShapeError(message, advice="Targets that are classes are integers of the logits' shape without the last.")
    truth = converted(targets, computing_dtype(scores.dtype))
    if label_smoothing:
        truth = (1 - label_smoothing) * truth + label_smoothing / scores.shape[-1]
    return reduced(_surprise(scores, truth, weight), reduction)


def _surprise(scores: Tensor, truth: Tensor | None, weight: Tensor | None) -> Tensor:
    """-sum(truth * weight * log(softmax(scores))) along the last dimension; None stands for ones."""
    terms = -log_softmax(converted(scores, computing_dtype(scores.dtype)))
    for factor in (truth, weight):
        terms = terms if factor is None else terms * factor
    return terms.sum(-1)


def check_dropout_rate(rate: float) -> None:
    """ArgumentError for what is no probability."""
    if not 0 <= rate <= 1:
        raise ArgumentError(f"the rate of dropout must be in [0, 1], got {rate}")


@public
def dropout(x: Any, rate: float, key: Any, shape: Any = None) -> Tensor:
    """x with each element set to 0 with probability `rate`, and the others divided by 1 - rate.

    `shape`, which is broadcast to that of x, is of what is drawn: (n, c, 1, 1) drops whole channels of (n, c, h, w).
    The same `key` drops the same elements (Srivastava et al., "Dropout: A simple way to prevent neural networks from
    overfitting"). ArgumentError for a rate outside of [0, 1], ShapeError for a `shape` that is not broadcast to x's.
    """
    (tensor,) = promoted_floats(x)
    check_dropout_rate(rate)
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
