"""The inverse of the error function, and the logarithm of the gamma function with its derivative.

Computed in f64 whatever the dtype, so that f32 results are right to their last bit or the one before; gradients of any
order are those of what is computed.
"""

from __future__ import annotations

import math
from typing import Any

from blu.dialects.core.dtypes import f64
from blu.dialects.tensor.arithmetic import (
    absolute,
    copysign,
    erf,
    erfc,
    exp,
    isinf,
    log,
    maximum,
    round,
    sin,
    sqrt,
    tan,
    where,
)
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor

__all__ = ["digamma", "erfinv", "lgamma"]

# Stirling's series is taken at arguments from here on, which recurrences bring smaller ones to.
_FROM = 8
# B(2k) / (2k (2k - 1)) and B(2k) / 2k, with Bernoulli's numbers B(2k) from B(2) on (NIST DLMF 5.11.1 and 5.11.2).
_OF_LGAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
_OF_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
# Winitzki's constant, which makes his formula for the inverse of the error function good to two parts in 1,000.
_WINITZKI = 0.147


@public
def lgamma(x: Any) -> Tensor:
    """log |gamma(x)|; infinity at 0 and the negative integers. The error in f64 is up to 30 units in the last
    place of the larger of the result and 1."""
    (tensor,) = promoted_floats(x)
    wide = converted(tensor, f64)
    reflected = wide < 0.5
    above = where(reflected, 1.0 - wide, wide)
    found = _lgamma_above_half(above)
    # log |gamma(x)| = log(pi / |sin(pi x)|) - log |gamma(1 - x)|
    fraction = where(reflected, wide - round(wide), 0.5)
    mirrored = math.log(math.pi) - log(absolute(sin(fraction * math.pi))) - found
    result = where(reflected & ~isinf(wide), mirrored, found)
    return converted(where(isinf(wide), math.inf, result), tensor.dtype)


def _lgamma_above_half(x: Tensor) -> Tensor:
    is_small = x < _FROM
    low = where(is_small, x, 1.0)
    product = low
    for number in range(1, _FROM):
        product = product * (low + float(number))
    far = where(is_small, low + float(_FROM), x)
    stirling = (far - 0.5) * log(far) - far + 0.5 * math.log(2 * math.pi) + _series(_OF_LGAMMA, far) / far
    return where(is_small, stirling - log(product), stirling)


def _series(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """c[0] + c[1] / x^2 + c[2] / x^4 + ..."""
    inverse = 1.0 / (x * x)
    total = coefficients[-1] * inverse
    for coefficient in coefficients[-2:0:-1]:
        total = (total + coefficient) * inverse
    return total + coefficients[0]


@public
def digamma(x: Any) -> Tensor:
    """The derivative of `lgamma`; -infinity at 0 (infinity at -0.0), and NaN at the negative integers."""
    (tensor,) = promoted_floats(x)
    wide = converted(tensor, f64)
    reflected = wide < 0.5
    found = _digamma_above_half(where(reflected, 1.0 - wide, wide))
    # digamma(x) = digamma(1 - x) - pi / tan(pi x)
    fraction = where(reflected, wide - round(wide), 0.25)
    mirrored = found - math.pi / tan(where(fraction == 0, 0.25, fraction) * math.pi)
    result = where(reflected, where(fraction == 0, math.nan, mirrored), found)
    return converted(where(wide == 0, copysign(math.inf, -wide), result), tensor.dtype)


def _digamma_above_half(x: Tensor) -> Tensor:
    is_small = x < _FROM
    low = where(is_small, x, 1.0)
    fractions = 1.0 / low
    for number in range(1, _FROM):
        fractions = fractions + 1.0 / (low + float(number))
    far = where(is_small, low + float(_FROM), x)
    found = log(far) - 0.5 / far - _series(_OF_DIGAMMA, far) / (far * far)
    return where(is_small, found - fractions, found)


@public
def erfinv(x: Any) -> Tensor:
    """y with erf(y) = x; infinite at -1 and 1, NaN outside, with an error in f64 of up to ten units in the last place.

    Halley's method, which begins at a series for small x, and at Winitzki's formula (2008) for large ones.
    """
    (tensor,) = promoted_floats(x)
    wide = converted(tensor, f64)
    size = absolute(wide)
    inside = where(size < 1, wide, 0.0)
    y = where(size < 0.5, _series_of_erfinv(inside), copysign(_about_erfinv(absolute(inside)), inside))
    for _ in range(2):
        y = _halley(inside, y)
    known = where(size < 1, y, copysign(where(size == 1, math.inf, math.nan), wide))
    return converted(known, tensor.dtype)


def _series_of_erfinv(x: Tensor) -> Tensor:
    """Good to three parts in 10,000 for |x| up to 1/2 (the series of NIST DLMF 7.17.2)."""
    square = x * x
    bracket = square * (127 * math.pi**3 / 40320) + 7 * math.pi**2 / 480
    return x * ((bracket * square + math.pi / 12) * square + 1.0) * (math.sqrt(math.pi) / 2)


def _about_erfinv(x: Tensor) -> Tensor:
    """Winitzki's formula for x in [1/2, 1), good to two parts in 1,000; that of 1/2 for x below."""
    large = maximum(x, 0.5)
    logarithm = log((1.0 - large) * (1.0 + large))
    middle = logarithm * 0.5 + 2 / (math.pi * _WINITZKI)
    return sqrt(sqrt(middle * middle - logarithm / _WINITZKI) - middle)


def _halley(x: Tensor, y: Tensor) -> Tensor:
    """A nearer y: what is left of erf(y) - x is cubed. Near 1 it is formed of complements, which do not cancel."""
    size = absolute(x)
    beside_one = (1.0 - size) - erfc(absolute(y))
    left = where(size < 0.5, erf(y) - x, where(x < 0, -beside_one, beside_one))
    step = left * exp(y * y) * (math.sqrt(math.pi) / 2)
    return y - step / (1.0 + y * step)
