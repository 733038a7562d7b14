"""erf and erfc in f32."""

from __future__ import annotations

from blu.passes.kernels.math.elements import Elements, clamp, fma, polynomial, select
from blu.passes.kernels.math.exponential import LOG2_E, exp_of_moderate
from blu.passes.kernels.math.power import exp2_f64

NEAR = 0.92

ERF = (0.12837916612625122, -0.37612631916999817, 0.11283677816390991, -0.026858672499656677, 0.0051995934918522835, -0.0008129060734063387, 8.320440974785015e-05)  # fmt: skip # noqa: E501
ERF_TAIL = (-0.12855006754398346, -0.6356312036514282, -0.1052548810839653, 0.022669879719614983, -0.002930027898401022, 5.0454666052246466e-05, 4.523038296611048e-05, -4.894603989669122e-06)  # fmt: skip # noqa: E501
ERFC_F64 = (1.232995118625592, -0.13962111686638867, 0.015379652099630565, 0.06809705642842777, -0.10103906488500129, 0.09373278289449667, -0.06633042077810818, 0.03716802937825377, -0.01619690141312152, 0.0050298721231949745, -0.0007628655422333412, -0.00019759903531378834, 0.00016242938452333048, -1.7123874641042157e-05, -1.6046444513645414e-05)  # fmt: skip # noqa: E501
LOG_ERFC = (-1.628288745880127, -0.9157664179801941, -0.1550033539533615, 0.03629615157842636, -0.006418883800506592, 0.0008249679231084883, -7.393061241600662e-05, 4.350117251306074e-06, -1.5039636025449e-07, 2.3088282397054627e-09)  # fmt: skip # noqa: E501


def erf(x: Elements) -> Elements:
    """x + x P(x^2) below 0.92, else 1 - exp(-a + a Q(a)) with Q(a) = log(erfc(a)) / a + 1; 1 from 3.92 on.

    Both polynomials: tests/support/minimax.py. Writing the exponent as -a plus a smaller term saves half a bit.
    """
    a = abs(x)
    z = x * x
    near = fma(x, polynomial(z, ERF), x)
    b = clamp(a, high=3.93)
    far = 1.0 - exp_of_moderate(fma(b, polynomial(b, ERF_TAIL), -b))
    return select(a < NEAR, near, far.copysign(x))


def erfc(x: Elements) -> Elements:
    """exp(-a^2) R(t) / (1 + 2 a) with t = (a - 4) / (a + 4), 2 minus that for negative x, in f64.

    The exponential of a square loses all digits in f32; f64 costs two instructions for one and leaves one rounding
    error, in subnormal results as well. R: tests/support/minimax.py.
    """
    a = clamp(abs(x).to_f64(), high=10.2)
    t = (a - 4.0) / (a + 4.0)
    gauss = exp2_f64(a * a * -LOG2_E)
    result = gauss * polynomial(t, ERFC_F64) / fma(a, 2.0, 1.0)
    return select(x < 0.0, 2.0 - result, result).to_f32()
