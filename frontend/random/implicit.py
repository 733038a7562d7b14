"""How numbers of the gamma distribution move with its concentration, where their share of the distribution stays
(Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018). Computed in f64.

For u = log x and concentration a, du/da is minus the derivative of the distribution function by a, over the density of
u. Both integrals of (t - digamma(a)) exp(a t - e^t), up to u and from u on, are that; the one whose factor keeps its
sign is taken, so that nothing cancels, up to where the integrand is below exp(-40) of that at u.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import f64
from blu.dialects.ops.identity import stop_gradient
from blu.dialects.tensor.arithmetic import absolute, exp, expm1, log1p, minimum, sqrt, where
from blu.dialects.tensor.arrangement import expand_dims
from blu.dialects.tensor.promotion import as_tensor, converted
from blu.dialects.tensor.tensor import Tensor
from blu.frontend.custom_vjp import custom_vjp
from blu.frontend.functional.special import digamma

# Gauss and Legendre's points, with which the error is up to two parts in 10^12, and terms of the series in x.
_POINTS, _TERMS = 32, 27
# Numbers up to here have the series, where the concentration is below 1.
_SERIES_UP_TO = 2.0
_NEGLIGIBLE = 40.0
_NEWTON_STEPS = 3


@custom_vjp
def with_slope(a: Any, logarithm: Any) -> Any:
    """The logarithm of a number drawn for the concentration a, with the gradient by a. The number is constant."""
    return logarithm


def _forward(a: Any, logarithm: Any) -> Any:
    result = with_slope(a, logarithm)
    return result, (a, result)


def _backward(known: Any, gradient: Any) -> Any:
    a, logarithm = known
    slope = slope_of(converted(a, f64), converted(logarithm, f64))
    return gradient * converted(slope, gradient.dtype), None


with_slope.defvjp(_forward, _backward)


def slope_of(a: Tensor, u: Tensor) -> Tensor:
    """d u / d a for u = log x, of f64."""
    above = digamma(a + 1.0)
    is_low = (a < 1) & (u <= math.log(_SERIES_UP_TO))
    near = _by_series(a, where(is_low, u, 0.0), above)
    far = _by_quadrature(a, where(is_low, math.log(_SERIES_UP_TO), u), above - 1.0 / a)
    return where(is_low, near, far)


def _by_series(a: Tensor, u: Tensor, above: Tensor) -> Tensor:
    """exp(x) times the sum of (-x)^k / k! ((digamma(a) - u) / (a + k) + 1 / (a + k)^2), where 1 / a^2 cancels at 0."""
    numbers = np.arange(1.0, _TERMS + 1)
    signs = as_tensor(np.array([(-1) ** k / math.factorial(k) for k in range(1, _TERMS + 1)]), f64)
    inverse = 1.0 / (expand_dims(a, -1) + as_tensor(numbers, f64))
    weight = expand_dims(above - 1.0 / a - u, -1)
    terms = signs * exp(expand_dims(u, -1) * as_tensor(numbers, f64)) * (weight + inverse) * inverse
    return exp(exp(u)) * ((above - u) / a + terms.sum(axis=-1))


def _by_quadrature(a: Tensor, u: Tensor, psi: Tensor) -> Tensor:
    """The integral of (|digamma(a) - u| + s) exp(a y - x (e^y - 1)) over s from 0 on, where y is s or -s."""
    x = exp(u)
    sign = where(u > psi, 1.0, -1.0)
    end = stop_gradient(_end(a, x, sign))
    places, weights = (as_tensor(item, f64) for item in _rule())
    s = expand_dims(end, -1) * places
    y = expand_dims(sign, -1) * s
    decay = exp(expand_dims(a, -1) * y - expand_dims(x, -1) * expm1(y))
    return end * ((expand_dims(absolute(psi - u), -1) + s) * decay * weights).sum(axis=-1)


@functools.cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(_POINTS)
    return (places + 1) / 2, weights / 2


def _end(a: Tensor, x: Tensor, sign: Tensor) -> Tensor:
    """Where x (e^y - 1) - a y is 40, by Newton's method from above. The function is convex."""
    slower = (_NEGLIGIBLE + sqrt(_NEGLIGIBLE * (_NEGLIGIBLE + 2.0 * x))) / x
    down = minimum(slower, _NEGLIGIBLE / where(sign < 0, a - x, 1.0))
    root = (a - x + sqrt((x - a) * (x - a) + 2.0 * _NEGLIGIBLE * x)) / x
    up = minimum(root, log1p((_NEGLIGIBLE + a * root) / x))
    s = where(sign > 0, up, down)
    for _ in range(_NEWTON_STEPS):
        above = x * expm1(sign * s) - a * sign * s - _NEGLIGIBLE
        s = s - above / (sign * (x * exp(sign * s) - a))
    return s
