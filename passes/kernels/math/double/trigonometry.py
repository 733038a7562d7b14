"""sin, cos, sincos and tan in f64.

|x| = n pi/2 + r with |r| <= pi/4, r as a pair. Up to LARGE by Cody and Waite, beyond it by Payne and Hanek, in a branch
that is taken only if some element needs it. Coefficients: tests/support/minimax.py.
"""

from __future__ import annotations

from blu.passes.kernels.math.branch import where_needed
from blu.passes.kernels.math.double.exponential import ROUNDER
from blu.passes.kernels.math.double.pair import Pair, exact_product, exact_sum, quick_sum, select_pair
from blu.passes.kernels.math.double.payne_hanek import payne_hanek
from blu.passes.kernels.math.elements import Elements, fma, polynomial, select

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
LARGE = 2.0**20

SIN = (-0.16666666666666666, 0.008333333333333099, -0.00019841269841054584, 2.7557319127905666e-06, -2.505208561890546e-08, 1.6056205555223378e-10, -7.48281683424645e-13)  # fmt: skip # noqa: E501
COS = (0.04166666666666659, -0.0013888888888872344, 2.4801587288465115e-05, -2.7557314079824484e-07, 2.0875688586597593e-09, -1.1357953711123241e-11)  # fmt: skip # noqa: E501


def _reduce(a: Elements) -> tuple[Elements, Pair]:
    """(n modulo 4 in the two low bits of an i64, r) for any a >= 0. The first product and difference are exact."""
    shifted = fma(a, TWO_OVER_PI, ROUNDER)
    n = shifted - ROUNDER
    step = exact_product(n, n.constant(-HALF_PI[1]))
    first = exact_sum(fma(n, -HALF_PI[0], a), step.high)
    r = quick_sum(first.high, first.low + fma(n, -HALF_PI[2], step.low))

    def large() -> tuple[Elements, Elements, Elements]:
        quarter, angle = payne_hanek(a)
        return quarter, angle.high, angle.low

    bits, high, low = where_needed(a > LARGE, large, (shifted.bits(), r.high, r.low))
    return bits, Pair(high, low)


def _sine_and_cosine(r: Pair) -> tuple[Pair, Pair]:
    """Of r, with |r| <= pi/4: each a number and a smaller one."""
    z = r.high * r.high
    half = z * 0.5
    near_one = 1.0 - half
    sine = fma(r.high * z, polynomial(z, SIN), r.low * near_one)
    cosine = fma(z * z, polynomial(z, COS), fma(-r.high, r.low, (1.0 - near_one) - half))
    return Pair(r.high, sine), Pair(near_one, cosine)


def _on_circle(quarter: Elements, sine: Elements, cosine: Elements) -> Elements:
    """The sine of `quarter` pi/2 + r, as bits, from the sine and the cosine of r."""
    value = select((quarter & 1).equals(0), sine, cosine)
    return value.bits() ^ ((quarter & 2) << 62)


def sincos(x: Elements) -> tuple[Elements, Elements]:
    """Both, from one reduction. The sine is taken of |x| and gets the sign of x at last: this keeps -0.0."""
    quarter, r = _reduce(abs(x))
    sine, cosine = (value.rounded() for value in _sine_and_cosine(r))
    sign = x.bits() & (1 << 63)
    return (
        (_on_circle(quarter, sine, cosine) ^ sign).as_float(),
        _on_circle(quarter + 1, sine, cosine).as_float(),
    )


def sin(x: Elements) -> Elements:
    """The first of `sincos`; what only the other needs is dead code."""
    return sincos(x)[0]


def cos(x: Elements) -> Elements:
    """The second of `sincos`."""
    return sincos(x)[1]


def tan(x: Elements) -> Elements:
    """The sine over the cosine of r, or minus the inverse where n is odd; subnormal numbers are their own tangents."""
    a = abs(x)
    bits, r = _reduce(a)
    sine, cosine = (quick_sum(value.high, value.low) for value in _sine_and_cosine(r))
    odd = (bits & 1).equals(1)
    negative = Pair(-cosine.high, -cosine.low)
    result = (select_pair(odd, negative, sine) / select_pair(odd, sine, cosine)).rounded()
    return (select(a < 2.0**-28, a, result).bits() ^ (x.bits() & (1 << 63))).as_float()
