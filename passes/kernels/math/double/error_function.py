"""erf and erfc in f64: x + x P(x^2) below 0.8, else exp(-a^2) R(t) / (1 + 2 a) with t = (a - 3) / (a + 3).

Coefficients: tests/support/minimax.py.
"""

from __future__ import annotations

from blu.passes.kernels.math.double.exponential import BIAS, plus_one, reduce_natural, scale
from blu.passes.kernels.math.double.pair import exact_product, exact_sum
from blu.passes.kernels.math.elements import Elements, clamp, fma, polynomial, select

NEAR = 0.8

ERF = (0.1283791670955126, -0.37612638903183915, 0.1128379167096143, -0.02686617064626204, 0.00522397763669098, -0.0008548327703950113, 0.00012055359191159108, -1.492630148005365e-05, 1.6472323168693025e-06, -1.6458668531732844e-07, 1.5162993837150686e-08, -1.14411552913235e-09)  # fmt: skip # noqa: E501
ERFC = (1.2530080582697296, -0.13562110612458117, -0.047562294353444085, 0.1296451587027577, -0.11927366341560017, 0.06830802734421391, -0.023770514912900654, 0.0025293918093399967, 0.001888690298874904, -0.0007798321789851422, -0.00010515944485102251, 0.00012509864841481774, 4.948382395457811e-06, -2.0097580850183707e-05, -7.303626091393624e-07, 3.465793578549551e-06, 3.593338117377435e-07, -6.117010710425678e-07, -1.480607025585015e-07, 1.0793275940603864e-07, 4.122744843917742e-08, -2.251403769534888e-08)  # fmt: skip # noqa: E501


def _tail(a: Elements) -> Elements:
    """erfc(a) for a >= 0.79; 0 from 27.3 on. The square is exact, since its error counts a^2 times."""
    a = clamp(a, high=27.5)
    square = exact_product(a, a)
    bits, m = reduce_natural(-square.high, -square.low, 2 * BIAS)
    ratio = polynomial((a - 3.0) / (a + 3.0), ERFC) / fma(a, 2.0, 1.0)
    return scale(plus_one(m) * ratio, bits)


def erf(x: Elements) -> Elements:
    """1 minus the tail from 0.8 on."""
    a = abs(x)
    near = fma(x, polynomial(x * x, ERF), x)
    return select(a < NEAR, near, (1.0 - _tail(a)).copysign(x))


def erfc(x: Elements) -> Elements:
    """1 - x - x P(x^2) below 0.8, where the first difference is a pair; 2 minus the tail for negative x."""
    a = abs(x)
    rest = exact_sum(x.constant(1.0), -x)
    near = rest.high + (rest.low - x * polynomial(x * x, ERF))
    tail = _tail(a)
    return select(a < NEAR, near, select(x < 0.0, 2.0 - tail, tail))
