"""powf, fpowi, cbrt and rsqrt in f32, ipowi.

x^y = 2^(y log2 |x|) needs the logarithm to 2^-33. It is taken in f64, with polynomials just good enough for that: two
vector instructions for each one in f32, where sums of two f32 numbers would need more. What remains is the one rounding
to f32, which also makes overflow and subnormal results right.
"""

from __future__ import annotations

import math
from functools import reduce

from blu.dialects.core.mlir import ir
from blu.passes.kernels.math import libm
from blu.passes.kernels.math.elements import Elements, clamp, polynomial, select
from blu.passes.kernels.math.logarithm import INFINITY, log2_f64

EXP2_F64 = (0.9999999999997498, 0.6931471805465781, 0.24022650699046236, 0.055504109391356846, 0.009618128509143713, 0.0013333452227769903, 0.00015403873560540588, 1.530969948153839e-05, 1.3171462649008883e-06)  # fmt: skip # noqa: E501
# Stands for an infinite exponent, or for the logarithm of 0 or inf: times any nonzero f32 number or logarithm it
# exceeds the range, and times zero it is zero instead of NaN.
VAST = 1.0e60


def exp2_f64(x: Elements) -> Elements:
    """2^x of f64 numbers |x| <= 1022 to 2^-39 relative."""
    rounder = float(3 << 51)
    shifted = x + rounder
    r = x - (shifted - rounder)
    return polynomial(r, EXP2_F64) * ((shifted.bits() + 1023) << 52).as_float()


def power_of_magnitude(x: Elements, exponent: Elements) -> Elements:
    """|x|^exponent in f32 for f32 x and f64 `exponent`; NaN only if one of them is."""
    a = abs(x).to_f64()
    logarithm = select(a < INFINITY, log2_f64(a), select(a.is_nan(), a, VAST))
    logarithm = select(a.equals(0.0), -VAST, logarithm)
    product = clamp(exponent, -VAST, VAST) * logarithm
    return exp2_f64(clamp(product, -200.0, 200.0)).to_f32()


def powf(x: Elements, y: Elements) -> Elements:
    """C's pow: a negative base takes the sign from an odd exponent and gives NaN for a fraction; x^0 = 1^y = 1."""
    return with_sign_of_float(x, y, power_of_magnitude(x, y.to_f64()))


def with_sign_of_float(x: Elements, y: Elements, magnitude: Elements) -> Elements:
    """x^y from |x|^y, in f32 and f64."""
    half = y * 0.5
    is_fraction = y.emit("math.floor").differs(y)
    is_odd = half.emit("math.floor").differs(half)
    signed = select(is_odd, magnitude.copysign(x), magnitude)
    signed = select(is_fraction, select((x < 0.0) & (x > -INFINITY), math.nan, magnitude), signed)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, signed)


def cbrt(x: Elements) -> Elements:
    """2^(log2 |x| / 3) with the sign of x; zeros, infinities and NaN are their own roots."""
    a = abs(x)
    root = exp2_f64(log2_f64(a.to_f64()) * (1 / 3)).to_f32().copysign(x)
    return select((a > 0.0) & (a < INFINITY), root, x)


def rsqrt(x: Elements) -> Elements:
    """Two correctly rounded operations (f32 and f64)."""
    return 1.0 / x.sqrt()


def constant_exponent(exponent: Elements) -> int | None:
    """The number, if an integer exponent is a constant (a splat, for a vector)."""
    owner = exponent.value.owner
    if not isinstance(owner, ir.Operation | ir.OpView) or owner.operation.name != "arith.constant":
        return None
    value = owner.operation.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr):
        return value.get_splat_value().value if value.is_splat else None
    return value.value


def by_squaring(base: Elements, exponent: int) -> Elements:
    """base^exponent for exponent >= 1: one multiplication per bit and one per set bit."""
    squares = [base]
    while 2 ** len(squares) <= exponent:
        squares.append(squares[-1] * squares[-1])
    factors = [square for place, square in enumerate(squares) if exponent >> place & 1]
    return reduce(Elements.__mul__, factors)


def fpowi(x: Elements, exponent: Elements) -> Elements:
    """A constant exponent up to 64 by squaring in f64, where the errors do not show; any other as powf."""
    number = constant_exponent(exponent)
    if number == 0:
        return x.constant(1.0)
    if x.width == 64:
        return _fpowi_f64(x, exponent, number)
    if number is not None and abs(number) <= 64:
        power = by_squaring(x.to_f64(), abs(number))
        return (power if number > 0 else 1.0 / power).to_f32()
    return with_sign_of_integer(x, exponent, power_of_magnitude(x, exponent.to_f64()))


def _fpowi_f64(x: Elements, exponent: Elements, number: int | None) -> Elements:
    """Exponents 1, 2 and 3 by multiplying, any other by C's pow of |x|: squaring would double the error each time."""
    if number in (1, 2, 3):
        return by_squaring(x, number)
    magnitude = libm.call("pow", [abs(x).value, exponent.to_f64().value])
    return with_sign_of_integer(x, exponent, Elements(magnitude, x.fused))


def with_sign_of_integer(x: Elements, exponent: Elements, magnitude: Elements) -> Elements:
    """x^exponent from |x|^exponent for integer exponents: the sign of x counts where they are odd."""
    odd = (exponent & 1).equals(1)
    return select(exponent.equals(0), 1.0, select(odd, magnitude.copysign(x), magnitude))


def ipowi(base: Elements, exponent: Elements) -> Elements:
    """Integers, by squaring, wrapping around; a negative exponent truncates 1 / base^|exponent|, and 0 for base 0.

    An exponent that is no constant takes three operations per bit of its type.
    """
    number = constant_exponent(exponent)
    if number is not None and number >= 0:
        return by_squaring(base, number) if number else base.constant(1)
    result, square = base.constant(1), base
    for place in range(exponent.width - 1):
        bit_set = (exponent & (1 << place)).differs(0)
        result = select(bit_set, result * square, result)
        square = square * square
    inverse = select(base.equals(1), base, select(base.equals(-1), 1 - ((exponent & 1) << 1), base.constant(0)))
    return select(exponent < 0, inverse, result)
