"""exp, exp2, expm1, tanh, sinh and cosh in f64.

As in f32: x = n ln2 + r with |r| <= ln2 / 2, here with exp(r) - 1 as a pair. Coefficients: tests/support/minimax.py.
"""

from __future__ import annotations

from blu.passes.kernels.math.double.pair import Pair, exact_product, exact_sum, quick_sum
from blu.passes.kernels.math.elements import Elements, clamp, fma, polynomial, select

LOG2_E = 1.4426950408889634
LN2 = (0.6931471805599453, 2.3190468138462996e-17)

# Adding 3 * 2^51 to a number below 2^51 rounds it to an integer, which is then in the low bits of the sum.
ROUNDER = float(3 << 51)
BIAS = 1023
# Where exp(x) - 1 rounds to x, and so does whatever else is x (1 + x / 2 ...).
TINY = 2.0**-54

EXPM1 = (0.5, 0.16666666666666677, 0.0416666666666666, 0.00833333333332147, 0.0013888888888928322, 0.00019841269886454257, 2.4801587227584984e-05, 2.755724393523213e-06, 2.755736192685832e-07, 2.5109117944684846e-08, 2.0886591615213577e-09)  # fmt: skip # noqa: E501


def expm1_reduced(r: Pair) -> Pair:
    """exp(r) - 1 for |r| <= ln2 / 2, to 2^-56 absolutely and as much relatively where r.low is 0."""
    return quick_sum(r.high, fma(r.high * r.high, polynomial(r.high, EXPM1), fma(r.low, r.high, r.low)))


def reduce_natural(x: Elements, low: Elements | None, bias: int) -> tuple[Elements, Pair]:
    """(bits, exp(r) - 1) with x + low = n ln2 + r; the low twelve bits of the integer `bits` hold n + `bias`."""
    shifted = fma(x, LOG2_E, ROUNDER + bias)
    n = shifted - (ROUNDER + bias)
    tail = n * -LN2[1]
    r = quick_sum(fma(n, -LN2[0], x), tail if low is None else tail + low)
    return shifted.bits(), expm1_reduced(r)


def power_of_two(bits: Elements) -> Elements:
    """2^n for -1022 <= n <= 1023, from bits whose low twelve hold n + BIAS."""
    return (bits << 52).as_float()


def scale(y: Elements, bits: Elements) -> Elements:
    """y * 2^n for -2044 <= n <= 2046, from bits whose low twelve hold n + 2 BIAS; a subnormal is rounded once."""
    half = bits.shift_right_unsigned(1)
    return y * power_of_two(half) * power_of_two(bits - half)


def plus_one(m: Pair) -> Elements:
    """1 + m for |m| < 1, rounded."""
    total = quick_sum(m.high.constant(1.0), m.high)
    return total.high + (total.low + m.low)


def exp_of_sum(x: Elements, low: Elements | None = None) -> Elements:
    """exp(x + low); beyond the clamp the result is 0 or inf. `low` must be moderate there."""
    bits, m = reduce_natural(clamp(x, -746.0, 710.0), low, 2 * BIAS)
    return scale(plus_one(m), bits)


def exp(x: Elements) -> Elements:
    """As `exp_of_sum`, which takes more digits of its argument."""
    return exp_of_sum(x)


def exp2(x: Elements) -> Elements:
    """2^n 2^r with |r| <= 1/2; exact where x is an integer."""
    x = clamp(x, -1076.0, 1025.0)
    shifted = x + (ROUNDER + 2 * BIAS)
    r = x - (shifted - (ROUNDER + 2 * BIAS))
    product = exact_product(r, r.constant(LN2[0]))
    m = expm1_reduced(quick_sum(product.high, fma(r, LN2[1], product.low)))
    return scale(plus_one(m), shifted.bits())


def quarter_of_expm1(x: Elements) -> Pair:
    """(exp(x) - 1) / 4 for x <= 710.6: a quarter, so that nothing that needs it overflows early.

    2^(n-2) (exp(r) - 1) + (2^(n-2) - 1/4), where the second term may lose the 1/4.
    """
    bits, m = reduce_natural(clamp(x, -40.0, 710.6), None, BIAS - 2)
    power = power_of_two(bits)
    whole = power - 0.25
    lost = (power - whole) - 0.25
    total = exact_sum(whole, power * m.high)
    return quick_sum(total.high, fma(power, m.low, lost) + total.low)


def expm1(x: Elements) -> Elements:
    """Where it is x this keeps -0.0 and the last bit of subnormal numbers."""
    return select(abs(x) < TINY, x, quarter_of_expm1(x).rounded() * 4.0)


def tanh(x: Elements) -> Elements:
    """e / (e + 2) with e = exp(2 |x|) - 1."""
    a = abs(x)
    quarter = quarter_of_expm1(clamp(a, high=22.0) * 2.0)
    result = (quarter / (quarter + quarter.constant((0.5, 0.0)))).rounded()
    return select(a < 2.0**-28, x, result.copysign(x))


def sinh(x: Elements) -> Elements:
    """(e + e / (e + 1)) / 2 with e = exp(|x|) - 1."""
    a = abs(x)
    quarter = quarter_of_expm1(a)
    other = quarter.high / fma(quarter.high, 4.0, 1.0)
    result = (quarter.high + (other + quarter.low)) * 2.0
    return select(a < 2.0**-28, x, result.copysign(x))


def cosh(x: Elements) -> Elements:
    """(e + 1 / e) / 2 with e = exp(|x|)."""
    bits, m = reduce_natural(clamp(abs(x), high=710.6), None, BIAS - 2)
    quarter = plus_one(m) * power_of_two(bits)
    return (quarter + 0.0625 / quarter) * 2.0
