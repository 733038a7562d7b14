"""pow, fpowi and cbrt in f64: exp of a multiple of the logarithm, both as pairs."""

from __future__ import annotations

from blu.passes.kernels.math.double.exponential import exp_of_sum
from blu.passes.kernels.math.double.logarithm import log_pair
from blu.passes.kernels.math.double.pair import exact_product
from blu.passes.kernels.math.elements import Elements, clamp, fma, select
from blu.passes.kernels.math.logarithm import INFINITY
from blu.passes.kernels.math.power import by_squaring, constant_exponent, with_sign_of_float, with_sign_of_integer

# Stands for an infinite exponent: times the logarithm of any number but 1 it exceeds the range.
VAST = 2.0**65
ONE_THIRD = (0.3333333333333333, 1.850371707708594e-17)


def power_of_magnitude(x: Elements, exponent: Elements) -> Elements:
    """|x|^exponent; NaN only if one of them is, or for 0^0 and inf^0."""
    a = abs(x)
    logarithm = log_pair(a)
    y = clamp(exponent, -VAST, VAST)
    product = exact_product(y, logarithm.high)
    moderate = abs(product.high) < 1000.0
    low = select(moderate, fma(y, logarithm.low, product.low), product.high * 0.0)
    pole = select((a < 1.0).equals(exponent < 0.0), a.constant(INFINITY), 0.0)
    result = select(a.equals(0.0) | a.equals(INFINITY), pole, exp_of_sum(product.high, low))
    return select(a.compare("ordered", exponent), result, a + exponent)


def powf(x: Elements, y: Elements) -> Elements:
    """C's pow: a negative base takes the sign from an odd exponent and gives NaN for a fraction; x^0 = 1^y = 1."""
    return with_sign_of_float(x, y, power_of_magnitude(x, y))


def fpowi(x: Elements, exponent: Elements) -> Elements:
    """Exponents 1, 2 and 3 by multiplying, any other as powf."""
    number = constant_exponent(exponent)
    if number == 0:
        return x.constant(1.0)
    if number in (1, 2, 3):
        return by_squaring(x, number)
    return with_sign_of_integer(x, exponent, power_of_magnitude(x, exponent.to_f64()))


def cbrt(x: Elements) -> Elements:
    """exp(log |x| / 3) with the sign of x; zeros, infinities and NaN are their own roots."""
    a = abs(x)
    logarithm = log_pair(a)
    third = logarithm * logarithm.constant(ONE_THIRD)
    root = exp_of_sum(third.high, third.low).copysign(x)
    return select((a > 0.0) & (a < INFINITY), root, x)
