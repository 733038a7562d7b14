"""log, log2, log10 and log1p in f32; asinh, acosh, atanh through an f64 logarithm.

All write x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2) and log(1 + f) = f - f^2/2 + f^3 P(f); coefficients:
tests/support/minimax.py. The inverse hyperbolic functions cancel or pile up rounding errors in f32 and are rare: they
are evaluated in f64 with a logarithm good to 2^-33, which costs two instructions for each one in f32 and leaves one
rounding error.
"""

from __future__ import annotations

import math

from blu.passes.kernels.math.elements import Elements, fma, polynomial, select
from blu.passes.kernels.math.exponential import LN2_HIGH, LN2_LOW, LOG2_E, SUBNORMAL

# log2(e) and log10(e) as sums of two f32 numbers; log10(2) with a first part of 11 bits, so that e times it is exact.
LOG2_E_HIGH, LOG2_E_LOW = 1.4426950216293335, 1.925963033500011e-08
LOG10_E_HIGH, LOG10_E_LOW = 0.4342944920063019, -1.0103049952192578e-08
LOG10_2_HIGH, LOG10_2_LOW = 0.301025390625, 4.605038981195214e-06

SQRT_HALF_BITS = 0x3F3504F3
SQRT_HALF_BITS_F64 = 0x3FE6A09E667F3BCD
INFINITY = float("inf")

LOG = (0.3333335518836975, -0.2500085234642029, 0.1999976634979248, -0.16621315479278564, 0.14228098094463348, -0.132034569978714, 0.12615211308002472, -0.07353847473859787)  # fmt: skip # noqa: E501
LOG2_F64 = (1.4426950408861736, -0.7213475203440909, 0.48089834909392176, -0.360673789554249, 0.28853875978671306, -0.24044663903518637, 0.2061088116913176, -0.18043243660198488, 0.16017977981997206, -0.14252467829750873, 0.13065379686776615, -0.13480283318845782, 0.13104251324990437, -0.06794375740494948)  # fmt: skip # noqa: E501


def split(x: Elements) -> tuple[Elements, Elements]:
    """(e, f) as floats with x = 2^e (1 + f), for x > 0; subnormal numbers are scaled up first."""
    tiny = x < SUBNORMAL
    bits = select(tiny, x * 2.0**23, x).bits() - SQRT_HALF_BITS
    f = ((bits & 0x7FFFFF) + SQRT_HALF_BITS).as_float() - 1.0
    exponent = (bits >> 23).to_f32()
    return exponent + select(tiny, x.constant(-23.0), 0.0), f


def log_tail(f: Elements) -> Elements:
    """log(1 + f) - f for 1 + f between sqrt(1/2) and sqrt(2)."""
    square = f * f
    return fma(square, -0.5, square * f * polynomial(f, LOG))


def at_poles(x: Elements, result: Elements) -> Elements:
    """The values of a logarithm of x outside of (0, inf)."""
    result = select(x < INFINITY, result, x)
    return select(x <= 0.0, select(x.equals(0.0), x.constant(-INFINITY), math.nan), result)


def log(x: Elements) -> Elements:
    """e ln2 + f + tail, the small terms first."""
    exponent, f = split(x)
    tail = fma(exponent, LN2_LOW, log_tail(f))
    return at_poles(x, fma(exponent, LN2_HIGH, f + tail))


def log2(x: Elements) -> Elements:
    """Exact for powers of two."""
    exponent, f = split(x)
    return at_poles(x, exponent + fma(f, LOG2_E_HIGH, fma(log_tail(f), LOG2_E_HIGH, f * LOG2_E_LOW)))


def log10(x: Elements) -> Elements:
    """As log, with both log10(2) and log10(e) in two parts."""
    exponent, f = split(x)
    small = fma(exponent, LOG10_2_LOW, fma(log_tail(f), LOG10_E_HIGH, f * LOG10_E_LOW))
    return at_poles(x, fma(exponent, LOG10_2_HIGH, fma(f, LOG10_E_HIGH, small)))


def log1p(x: Elements) -> Elements:
    """log of 2^e (1 + f) = 1 + x, where f = 2^-e x + (2^-e - 1) has one rounding error, and none if e is 0.

    The exponent comes from the rounded 1 + x; 2^-e x is formed by subtracting e from the exponent of x. The sign of
    the result is that of x: this keeps -0.0.
    """
    shift = ((x + 1.0).bits() - SQRT_HALF_BITS) & -0x800000
    scaled = (x.bits() - shift).as_float()
    quarter = (0x40800000 - shift).as_float()
    f = scaled + fma(quarter, 0.25, -1.0)
    exponent = (shift >> 23).to_f32()
    result = fma(exponent, LN2_HIGH, f + fma(exponent, LN2_LOW, log_tail(f)))
    result = select(x < INFINITY, result.copysign(x), x)
    return select(x <= -1.0, select(x.equals(-1.0), x.constant(-INFINITY), math.nan), result)


def log2_f64(x: Elements) -> Elements:
    """log2 of normal f64 numbers x > 0 to 2^-33 relative; other x give any number.

    The exponent becomes a float by placing it in the low bits of 2^52: AVX2 cannot convert 64-bit integers.
    """
    bits = x.bits() - SQRT_HALF_BITS_F64
    f = ((bits & 0xFFFFFFFFFFFFF) + SQRT_HALF_BITS_F64).as_float() - 1.0
    biased = (bits + (1023 << 52)).shift_right_unsigned(52)
    exponent = (biased | 0x4330000000000000).as_float() - (2.0**52 + 1023.0)
    return fma(f, polynomial(f, LOG2_F64), exponent)


def log_f64(x: Elements) -> Elements:
    """The natural logarithm, as `log2_f64`."""
    return log2_f64(x) * (1.0 / LOG2_E)


def asinh(x: Elements) -> Elements:
    """log(a + sqrt(a^2 + 1)) in f64; below 2^-13, where that cancels, a itself is close enough."""
    a = abs(x).to_f64()
    result = log_f64(a + fma(a, a, 1.0).sqrt()).to_f32()
    result = select(abs(x) < INFINITY, result.copysign(x), x)
    return select(abs(x) < 2.0**-13, x, result)


def acosh(x: Elements) -> Elements:
    """log(x + sqrt(x^2 - 1)) in f64, where x^2 is exact."""
    wide = x.to_f64()
    result = log_f64(wide + (wide * wide - 1.0).sqrt()).to_f32()
    result = select(x < INFINITY, result, x)
    return select(x < 1.0, math.nan, result)


def atanh(x: Elements) -> Elements:
    """log((1 + a) / (1 - a)) / 2 in f64; below 2^-13, where that cancels, a itself is close enough."""
    a = abs(x).to_f64()
    result = (log_f64((a + 1.0) / (1.0 - a)) * 0.5).to_f32().copysign(x)
    result = select(abs(x) < 1.0, result, select(abs(x).equals(1.0), x.constant(INFINITY).copysign(x), math.nan))
    return select(abs(x) < 2.0**-13, x, result)
