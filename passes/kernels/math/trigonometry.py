"""sin, cos, sincos and tan in f32.

|x| = n pi/2 + r with |r| <= pi/4. Up to LARGE by Cody and Waite (three fused steps in f32; two steps in f64 where the
target cannot fuse), beyond it by Payne and Hanek, in integers, in a branch that is taken only if some element needs it.
The polynomials in r are those of tests/support/minimax.py. tan amplifies the error of r and is rare: it is done in f64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from blu.passes.kernels.math.branch import where_needed
from blu.passes.kernels.math.elements import Elements, fma, polynomial, select
from blu.passes.kernels.math.exponential import ROUNDER

TWO_OVER_PI = 0.6366197723675814
# pi/2 as a sum of three f32 numbers, and of two f64 numbers of which the first has 33 bits (n times it is exact).
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
HALF_PI_F64 = (1.5707963267341256, 6.077100506506192e-11)
LARGE = 1.0e5

# The first 224 bits of 2/pi after 32 zero bits, as words: computed with mpmath.
TWO_OVER_PI_WORDS = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)

SIN = (-0.1666666716337204, 0.008333372883498669, -0.00019850293756462634, 2.8043500606145244e-06)
COS = (0.04166664555668831, -0.0013887310633435845, 2.4432563805021346e-05)
TAN_F64 = (0.3333333332226506, 0.13333334195535806, 0.053968021365348645, 0.0218725842829792, 0.008839709425004477, 0.0037016737968153376, 0.001134464710245033, 0.0011792709306385324, -0.00039898099850246144, 0.0004413478965883711)  # fmt: skip # noqa: E501


def _window(a: Elements) -> list[Elements]:
    """Three words of 2/pi, from the bit on that, times the lowest bit of `a`, weighs 2: bits above give multiples of 4.

    Which words these are depends on the exponent of `a`: there are five cases, told apart by comparing.
    """
    place = a.bits().shift_right_unsigned(23) - 120
    offset = place & 31
    back = 31 - offset
    below = [place < 32 * (index + 1) for index in range(4)]

    def word(number: int) -> Elements:
        chosen = a.bits().constant(TWO_OVER_PI_WORDS[number + 4])
        for index in reversed(range(4)):
            chosen = select(below[index], TWO_OVER_PI_WORDS[number + index], chosen)
        return chosen

    words = [word(number) for number in range(4)]
    return [_joined(high, low, offset, back) for high, low in pairwise(words)]


def _joined(high: Elements, low: Elements, offset: Elements, back: Elements) -> Elements:
    """The 32 bits from bit `offset` on of two words; `back` is 31 - offset, since a shift by 32 has no meaning."""
    return (high << offset) | low.shift_right_unsigned(1).shift_right_unsigned(back)


def payne_hanek(a: Elements) -> tuple[Elements, Elements]:
    """(n modulo 4 as i32, r in f64) with a = n pi/2 + r, for f32 a >= 2^16; r is NaN for inf and NaN.

    24 bits of `a` times 96 bits of 2/pi, of which the 64 below the weight 4 are kept: r has 32 good bits even for the
    f32 number that is nearest to a multiple of pi/2.
    """
    mantissa = ((a.bits() & 0x7FFFFF) | 0x800000).unsigned_to_i64()
    high, middle, low = (mantissa * word.unsigned_to_i64() for word in _window(a))
    product = (high << 32) + middle + low.shift_right_unsigned(32)
    quarter = (product + (1 << 61)).shift_right_unsigned(62)
    rest = product - (quarter << 62)
    # AVX2 has no conversion from 64-bit integers: convert the halves.
    upper = (rest >> 32).to_i32().to_f64()
    lower = (rest.shift_right_unsigned(1) & 0x7FFFFFFF).to_i32().to_f64()
    angle = (upper * 2.0**32 + lower * 2.0) * (math.pi / 2 * 2.0**-62)
    return quarter.to_i32(), angle + (a - a).to_f64()


def _nearest_quarter(a: Elements) -> tuple[Elements, Elements]:
    """n = a / (pi/2) rounded, as an f32 number and in the low bits of an i32."""
    shifted = fma(a, TWO_OVER_PI, ROUNDER)
    return shifted - ROUNDER, shifted.bits()


def _reduce_f64(a: Elements, n: Elements) -> Elements:
    """a - n pi/2 in f64, for n below 2^20: exact but for the last step."""
    wide = n.to_f64()
    return fma(wide, -HALF_PI_F64[1], fma(wide, -HALF_PI_F64[0], a.to_f64()))


def _reduce(a: Elements) -> Sequence[Elements]:
    """(n modulo 4 in the two low bits of an i32, r in f32) for any a >= 0."""
    n, bits = _nearest_quarter(a)
    if a.fused:
        r = a
        for part in HALF_PI:
            r = fma(n, -part, r)
    else:
        r = _reduce_f64(a, n).to_f32()

    def large() -> tuple[Elements, Elements]:
        quarter, angle = payne_hanek(a)
        return quarter, angle.to_f32()

    return where_needed(a > LARGE, large, (bits, r))


def _on_circle(quarter: Elements, sine: Elements, cosine: Elements) -> Elements:
    """The sine of `quarter` pi/2 + r, as bits, from the sine and the cosine of r."""
    value = select((quarter & 1).equals(0), sine, cosine)
    return value.bits() ^ ((quarter & 2) << 30)


def _sine_and_cosine(r: Elements) -> tuple[Elements, Elements]:
    """Of r, with |r| <= pi/4."""
    z = r * r
    return fma(r * z, polynomial(z, SIN), r), fma(z * z, polynomial(z, COS), fma(z, -0.5, 1.0))


def sincos(x: Elements) -> tuple[Elements, Elements]:
    """Both, from one reduction. The sine is taken of |x| and gets the sign of x at last: this keeps -0.0."""
    quarter, r = _reduce(abs(x))
    sine, cosine = _sine_and_cosine(r)
    sign = x.bits() & (1 << 31)
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
    """r + r^3 P(r^2), or -1 over it where n is odd."""
    a = abs(x)
    n, bits = _nearest_quarter(a)
    bits, r = where_needed(a > LARGE, lambda: payne_hanek(a), (bits, _reduce_f64(a, n)))
    z = r * r
    tangent = fma(r * z, polynomial(z, TAN_F64), r)
    odd = (bits & 1).equals(1)
    result = select(odd, -1.0, tangent) / select(odd, tangent, 1.0)
    return (result.to_f32().bits() ^ (x.bits() & (1 << 31))).as_float()
