"""Arithmetic and comparisons of complex tensors, and their parts.

A real operand is no complex one whose imaginary part is 0: infinity times 1j is infinity times i, without a NaN.
"""

from __future__ import annotations

import math
from typing import Any

from blu.dialects.ops.identity import stop_gradient
from blu.dialects.tensor import arithmetic as real_arithmetic
from blu.dialects.tensor.arithmetic import (
    absolute,
    add,
    arctan2,
    copysign,
    divide,
    equal,
    isfinite,
    isinf,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    multiply,
    negative,
    not_equal,
    power,
    reciprocal,
    sign,
    square,
    subtract,
    where,
)
from blu.dialects.tensor.complex_tensor import Complex, is_complex
from blu.dialects.tensor.promotion import is_python_scalar
from blu.dialects.tensor.tensor import Tensor
from blu.frontend.complexes.parts import Whole, aligned, as_complex, is_real, made, zeros_of
from blu.frontend.complexes.rules import by_parts, complex_of
from blu.frontend.functional import pointwise
from blu.frontend.functional.pointwise import angle, conj, hypot, imag, isclose, nan_to_num, positive, real

# The largest whole exponent, but for its sign, for which products are formed, as by NumPy.
LARGEST_PRODUCT = 100


def _sides(x: Any, y: Any) -> tuple[Whole, Whole]:
    left, right = aligned(x, y)
    return left, right


@complex_of(add)
def _add(x: Any, y: Any) -> Any:
    left, right = _sides(x, y)
    if is_real(left):
        left, right = right, left
    assert isinstance(left, Complex)
    if is_real(right):
        return made(left.real + right, left.imag)
    return Complex(left.real + right.real, left.imag + right.imag)


@complex_of(subtract)
def _subtract(x: Any, y: Any) -> Any:
    left, right = _sides(x, y)
    if is_real(left):
        return made(left - right.real, negative(right.imag))
    if is_real(right):
        return made(left.real - right, left.imag)
    return Complex(left.real - right.real, left.imag - right.imag)


@complex_of(multiply)
def _multiply(x: Any, y: Any) -> Any:
    left, right = _sides(x, y)
    if is_real(left):
        left, right = right, left
    assert isinstance(left, Complex)
    if is_real(right):
        return Complex(left.real * right, left.imag * right)
    a, b, c, d = left.real, left.imag, right.real, right.imag
    return Complex(a * c - b * d, a * d + b * c)


@complex_of(divide)
def _divide(x: Any, y: Any) -> Any:
    """By Smith's way, which does not form squares: the parts of y are divided by its larger one."""
    left, right = _sides(x, y)
    if is_real(right):
        return Complex(left.real / right, left.imag / right)
    turned = absolute(right.real) < absolute(right.imag)
    larger, smaller = where(turned, right.imag, right.real), where(turned, right.real, right.imag)
    is_zero = larger == 0
    ratio = smaller / where(is_zero, 1, larger)
    scale = larger + smaller * ratio
    numerator = left if isinstance(left, Complex) else Complex(left, zeros_of(left))
    first, second = where(turned, numerator.imag, numerator.real), where(turned, numerator.real, numerator.imag)
    across = (second - first * ratio) / scale
    return Complex((first + second * ratio) / scale, where(turned, negative(across), across))


@complex_of(reciprocal)
def _reciprocal(x: Any) -> Any:
    return divide(1.0, x)


@complex_of(square)
def _square(x: Any) -> Any:
    return multiply(x, x)


@complex_of(power)
def _power(x: Any, y: Any) -> Any:
    """exp(y log(x)), but for whole Python numbers as exponents, and 0.5; 0 to what has a positive real part is 0."""
    if is_python_scalar(y):
        if abs(y) <= LARGEST_PRODUCT and y == int(y):
            return _whole_power(as_complex(x) if not isinstance(x, Complex) else x, int(y))
        if y == 0.5:
            return real_arithmetic.sqrt(x)
    base, exponent = map(_complex, _sides(x, y))
    is_zero = equal(base, 0)
    logarithm = real_arithmetic.log(where(is_zero, 1, base))
    at_zero = where(equal(exponent, 0), 1, where(exponent.real > 0, 0, math.nan))
    return where(is_zero, at_zero, real_arithmetic.exp(multiply(exponent, logarithm)))


def _complex(x: Whole) -> Any:
    return x if isinstance(x, Complex) else Complex(x, zeros_of(x))


def _whole_power(x: Complex, n: int) -> Any:
    """By squares."""
    if n < 0:
        return divide(1.0, _whole_power(x, -n))
    found: Any = None
    while n:
        if n % 2:
            found = x if found is None else found * x
        n //= 2
        x = x * x if n else x
    return found if found is not None else Complex(zeros_of(x.real) + 1, zeros_of(x.real))


@complex_of(conj)
def _conj(x: Any) -> Any:
    whole = as_complex(x)
    return Complex(whole.real, negative(whole.imag))


@complex_of(real)
def _real(x: Any) -> Tensor:
    return as_complex(x).real


@complex_of(imag)
def _imag(x: Any) -> Tensor:
    return as_complex(x).imag


@complex_of(absolute)
def _absolute(x: Any) -> Tensor:
    whole = as_complex(x)
    return hypot(whole.real, whole.imag)


@complex_of(angle)
def _angle(x: Any) -> Tensor:
    """At 0, whose angle is that of its signs, the gradient is 0."""
    whole = as_complex(x)
    is_zero = equal(whole, 0)
    usual = arctan2(where(is_zero, 1, whole.imag), where(is_zero, 1, whole.real))
    return where(is_zero, stop_gradient(arctan2(whole.imag, whole.real)), usual)


@complex_of(sign)
def _sign(x: Any) -> Any:
    """x / |x|, and 0 at 0. Beside an infinite part the other is 0; two infinite parts are NaN, as in NumPy."""
    whole = as_complex(x)
    size = absolute(whole)
    is_zero, is_long = size == 0, isinf(size)
    both, divisor = isinf(whole.real) & isinf(whole.imag), where(is_zero | is_long, 1, size)
    parts = whole.real, whole.imag
    ends = (where(both, math.nan, where(isinf(part), copysign(1.0, part), 0)) for part in parts)
    usual = (where(is_zero, 0, part / divisor) for part in parts)
    return Complex(*(where(is_long, *pair) for pair in zip(ends, usual, strict=True)))


@complex_of(equal)
def _equal(x: Any, y: Any) -> Tensor:
    left, right = map(_complex, _sides(x, y))
    return (left.real == right.real) & (left.imag == right.imag)


@complex_of(not_equal)
def _not_equal(x: Any, y: Any) -> Tensor:
    return logical_not(equal(x, y))


def _of_either_part(function: Any, join: Any) -> None:
    complex_of(function)(lambda x: join(*(function(part) for part in (as_complex(x).real, as_complex(x).imag))))


_of_either_part(isnan, logical_or)
_of_either_part(isinf, logical_or)
_of_either_part(isfinite, logical_and)


def truth_of(x: Any) -> Any:
    """Whether complex numbers are not 0; anything else as it is."""
    return not_equal(x, 0) if is_complex(x) else x


def of_truth(function: Any) -> None:
    """Let a function ask complex numbers whether they are 0."""
    complex_of(function)(lambda *values, **options: function(*map(truth_of, values), **options))


for _function in (logical_not, logical_and, logical_or, logical_xor):
    of_truth(_function)


@complex_of(isclose)
def _isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    left, right = map(_complex, _sides(x, y))
    near = real_arithmetic.less_equal(absolute(left - right), atol + rtol * absolute(right))
    found = (near & isfinite(right) & isfinite(left)) | equal(left, right)
    return found | (isnan(left) & isnan(right)) if equal_nan else found


@complex_of(pointwise.allclose)
def _allclose(*values: Any, **options: Any) -> Tensor:
    return isclose(*values, **options).all()


by_parts("x", negative, positive, stop_gradient, nan_to_num, real_arithmetic.round)
