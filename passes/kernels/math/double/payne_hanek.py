"""The remainder of huge f64 numbers modulo pi/2, after Payne and Hanek, in integers."""

from __future__ import annotations

from itertools import pairwise

from blu.passes.kernels.math.double.pair import Pair, exact_sum
from blu.passes.kernels.math.elements import Elements, select

# The first 1182 bits of 2/pi after 34 zero bits, as words: computed with mpmath.
TWO_OVER_PI_WORDS = (0x28BE60DB, 0x9391054A7F09D5F4, 0x7D4D377036D8A566, 0x4F10E4107F9458EA, 0xF7AEF1586DC91B8E, 0x909374B801924BBA, 0x827464873F877AC7, 0x2C4A69CFBA208D7D, 0x4BAED1213A671C09, 0xAD17DF904E64758E, 0x60D4CE7D272117E2, 0xEF7E4A0EC7FE25FF, 0xF7816603FBCBC462, 0xD6829B47DB4D9FB3, 0xC9F2C26DD3D18FD9, 0xA797FA8B5D49EEB1, 0xFAF97C5ECF41CE7D, 0xE294A4BA9AFED7EC, 0x47E357421580CC11)  # fmt: skip # noqa: E501
LOW_HALF = (1 << 32) - 1
# Biased exponent of the numbers whose window begins with the table.
FIRST = 1043
# pi/2 * 2^-126
UNIT = (1.5707963267948966 * 2.0**-126, 6.123233995736766e-17 * 2.0**-126)


def _window(a: Elements) -> list[Elements]:
    """Three words of 2/pi, from the bit on that, times the lowest bit of `a`, weighs 2: bits above give multiples of 4.

    The words are chosen by the bits of their place, one after the other: those that come 8 later, 4 later, ...
    """
    place = a.bits().shift_right_unsigned(52) - FIRST
    words = [place.constant(word) for word in TWO_OVER_PI_WORDS]
    for step in (8, 4, 2, 1):
        later = (place & (64 * step)).differs(0)
        words = [select(later, words[i + step], words[i]) for i in range(len(words) - step)]
    offset = place & 63
    back = 63 - offset
    # A shift by 64 has no meaning.
    return [(high << offset) | low.shift_right_unsigned(1).shift_right_unsigned(back) for high, low in pairwise(words)]


def _high_product(a: Elements, b: Elements) -> Elements:
    """The high 64 bits of a product of unsigned numbers, from four products of their halves."""
    (a_low, a_high), (b_low, b_high) = ((value & LOW_HALF, value.shift_right_unsigned(32)) for value in (a, b))
    crossed = (a_low * b_high, a_high * b_low)
    middle = (a_low * b_low).shift_right_unsigned(32) + (crossed[0] & LOW_HALF) + (crossed[1] & LOW_HALF)
    high, *rest = (value.shift_right_unsigned(32) for value in (middle, *crossed))
    return a_high * b_high + rest[0] + rest[1] + high


def payne_hanek(a: Elements) -> tuple[Elements, Pair]:
    """(n modulo 4 as i64, r) with a = n pi/2 + r, for a >= 2^20; r is NaN for inf and NaN.

    53 bits of `a` times 192 bits of 2/pi, of which the 128 below the weight 4 are kept: r has 64 good bits even for the
    number that is nearest to a multiple of pi/2 (2^-61 from it).
    """
    mantissa = (a.bits() & ((1 << 52) - 1)) | (1 << 52)
    high, middle, low = _window(a)
    product = mantissa * middle
    fraction = product + _high_product(mantissa, low)
    # The second term has a clear top bit.
    carry = (product & (fraction ^ -1)).shift_right_unsigned(63)
    upper = mantissa * high + _high_product(mantissa, middle) + carry
    quarter = (upper + (1 << 61)).shift_right_unsigned(62)
    upper = upper - (quarter << 62)
    # The signed number (upper, fraction) in pieces of 44, 52 and 32 bits, which f64 holds.
    pieces = (
        upper >> 20,
        ((upper & ((1 << 20) - 1)) << 32) | fraction.shift_right_unsigned(32),
        fraction & LOW_HALF,
    )
    first, second, third = (piece.to_f64() * 2.0**place for piece, place in zip(pieces, (84, 32, 0), strict=True))
    total = exact_sum(first, second)
    total = exact_sum(total.high, total.low + third)
    angle = total * total.constant(UNIT)
    return quarter, Pair(angle.high + (a - a), angle.low)
