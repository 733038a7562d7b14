"""Where the polynomial coefficients come from: `python -m tests.support.minimax` computes and prints them.

Each fit is a weighted least-squares fit at Chebyshev nodes in 60-digit arithmetic (mpmath), which is within a few per
cent of the minimax polynomial for these smooth functions. Coefficients are rounded to the working precision one after
the other, the lowest power first, and the rest is fitted again after each, so that rounding costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

Function = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """Approximate `target(x)` on [low, high] by a polynomial of `degree`; the error counts times `weight(x)`."""

    target: Function
    weight: Function
    low: float
    high: float
    degree: int
    dtype: type = np.float32

    def nodes(self, count: int) -> list[mp.mpf]:
        """Chebyshev nodes: none of them is an end of the interval, where a target may be 0/0."""
        middle, half = (mp.mpf(self.low) + self.high) / 2, (mp.mpf(self.high) - self.low) / 2
        return [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]

    def coefficients(self) -> list[float]:
        """Ascending coefficients, each a number of `dtype`."""
        nodes = self.nodes(4 * self.degree + 4)
        fixed: list[float] = []
        while len(fixed) <= self.degree:
            free = self._least_squares(nodes, fixed)
            fixed.append(float(self.dtype(free[0])))
        return fixed

    def _least_squares(self, nodes: list[mp.mpf], fixed: list[float]) -> mp.matrix:
        powers = range(len(fixed), self.degree + 1)
        weights = [self.weight(x) for x in nodes]
        rows = [[w * x**power for power in powers] for x, w in zip(nodes, weights, strict=True)]
        rest = [w * (self.target(x) - mp.polyval(fixed[::-1] or [0], x)) for x, w in zip(nodes, weights, strict=True)]
        return mp.lu_solve(mp.matrix(rows), mp.matrix(rest))

    def error(self, coefficients: list[float]) -> float:
        """The largest weighted error on a fine grid."""
        grid = self.nodes(401)
        return float(max(abs(self.weight(x) * (mp.polyval(coefficients[::-1], x) - self.target(x))) for x in grid))


def odd_tail(function: Function, z: mp.mpf) -> mp.mpf:
    """P in function(x) = x + x^3 P(x^2), at z = x^2."""
    x = mp.sqrt(z)
    return (function(x) - x) / x**3


def odd_weight(function: Function, z: mp.mpf) -> mp.mpf:
    """What makes an error of `odd_tail` a relative error of the function."""
    x = mp.sqrt(z)
    return x**3 / function(x)


def odd_fit(function: Function, high: float, degree: int, dtype: type = np.float32) -> Fit:
    """The fit of P in function(x) = x + x^3 P(x^2) for |x| <= high."""
    return Fit(lambda z: odd_tail(function, z), lambda z: odd_weight(function, z), 0.0, high * high, degree, dtype)


def atanh_tail(z: mp.mpf) -> mp.mpf:
    """P in 2 atanh(s) = 2 s + 2/3 s^3 + s^5 P(s^2), at z = s^2."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5


def scaled_erfc(t: mp.mpf, middle: int = 4) -> mp.mpf:
    """(1 + 2 a) exp(a^2) erfc(a) at t = (a - middle) / (a + middle): smooth on the whole half line."""
    a = middle * (1 + t) / (1 - t)
    return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a)


HALF_LN2 = 0.34658
HALF_OCTAVE = (0.70710 - 1, 1.41422 - 1)

FITS: dict[str, Fit] = {
    # The weight counts in ULP: exp(r) has a twice coarser one above 1.
    "EXP": Fit(lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2 / (1 if r < 0 else 2), -HALF_LN2, HALF_LN2, 4),
    "EXPM1": Fit(lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r), -HALF_LN2, HALF_LN2, 5),
    "EXP2": Fit(lambda r: (mp.mpf(2) ** r - 1) / r, lambda r: r / mp.mpf(2) ** r, -0.5, 0.5, 6),
    "EXP2_F64": Fit(lambda r: mp.mpf(2) ** r, lambda r: 1 / mp.mpf(2) ** r, -0.5, 0.5, 8, np.float64),
    "TANH": odd_fit(mp.tanh, 0.625, 4),
    "SINH": odd_fit(mp.sinh, 1.0, 3),
    "LOG": Fit(
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: f**3 / mp.log1p(f), *HALF_OCTAVE, 7
    ),
    "LOG2_F64": Fit(
        lambda f: mp.log1p(f) / f / mp.log(2), lambda f: f * mp.log(2) / mp.log1p(f), *HALF_OCTAVE, 13, np.float64
    ),
    "ERF": Fit(
        lambda z: (mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1), lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), 0.0, 0.85, 6
    ),
    "ERF_TAIL": Fit(lambda a: mp.log(mp.erfc(a)) / a + 1, lambda a: a * mp.erfc(a), 0.9, 3.93, 7),
    "ERFC_F64": Fit(scaled_erfc, lambda t: 1 / scaled_erfc(t), -1.0, 0.44, 14, np.float64),
    # Of halves, which are seldom read beyond 5.
    "LOG_ERFC": Fit(lambda a: mp.log(mp.erfc(a), 2) / a, lambda a: a * mp.exp(-a / 5), 0.0, 10.2, 9),
    "SIN": odd_fit(mp.sin, 0.7855, 3),
    "COS": Fit(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2 / mp.cos(mp.sqrt(z)), 0.0, 0.617, 2
    ),
    "TAN_F64": odd_fit(mp.tan, 0.7855, 9, np.float64),
    "ASIN": odd_fit(mp.asin, 0.5, 4),
    "ATAN": odd_fit(mp.atan, 1.0, 8),
}  # fmt: skip

# Those of passes/kernels/math/double.
DOUBLE_FITS: dict[str, Fit] = {
    "EXPM1": Fit(lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r), -HALF_LN2, HALF_LN2, 10, np.float64),
    "LOG": Fit(atanh_tail, lambda z: z**2 / 2, 0.0, 0.02945, 8, np.float64),
    "ERF": Fit(
        lambda z: (mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1), lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), 0.0, 0.65, 11,
        np.float64,
    ),
    "ERFC": Fit(lambda t: scaled_erfc(t, 3), lambda t: 1 / scaled_erfc(t, 3), -0.583, 0.804, 21, np.float64),
    "SIN": odd_fit(mp.sin, 0.7855, 6, np.float64),
    "COS": Fit(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2 / mp.cos(mp.sqrt(z)), 0.0, 0.617, 5,
        np.float64,
    ),
    "ASIN": odd_fit(mp.asin, 0.5, 12, np.float64),
    "ATAN": odd_fit(mp.atan, 0.1251, 7, np.float64),
}  # fmt: skip


def main() -> None:
    """Print every table as Python source, with its error in units of the last place."""
    mp.mp.dps = 60
    for fits, digits in ((FITS, 24), (DOUBLE_FITS, 53)):
        for name, fit in fits.items():
            found = fit.coefficients()
            error = fit.error(found) * 2.0**digits
            print(f"# {name}: max weighted error {error:.4f} * 2^-{digits} on [{fit.low}, {fit.high}]")
            print(f"{name} = ({', '.join(repr(value) for value in found)})")


if __name__ == "__main__":
    main()
