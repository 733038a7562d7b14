"""Exponentials, logarithms, roots and trigonometric functions of complex tensors.

At infinities, NaNs and signed zeros they are as in C99's Annex G, as far as its cases do not depend on signs that it
leaves open; branch cuts are those of NumPy, and a signed zero says on which side of one a number is. Errors are small
beside the size of the result: a part that is much smaller than the other may have the error of that one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from blu.dialects.ops.identity import stop_gradient
from blu.dialects.tensor import arithmetic as real_arithmetic
from blu.dialects.tensor.arithmetic import (
    absolute,
    arctan2,
    copysign,
    cos,
    cosh,
    exp,
    exp2,
    expm1,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    maximum,
    minimum,
    negative,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    where,
)
from blu.dialects.tensor.complex_tensor import Complex
from blu.dialects.tensor.folding import fold_axes, logsumexp
from blu.dialects.tensor.tensor import Tensor
from blu.frontend.complexes.parts import as_complex
from blu.frontend.complexes.rules import complex_of
from blu.frontend.functional.neural import silu
from blu.frontend.functional.pointwise import hypot

# Beyond it tanh is 1 or -1, in f64 as well.
LARGEST_OF_TANH = 20.0


def _times(size: Tensor, wave: Tensor) -> Tensor:
    """Their product: a zero stays one beside what is infinite or NaN."""
    is_lost = (wave == 0) & ~isfinite(size)
    return where(is_lost, wave * copysign(1.0, size), size * where(is_lost, 1, wave))


def _turned(function: Callable[[Any], Any]) -> Callable[[Any], Complex]:
    """-i f(iz): sin of sinh, and so on."""

    def run(x: Any) -> Any:
        whole = as_complex(x)
        found = function(Complex(negative(whole.imag), whole.real))
        return Complex(found.imag, negative(found.real))

    return run


@complex_of(exp)
def _exp(x: Any) -> Any:
    whole = as_complex(x)
    size, angle = exp(whole.real), whole.imag
    is_wild = ~isfinite(angle)
    is_gone = is_wild & (whole.real == -math.inf)
    tame = where(is_gone, 0, angle)
    real, imag = _times(size, cos(tame)), _times(size, sin(tame))
    return Complex(where(is_wild & (whole.real == math.inf), math.inf, real), imag)


@complex_of(exp2)
def _exp2(x: Any) -> Any:
    return exp(as_complex(x) * math.log(2))


@complex_of(expm1)
def _expm1(x: Any) -> Any:
    whole, raised = as_complex(x), exp(x)
    half = sin(whole.imag * 0.5)
    usual = expm1(whole.real) * cos(whole.imag) - 2.0 * half * half
    near = absolute(whole.real) < 1
    return Complex(where(near, usual, raised.real - 1), raised.imag)


@complex_of(log)
def _log(x: Any) -> Any:
    """Of numbers of a size near 1, the logarithm of the size is that of its distance from 1."""
    whole = as_complex(x)
    one, other = absolute(whole.real), absolute(whole.imag)
    longer, shorter = maximum(one, other), minimum(one, other)
    size = hypot(whole.real, whole.imag)
    is_near = (size > 0.5) & (size < 2)
    excess = where(is_near, (longer - 1) * (longer + 1) + shorter * shorter, 0)
    real = where(is_near, 0.5 * log1p(excess), log(where(is_near, 1, size)))
    return Complex(real, arctan2(whole.imag, whole.real))


@complex_of(log2)
def _log2(x: Any) -> Any:
    return log(x) * (1 / math.log(2))


@complex_of(log10)
def _log10(x: Any) -> Any:
    return log(x) * (1 / math.log(10))


@complex_of(log1p)
def _log1p(x: Any) -> Any:
    whole = as_complex(x)
    is_small = hypot(whole.real, whole.imag) < 0.5
    a, b = where(is_small, whole.real, 0), where(is_small, whole.imag, 0)
    found = log(whole + 1.0)
    return Complex(where(is_small, 0.5 * log1p(a * (2.0 + a) + b * b), found.real), found.imag)


@complex_of(sqrt)
def _sqrt(x: Any) -> Any:
    """Of its parts, the one that is a root of a sum is formed first, and the other divided by it."""
    whole = as_complex(x)
    a, b = whole.real, whole.imag
    is_zero, is_left = (a == 0) & (b == 0), a < 0
    # Not |a| and |b|, whose slope at 0 is 0.
    sum_of_sizes = 0.5 * where(is_left, negative(a), a) + 0.5 * hypot(a, b)
    first, side = sqrt(where(is_zero, 0, sum_of_sizes)), copysign(1.0, b)
    second = where(is_zero | isinf(b), b, b / where(is_zero, 1, 2.0 * first))
    found = Complex(where(is_left, second * side, first), where(is_left, first * side, second))
    return where(isinf(b), Complex(absolute(b), b), found)


@complex_of(logsumexp)
def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest real part is taken out, so that nothing overflows."""
    whole: Any = as_complex(x)
    axes = fold_axes(axis, whole.ndim)
    if not whole.size:
        return log(exp(whole).sum(axes, keepdims=keepdims))
    largest = stop_gradient(whole.real.max(axes, keepdims=True))
    shift = where(isfinite(largest), largest, 0.0)
    found: Any = log(exp(whole - shift).sum(axes, keepdims=keepdims))
    return found + (shift if keepdims else shift.reshape(found.shape))


@complex_of(rsqrt)
def _rsqrt(x: Any) -> Any:
    return 1.0 / sqrt(x)


@complex_of(sigmoid)
def _sigmoid(x: Any) -> Any:
    """By the exponential of the side that does not overflow."""
    whole = as_complex(x)
    is_left = whole.real < 0
    small = exp(where(is_left, whole, -whole))
    return where(is_left, small, 1.0) / (small + 1.0)


@complex_of(silu)
def _silu(x: Any) -> Any:
    return x * sigmoid(x)


@complex_of(sinh)
def _sinh(x: Any) -> Any:
    whole = as_complex(x)
    a, b = whole.real, whole.imag
    real = where(isinf(a) & ~isfinite(b), a, _times(sinh(a), cos(b)))
    return Complex(where((a == 0) & ~isfinite(b), a, real), _times(cosh(a), sin(b)))


@complex_of(cosh)
def _cosh(x: Any) -> Any:
    whole = as_complex(x)
    a, b = whole.real, whole.imag
    real = where(isinf(a) & ~isfinite(b), math.inf, _times(cosh(a), cos(b)))
    return Complex(real, _times(sinh(a), where((a == 0) & ~isfinite(b), 0, sin(b))))


@complex_of(tanh)
def _tanh(x: Any) -> Any:
    whole = as_complex(x)
    a, b = whole.real, whole.imag
    is_far = absolute(a) > LARGEST_OF_TANH
    near = where(is_far, 1, a)
    wild = isinf(a) & ~isfinite(b)
    angle = where(wild, 0, b)
    sine, cosine, rise = sin(angle), cos(angle), sinh(near)
    below = rise * rise + cosine * cosine
    real = where(is_far, tanh(a), rise * cosh(near) / below)
    real = where((a == 0) & ~isfinite(b), a, real)
    far = 4.0 * sine * cosine * exp(-2.0 * absolute(a))
    imag = where(is_far, far, sine * cosine / below)
    return Complex(real, where(isnan(a) & (b == 0), b, imag))


complex_of(sin)(_turned(sinh))
complex_of(tan)(_turned(tanh))


@complex_of(cos)
def _cos(x: Any) -> Any:
    whole = as_complex(x)
    return cosh(Complex(negative(whole.imag), whole.real))


@complex_of(real_arithmetic.arcsin)
def _arcsin(x: Any) -> Any:
    """By the roots of 1 - z and 1 + z (Kahan, "Branch cuts for complex elementary functions")."""
    whole = as_complex(x)
    a, b = whole.real, whole.imag
    below, above = _roots(whole)
    real = arctan2(a, below.real * above.real - below.imag * above.imag)
    found = Complex(real, real_arithmetic.arcsinh(below.real * above.imag - below.imag * above.real))
    found = where(isinf(whole), Complex(arctan2(a, absolute(b)), copysign(math.inf, b)), found)
    return Complex(where((a == 0) & isnan(b), a, found.real), found.imag)


@complex_of(real_arithmetic.arccos)
def _arccos(x: Any) -> Any:
    whole = as_complex(x)
    a, b = whole.real, whole.imag
    below, above = _roots(whole)
    imag = real_arithmetic.arcsinh(above.real * below.imag - above.imag * below.real)
    found = Complex(2.0 * arctan2(below.real, above.real), imag)
    found = where(isinf(whole), Complex(arctan2(absolute(b), a), copysign(math.inf, negative(b))), found)
    return Complex(where((a == 0) & isnan(b), math.pi / 2, found.real), found.imag)


def _roots(x: Complex) -> tuple[Any, Any]:
    """sqrt(1 - z) and sqrt(1 + z)."""
    below = Complex(1.0 - x.real, negative(x.imag))
    return sqrt(below), sqrt(Complex(1.0 + x.real, x.imag))


@complex_of(real_arithmetic.arccosh)
def _arccosh(x: Any) -> Any:
    whole = as_complex(x)
    below, above = sqrt(Complex(whole.real - 1.0, whole.imag)), _roots(whole)[1]
    a, b = whole.real, whole.imag
    real = real_arithmetic.arcsinh(below.real * above.real + below.imag * above.imag)
    is_infinite = isinf(whole)
    angle = where(is_infinite, arctan2(b, a), 2.0 * arctan2(below.imag, above.real))
    return Complex(where(is_infinite, math.inf, real), where((a == 0) & isnan(b), math.pi / 2, angle))


@complex_of(real_arithmetic.arctanh)
def _arctanh(x: Any) -> Any:
    whole = as_complex(x)
    a, b = whole.real, whole.imag
    side = copysign(1.0, a)  # |a| is a * side, whose slope at 0 is not 0
    distance = 1.0 - a * side
    # 4|a| / ((1 - |a|)^2 + b^2), in steps that do not overflow.
    longer = maximum(absolute(distance), absolute(b))
    safe = where(longer == 0, 1, longer)
    first, second = distance / safe, b / safe
    squares = first * first + second * second
    is_close = longer < 1e-8  # where 1 is nothing beside the ratio
    ratio = a * side / safe / (where(is_close, 1, safe) * squares) * 4.0
    real = where(is_close, log(where(is_close, ratio, 1)) - log(safe), log1p(where(is_close, 0, ratio)))
    real = 0.25 * side * where(longer == 0, math.inf, real)
    is_left_as_it_is = isinf(a) | isinf(b) | ((a == 0) & isnan(b))
    return Complex(where(is_left_as_it_is, copysign(0.0, a), real), _arctanh_angle(a, b))


def _arctanh_angle(a: Tensor, b: Tensor) -> Tensor:
    """Half of the angle of (1 + z) / (1 - z)."""
    usual = 0.5 * (arctan2(b, 1.0 + a) - arctan2(negative(b), 1.0 - a))
    return where(isinf(b), copysign(math.pi / 2, b), usual)


complex_of(real_arithmetic.arcsinh)(_turned(real_arithmetic.arcsin))
complex_of(real_arithmetic.arctan)(_turned(real_arithmetic.arctanh))
