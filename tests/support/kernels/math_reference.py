"""What the math functions are compared with, and how errors are counted."""

from __future__ import annotations

import math

import numpy as np

# NumPy's in the precision of their operands, up to np.longdouble; the C library's in f64 for erf and erfc.
REFERENCES = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "powf": np.power,
    "cbrt": np.cbrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}
BINARY = ("atan2", "powf")


def ulp_errors(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|found - exact| in units of the last place of `exact` in the dtype of `found`; `exact` has a wider one.

    inf where just one of the two is NaN. Beyond the range of the dtype an infinity counts as the next power of two.
    """
    info, wide = np.finfo(found.dtype), exact.dtype.type
    limit = np.ldexp(wide(1), info.maxexp)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.maximum(np.abs(exact), wide(info.smallest_normal)))[1]
        error = np.abs(np.clip(found.astype(wide), -limit, limit) - np.clip(exact, -limit, limit))
        error = np.ldexp(error, info.nmant + 1 - np.minimum(exponent, info.maxexp)).astype(np.float64)
    return np.where(np.isnan(found) | np.isnan(exact), np.where(np.isnan(found) & np.isnan(exact), 0, np.inf), error)
