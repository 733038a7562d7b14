"""asin, acos, atan and atan2 in f32: an odd polynomial each, the range folded in halves onto it.

Coefficients: tests/support/minimax.py. pi and pi/2 are sums of two f32 numbers; the second is added to the small term.
"""

from __future__ import annotations

from blu.passes.kernels.math.elements import Elements, fma, polynomial, select

HALF_PI, HALF_PI_LOW = 1.5707963705062866, -4.371138828673793e-08
PI, PI_LOW = 2 * HALF_PI, 2 * HALF_PI_LOW

ASIN = (0.16666752099990845, 0.0749533399939537, 0.04546454921364784, 0.024211598560214043, 0.04210871458053589)
ATAN = (-0.33333292603492737, 0.1999835968017578, -0.1426229029893875, 0.10942219942808151, -0.08374951034784317, 0.05747894197702408, -0.030709004029631615, 0.010666740126907825, -0.001738973194733262)  # fmt: skip # noqa: E501


def _asin_folded(a: Elements) -> tuple[Elements, Elements, Elements]:
    """(far, s, tail) for a >= 0: asin(s) = s + tail, where s = sqrt((1 - a) / 2) if far (a > 1/2), else s = a.

    Above 1 the square root, and with it everything, is NaN.
    """
    far = a > 0.5
    z = select(far, (1.0 - a) * 0.5, a * a)
    s = select(far, z.sqrt(), a)
    return far, s, s * z * polynomial(z, ASIN)


def asin(x: Elements) -> Elements:
    """asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above 1/2; pi/2 comes in two steps, of which the first is exact."""
    far, s, tail = _asin_folded(abs(x))
    folded = fma(s, -2.0, HALF_PI / 2) - (tail * 2.0 - HALF_PI_LOW) + HALF_PI / 2
    return select(far, folded, s + tail).copysign(x)


def acos(x: Elements) -> Elements:
    """2 asin(sqrt((1 - x) / 2)) above 1/2, pi minus that of -x below -1/2, pi/2 - asin(x) between."""
    far, s, tail = _asin_folded(abs(x))
    twice = (s + tail) * 2.0
    middle = HALF_PI - ((s + tail).copysign(x) - HALF_PI_LOW)
    return select(far, select(x > 0.0, twice, PI - (twice - PI_LOW)), middle)


def _atan_folded(t: Elements) -> Elements:
    """atan(t) for 0 <= t <= 1."""
    z = t * t
    return fma(t * z, polynomial(z, ATAN), t)


def atan(x: Elements) -> Elements:
    """pi/2 - atan(1 / a) above 1."""
    a = abs(x)
    far = a > 1.0
    folded = _atan_folded(select(far, 1.0 / a, a))
    return select(far, HALF_PI - (folded - HALF_PI_LOW), folded).copysign(x)


def atan2(y: Elements, x: Elements) -> Elements:
    """The angle of (x, y), from that of (larger, smaller) in magnitude; two zeros count as 0/1, two infinities as 1.

    The sign bit of x decides about pi - angle, so that zeros with a sign come out as IEEE 754 and numpy say.
    """
    a, b = abs(x), abs(y)
    steep = b > a
    small, large = select(steep, a, b), select(steep, b, a)
    ratio = select(small.equals(large), select(small.equals(0.0), x.constant(0.0), 1.0), small / large)
    angle = _atan_folded(ratio)
    angle = select(steep, HALF_PI - (angle - HALF_PI_LOW), angle)
    return select(x.bits() < 0, PI - (angle - PI_LOW), angle).copysign(y)
