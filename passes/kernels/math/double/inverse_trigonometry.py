"""asin, acos, atan and atan2 in f64. Coefficients: tests/support/minimax.py.

asin has one odd polynomial up to 1/2, and beyond it is folded. For atan of a ratio, the nearest multiple c of 1/4 is
taken off: atan(t) = atan(c) + atan((t - c) / (1 + t c)), which leaves at most 1/8.
"""

from __future__ import annotations

from blu.passes.kernels.math.double.pair import Pair, exact_sum
from blu.passes.kernels.math.elements import Elements, fma, polynomial, select

INFINITY = float("inf")
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
PI = (2 * HALF_PI[0], 2 * HALF_PI[1])

ASIN = (0.16666666666666757, 0.07499999999971792, 0.04464285717359249, 0.0303819427587141, 0.022372213519528936, 0.017351638714397925, 0.013980498610070365, 0.011401549996406437, 0.010765491205053643, 0.0037619687896042024, 0.02157292878367737, -0.02080981246775407, 0.032511041925434414)  # fmt: skip # noqa: E501
ATAN = (-0.3333333333333333, 0.19999999999997625, -0.14285714284594692, 0.11111110848653814, -0.09090875095021615, 0.07689819508713372, -0.06568926939043893, 0.04181885308461897)  # fmt: skip # noqa: E501
# atan(k / 4)
ARCS = (
    (0.0, 0.0),
    (0.24497866312686414, 1.0698755618734451e-17),
    (0.4636476090008061, 2.2698777452961687e-17),
    (0.6435011087932844, 1.5834785051444286e-17),
    (0.7853981633974483, 3.061616997868383e-17),
)


def _asin_folded(a: Elements) -> tuple[Elements, Pair]:
    """(far, s + tail) for a >= 0: the arc sine of sqrt((1 - a) / 2) if far (a > 1/2), else of a.

    Above 1 the square root, and with it everything, is NaN. The tail has what rounding the root took off.
    """
    far = a > 0.5
    z = select(far, (1.0 - a) * 0.5, a * a)
    root = z.sqrt()
    lost = select(far & (root > 0.0), fma(-root, root, z) / (root * 2.0), 0.0)
    s = select(far, root, a)
    return far, Pair(s, fma(s * z, polynomial(z, ASIN), lost))


def _from(base: Pair, angle: Pair) -> Elements:
    """base - angle, rounded."""
    total = exact_sum(base.high, -angle.high)
    return total.high + (total.low + (base.low - angle.low))


def asin(x: Elements) -> Elements:
    """asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above 1/2."""
    far, arc = _asin_folded(abs(x))
    folded = _from(arc.constant(HALF_PI), arc.scaled(2.0))
    return select(far, folded, arc.rounded()).copysign(x)


def acos(x: Elements) -> Elements:
    """2 asin(sqrt((1 - x) / 2)) above 1/2, pi minus that of -x below -1/2, pi/2 - asin(x) between."""
    far, arc = _asin_folded(abs(x))
    twice = arc.scaled(2.0)
    signed = Pair(arc.high.copysign(x), select(x < 0.0, -arc.low, arc.low))
    folded = select(x > 0.0, twice.rounded(), _from(arc.constant(PI), twice))
    return select(far, folded, _from(arc.constant(HALF_PI), signed))


def _arc(small: Elements, large: Elements) -> Pair:
    """atan(small / large) for 0 <= small <= large, large > 0."""
    center, high, low = (small.constant(0.0) for _ in range(3))
    for k in range(1, 5):
        beyond = small > large * (k / 4 - 0.125)
        center = select(beyond, k / 4, center)
        high, low = select(beyond, ARCS[k][0], high), select(beyond, ARCS[k][1], low)
    t = fma(-center, large, small) / fma(center, small, large)
    z = t * t
    return Pair(high, low) + Pair(t, t * z * polynomial(z, ATAN))


def atan(x: Elements) -> Elements:
    """The angle of (1, x)."""
    return atan2(x, x.constant(1.0))


def atan2(y: Elements, x: Elements) -> Elements:
    """The angle of (x, y), from that of (larger, smaller) in magnitude; two zeros count as 0/1, two infinities as 1.

    The sign bit of x decides about pi - angle, so that zeros with a sign come out as IEEE 754 and numpy say.
    """
    a, b = abs(x), abs(y)
    steep, back = b > a, x.bits() < 0
    arc = _arc(*_ratio(select(steep, a, b), select(steep, b, a)))
    direct = steep.equals(back)
    signed = Pair(select(direct, arc.high, -arc.high), select(direct, arc.low, -arc.low))
    base = [select(steep, half, select(back, x.constant(whole), 0.0)) for half, whole in zip(HALF_PI, PI, strict=True)]
    return (Pair(*base) + signed).rounded().copysign(y)


def _ratio(small: Elements, large: Elements) -> tuple[Elements, Elements]:
    """Two numbers in the ratio of `small` and `large` that are neither huge nor, the larger, 0 or tiny."""
    infinite = large.equals(INFINITY)
    small = select(infinite, select(small.equals(INFINITY), small.constant(1.0), small * 0.0), small)
    large = select(infinite | large.equals(0.0), 1.0, large)
    factor = select(large > 2.0**1000, large.constant(2.0**-100), 1.0)
    factor = select(large < 2.0**-900, 2.0**100, factor)
    return small * factor, large * factor
