"""log, log2, log10, log1p, asinh, acosh and atanh in f64, all from one logarithm that is a pair.

x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and log(1 + f) = 2 atanh(s) = 2 s + 2/3 s^3 + s^5 P(s^2) with
s = f / (2 + f), where P takes f64 and the rest pairs. Good to 2^-64 relative, as pow needs it. Coefficients:
tests/support/minimax.py.
"""

from __future__ import annotations

import math

from blu.passes.kernels.math.double.exponential import LN2, TINY
from blu.passes.kernels.math.double.pair import Pair, exact_product, exact_sum, quick_sum, select_pair
from blu.passes.kernels.math.elements import Elements, clamp, fma, polynomial, select
from blu.passes.kernels.math.logarithm import INFINITY, at_poles

LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)

SUBNORMAL = 2.0**-1022
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
ONE_BITS = 0x3FF << 52
# From here on sqrt(x^2 + 1) and sqrt(x^2 - 1) are x.
LARGE = 2.0**30

LOG = (0.4, 0.2857142857142709, 0.22222222222620702, 0.18181818124364202, 0.15384620342875024, 0.1333306581115873, 0.11773759436631623, 0.10341343170254279, 0.11567467361890085)  # fmt: skip # noqa: E501


def log_pair(x: Elements, low: Elements | None = None) -> Pair:
    """log(x + low) for finite x > 0, where x is normal if `low` is given; other x give any numbers."""
    tiny = x < SUBNORMAL
    bits = select(tiny, x * 2.0**54, x).bits()
    shift = (bits - SQRT_HALF_BITS) & -(1 << 52)
    exponent = (shift >> 52).to_f64() - select(tiny, x.constant(54.0), 0.0)
    f = (bits - shift).as_float() - 1.0
    # Where x is too large for 2^-e to be normal, `low` does not count.
    rest = f.constant(0.0) if low is None else low * (ONE_BITS - clamp(shift, high=1000 << 52)).as_float()
    doubled = _twice_atanh(quick_sum(f, rest))
    whole = exact_product(exponent, exponent.constant(LN2[0]))
    return Pair(whole.high, fma(exponent, LN2[1], whole.low)) + doubled


def _twice_atanh(f: Pair) -> Pair:
    """2 atanh(f / (2 + f)), which is log(1 + f)."""
    s = f / (f.constant((2.0, 0.0)) + f)
    square = s * s
    cube = s * square
    tail = cube * f.constant(TWO_THIRDS)
    rest = cube.high * square.high * polynomial(square.high, LOG)
    return s.scaled(2.0) + quick_sum(tail.high, tail.low + rest)


def log(x: Elements) -> Elements:
    """The pair, rounded."""
    return at_poles(x, log_pair(x).rounded())


def log2(x: Elements) -> Elements:
    """Exact for powers of two."""
    logarithm = log_pair(x)
    return at_poles(x, (logarithm * logarithm.constant(LOG2_E)).rounded())


def log10(x: Elements) -> Elements:
    """As log2; exact for powers of ten."""
    logarithm = log_pair(x)
    return at_poles(x, (logarithm * logarithm.constant(LOG10_E)).rounded())


def log1p(x: Elements) -> Elements:
    """log of 1 + x as a pair; where it is x this keeps -0.0."""
    total = exact_sum(x.constant(1.0), x)
    result = log_pair(total.high, total.low).rounded()
    result = select(x < INFINITY, result, x)
    result = select(x <= -1.0, select(x.equals(-1.0), x.constant(-INFINITY), math.nan), result)
    return select(abs(x) < TINY, x, result)


def _log_of_sum(large: Elements, a: Elements, total: Pair) -> Elements:
    """log(2 a) where `large`, else the logarithm of `total`."""
    zero = a.constant(0.0)
    chosen = select_pair(large, Pair(a, zero), total)
    twice = select_pair(large, total.constant(LN2), Pair(zero, zero))
    return (log_pair(chosen.high, chosen.low) + twice).rounded()


def asinh(x: Elements) -> Elements:
    """log(1 + a + a^2 / (1 + sqrt(a^2 + 1))); below 2^-28 a itself is close enough."""
    a = abs(x)
    large = a > LARGE
    b = select(large, 1.0, a)
    square = b * b
    total = exact_sum(b.constant(1.0), b) + Pair(square / ((square + 1.0).sqrt() + 1.0), b.constant(0.0))
    result = select(a < INFINITY, _log_of_sum(large, a, total), a)
    return select(a < 2.0**-28, x, result.copysign(x))


def acosh(x: Elements) -> Elements:
    """log(x + sqrt(t (t + 2))) with t = x - 1, which is exact."""
    large = x > LARGE
    b = select(large, 1.0, x)
    t = b - 1.0
    result = _log_of_sum(large, x, exact_sum(b, fma(t, t, t * 2.0).sqrt()))
    result = select(x < INFINITY, result, x)
    return select(x < 1.0, math.nan, result)


def atanh(x: Elements) -> Elements:
    """log(1 + 2 a / (1 - a)) / 2; below 2^-28 a itself is close enough."""
    a = abs(x)
    one = a.constant(1.0)
    ratio = Pair(a * 2.0, a.constant(0.0)) / exact_sum(one, -a)
    total = Pair(one, a.constant(0.0)) + ratio
    result = (log_pair(total.high, total.low).rounded() * 0.5).copysign(x)
    result = select(a < 1.0, result, select(a.equals(1.0), x.constant(INFINITY).copysign(x), math.nan))
    return select(a < 2.0**-28, x, result)
