"""exp, exp2, expm1, tanh, sinh and cosh in f32.

All write x = n ln2 + r with |r| <= ln2 / 2 (Cody and Waite) and evaluate a polynomial in r. n is rounded by adding a
large number, which also leaves its integer in the low bits of the sum: neither a rounding nor a conversion instruction
is needed. Coefficients: tests/support/minimax.py.
"""

from __future__ import annotations

from blu.passes.kernels.math.elements import Elements, clamp, fma, polynomial, select

LOG2_E = 1.4426950408889634
# ln2 in two parts; the first has 15 bits, so n * LN2_HIGH is exact.
LN2_HIGH = 0.693145751953125
LN2_LOW = 1.4286068203094173e-06

# Adding 3 * 2^22 to a number below 2^22 rounds it to an integer. BIAS puts twice the exponent bias of f32 on top.
ROUNDER = float(3 << 22)
BIAS = 127
SUBNORMAL = 2.0**-126

EXP = (0.4999998211860657, 0.16666516661643982, 0.041670944541692734, 0.008369090035557747, 0.0013678036630153656)
EXPM1 = (0.5, 0.1666666567325592, 0.04166647791862488, 0.008333567529916763, 0.001393368816934526, 0.00019742421864066273)  # fmt: skip # noqa: E501
EXP2 = (0.6931471824645996, 0.24022650718688965, 0.05550405755639076, 0.009618078358471394, 0.0013337277341634035, 0.0001545594714116305, 1.4475782336376142e-05)  # fmt: skip # noqa: E501
TANH = (-0.3333328068256378, 0.1333141177892685, -0.05373740196228027, 0.020632116124033928, -0.0056977225467562675)
SINH = (0.1666666716337204, 0.008333315141499043, 0.00019841665925923735, 2.7899839096789947e-06)


def reduce_natural(x: Elements, bias: int) -> tuple[Elements, Elements, Elements]:
    """(n, r, bits) with x = n ln2 + r; the low nine bits of the integer `bits` hold n + `bias`."""
    shifted = fma(x, LOG2_E, ROUNDER + bias)
    n = shifted - (ROUNDER + bias)
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    return n, r, shifted.bits()


def power_of_two(bits: Elements) -> Elements:
    """2^n for -126 <= n <= 127, from bits whose low nine hold n + BIAS."""
    return (bits << 23).as_float()


def scale(y: Elements, bits: Elements) -> Elements:
    """y * 2^n for -252 <= n <= 254, from bits whose low nine hold n + 2 BIAS; a subnormal result is rounded once."""
    half = bits.shift_right_unsigned(1)
    return y * power_of_two(half) * power_of_two(bits - half)


def exp_reduced(r: Elements) -> Elements:
    """exp(r) for |r| <= ln2 / 2."""
    return polynomial(r, (1.0, 1.0, *EXP))


def exp_of_moderate(x: Elements) -> Elements:
    """exp(x) for |x| <= 87, without a care for overflow and underflow."""
    _, r, bits = reduce_natural(x, BIAS)
    return exp_reduced(r) * power_of_two(bits)


def exp(x: Elements) -> Elements:
    """Beyond the clamp the result is 0 or inf."""
    _, r, bits = reduce_natural(clamp(x, -104.5, 89.0), 2 * BIAS)
    return scale(exp_reduced(r), bits)


def exp2(x: Elements) -> Elements:
    """2^n 2^r with |r| <= 1/2; exact where x is an integer."""
    x = clamp(x, -151.0, 129.0)
    shifted = x + (ROUNDER + 2 * BIAS)
    r = x - (shifted - (ROUNDER + 2 * BIAS))
    return scale(fma(r, polynomial(r, EXP2), 1.0), shifted.bits())


def expm1(x: Elements) -> Elements:
    """2^n (exp(r) - 1) + (2^n - 1), computed at half its size so that it does not overflow early.

    Below 2^-25 the result is x: this keeps -0.0 and the last bit of subnormal numbers.
    """
    _, r, bits = reduce_natural(clamp(x, -20.0, 89.0), BIAS - 1)
    half_power = power_of_two(bits)
    reduced = fma(r * r, polynomial(r, EXPM1), r)
    result = fma(reduced, half_power, half_power - 0.5) * 2.0
    return select(abs(x) < 2.0**-25, x, result)


def tanh(x: Elements) -> Elements:
    """An odd polynomial below 0.625, else 1 - 2 / (exp(2 |x|) + 1)."""
    a = abs(x)
    z = x * x
    near = fma(x * z, polynomial(z, TANH), x)
    far = 1.0 - 2.0 / (exp_of_moderate(clamp(a, high=9.5) * 2.0) + 1.0)
    return select(a < 0.625, near, far).copysign(x)


def _half_exp(x: Elements) -> Elements:
    """exp(x) / 2 for x >= 0: overflows where sinh and cosh do, not where exp does."""
    _, r, bits = reduce_natural(clamp(x, high=91.0), 2 * BIAS - 1)
    return scale(exp_reduced(r), bits)


def sinh(x: Elements) -> Elements:
    """An odd polynomial below 1, else e - 1 / (4 e) with e = exp(|x|) / 2."""
    a = abs(x)
    z = x * x
    near = fma(x * z, polynomial(z, SINH), x)
    half = _half_exp(a)
    return select(a < 1.0, near, (half - 0.25 / half).copysign(x))


def cosh(x: Elements) -> Elements:
    """e + 1 / (4 e) with e = exp(|x|) / 2."""
    half = _half_exp(abs(x))
    return half + 0.25 / half
