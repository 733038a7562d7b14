"""Activations by the names and defaults they have in torch.nn.functional, composed of the elementwise functions."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axis
from blu.dialects.tensor.arithmetic import (
    absolute,
    clip,
    expm1,
    greater,
    less_equal,
    logaddexp,
    minimum,
    relu,
    sigmoid,
    tanh,
    where,
)
from blu.dialects.tensor.arrangement import reshape, split
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError

__all__ = [
    "celu",
    "elu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu6",
    "selu",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _float(x: Any) -> Tensor:
    (tensor,) = promoted_floats(x)
    return tensor


@public
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, in x's shape; x itself where beta * x is above the threshold.

    ArgumentError for a `beta` of 0.
    """
    if not beta:
        raise ArgumentError("softplus divides by beta, which must not be 0")
    tensor = _float(x)
    scaled = tensor * beta
    # The bound keeps infinities out of the branch that is not taken, so that they reach no gradient.
    return where(greater(scaled, threshold), tensor, logaddexp(minimum(scaled, threshold), 0.0) / beta)


@public
def logsigmoid(x: Any) -> Tensor:
    """log(sigmoid(x)) without forming sigmoid, in x's shape: about x for low values, 0 for high ones."""
    tensor = _float(x)
    return minimum(tensor, 0.0) - logaddexp(-absolute(tensor), 0.0)


@public
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """x where it is above 0, negative_slope * x elsewhere."""
    tensor = _float(x)
    return where(greater(tensor, 0.0), tensor, tensor * negative_slope)


@public
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where it is above 0, alpha * (exp(x) - 1) elsewhere."""
    tensor = _float(x)
    return where(greater(tensor, 0.0), tensor, expm1(minimum(tensor, 0.0)) * alpha)


@public
def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where it is above 0, alpha * (exp(x / alpha) - 1) elsewhere; its slope is continuous. alpha is above 0.

    ArgumentError for another.
    """
    if not alpha > 0:
        raise ArgumentError(f"celu needs an alpha above 0, got {alpha}")
    tensor = _float(x)
    return where(greater(tensor, 0.0), tensor, expm1(minimum(tensor, 0.0) / alpha) * alpha)


@public
def selu(x: Any) -> Tensor:
    """The elu that keeps mean 0 and variance 1 (Klambauer and others, 2017): scale * elu(x, alpha)."""
    return elu(x, SELU_ALPHA) * SELU_SCALE


@public
def prelu(x: Any, weight: Any) -> Tensor:
    """x where it is above 0, weight * x elsewhere; `weight` is one number, or [C] for x [N, C, ...].

    ShapeError for another.
    """
    tensor, slope = promoted_floats(x, weight)
    if slope.shape not in ((), (1,)):
        if tensor.ndim < 2 or slope.shape != (tensor.shape[1],):
            raise ShapeError(f"prelu needs one weight, or one for each channel, got {slope.type} for {tensor.type}")
        slope = reshape(slope, (*slope.shape, *[1] * (tensor.ndim - 2)))
    return where(greater(tensor, 0.0), tensor, slope * tensor)


@public
def mish(x: Any) -> Tensor:
    """x * tanh(softplus(x))."""
    tensor = _float(x)
    return tensor * tanh(softplus(tensor))


@public
def relu6(x: Any) -> Tensor:
    """x bounded by 0 and 6."""
    return hardtanh(x, 0.0, 6.0)


@public
def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x bounded by min_val and max_val. ArgumentError if min_val is above max_val."""
    if min_val > max_val:
        raise ArgumentError(f"hardtanh needs min_val <= max_val, got {min_val} and {max_val}")
    return clip(_float(x), min_val, max_val)


@public
def hardsigmoid(x: Any) -> Tensor:
    """x / 6 + 1 / 2 bounded by 0 and 1."""
    return clip(_float(x) + 3.0, 0.0, 6.0) / 6.0


@public
def hardswish(x: Any) -> Tensor:
    """x * hardsigmoid(x)."""
    tensor = _float(x)
    return tensor * hardsigmoid(tensor)


@public
def softsign(x: Any) -> Tensor:
    """x / (1 + |x|)."""
    tensor = _float(x)
    return tensor / (absolute(tensor) + 1.0)


@public
def tanhshrink(x: Any) -> Tensor:
    """x - tanh(x)."""
    tensor = _float(x)
    return tensor - tanh(tensor)


@public
def softshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x drawn towards 0 by lambd, which is at least 0: 0 where |x| <= lambd. ArgumentError for another."""
    if not lambd >= 0:
        raise ArgumentError(f"softshrink needs a lambd of at least 0, got {lambd}")
    tensor = _float(x)
    return relu(tensor - lambd) - relu(-tensor - lambd)


@public
def hardshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x where |x| is above lambd, which is at least 0, else 0. ArgumentError for another."""
    if not lambd >= 0:
        raise ArgumentError(f"hardshrink needs a lambd of at least 0, got {lambd}")
    tensor = _float(x)
    return where(less_equal(absolute(tensor), lambd), 0.0, tensor)


@public
def threshold(x: Any, threshold: float, value: float) -> Tensor:
    """x where it is above the threshold, else `value`."""
    tensor = _float(x)
    return where(less_equal(tensor, threshold), value, tensor)


@public
def glu(x: Any, axis: int = -1) -> Tensor:
    """The first half of x along an axis times the sigmoid of the second half; the axis has an even size.

    ShapeError where it is odd.
    """
    tensor = _float(x)
    along = normalize_axis(axis, tensor.ndim)
    if tensor.shape[along] % 2:
        raise ShapeError(f"glu halves axis {along}, whose size must be even, got {tensor.type}")
    values, gates = split(tensor, 2, axis=along)
    return values * sigmoid(gates)
