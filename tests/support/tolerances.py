"""How far a result may be from the reference: one table for all ops, in units of the dtype's epsilon.

Floats are compared with a reference that is computed in f64 and rounded once. A result of an elementwise op may differ
by `units` times epsilon relative to the element (and by as many of the smallest numbers near zero). Ops that add many
terms have errors relative to the terms, not to the sum: theirs are relative to the largest element of the result or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """`units` of epsilon, relative to each element, or where `of_terms` to the largest element or 1.

    Results of 16 bits may be `halves` units from the reference, if that is fewer.
    """

    units: float
    of_terms: bool = False
    halves: float = inf


EXACT = Tolerance(0)
CORRECTLY_ROUNDED = Tolerance(0.5)
ELEMENTARY = Tolerance(4)
COMPOSED = Tolerance(4, of_terms=True, halves=0.6)
# Of many numbers, some lie next to ties of 16 bits.
RUNNING_LOGARITHM = Tolerance(4, of_terms=True, halves=1)
# Half a unit for each factor, of up to 33 in its samples; what is written in 16 bits is rounded once.
RUNNING_PRODUCT = Tolerance(16.5, halves=0.6)
# It computes the scores again, and differences of sums of their products.
GRADIENT_OF_COMPOSED = Tolerance(16, of_terms=True)
# LAPACK's backward errors, of matrices whose condition is below ten.
FACTORED = Tolerance(16, of_terms=True)

_EXACT = """
    negative absolute sign floor ceil trunc round relu isnan isinf isfinite logical_not invert maximum minimum clip
    equal not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift
    copysign where convert reduce_precision nearest_byte constant iota max min any all argmax argmin reshape transpose
    broadcast_to slice pad concatenate reverse take take_along_axis dynamic_slice dynamic_update_slice one_hot sort
    argsort cummax cummin arg_top_k top_k random_bits barrier refused_gradient stop_gradient max_pool row_windows
"""
_ROUNDED = "add subtract multiply divide square sqrt reciprocal"
_COMPOSED = """
    sum prod cumsum recurrence matmul einsum contract scatter_add softmax log_softmax layer_norm rms_norm standardize
    attention attention_piece cross_entropy settle_rows gelu silu convolution
"""
_FACTORED = """
    inverse solve determinant cofactors slogdet cholesky qr svd singular_values eigh eigenvalues pseudo_inverse
    fourier real_fourier inverse_real_fourier complex_inverse complex_solve complex_slogdet complex_cholesky
    complex_qr complex_svd complex_eigh complex_eig
"""
TOLERANCES = (
    dict.fromkeys(_EXACT.split(), EXACT)
    | dict.fromkeys(_ROUNDED.split(), CORRECTLY_ROUNDED)
    | dict.fromkeys(_COMPOSED.split(), COMPOSED)
    | dict.fromkeys(_FACTORED.split(), FACTORED)
    | {"attention_gradient": GRADIENT_OF_COMPOSED, "cumprod": RUNNING_PRODUCT, "logcumsumexp": RUNNING_LOGARITHM}
)

# Where NumPy itself leaves the sign of a zero open, it is not compared.
ANY_ZERO = frozenset({"maximum", "minimum", "clip", "max", "min", "max_pool", "cummax", "cummin"})


def assert_close(name: str, found: np.ndarray, expected: np.ndarray, which: str = "") -> None:
    """Compare a result of the op `name` with its reference; `which` says in messages which one it is."""
    what = f"{name} {which}"
    assert found.shape == expected.shape, f"{what}: shape {found.shape} instead of {expected.shape}"
    assert found.dtype == expected.dtype, f"{what}: dtype {found.dtype} instead of {expected.dtype}"
    if not _is_float(expected.dtype):
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    wrong = _wrong(name, found.astype(np.float64), expected.astype(np.float64), expected.dtype)
    if wrong.any():
        place = tuple(int(item) for item in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{what} ({expected.dtype}): {int(wrong.sum())} of {wrong.size} elements are wrong; at {place} "
            f"{found[place]!r} instead of {expected[place]!r}, tolerance {TOLERANCES.get(name, ELEMENTARY)}"
        )


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind in "fV"


def _wrong(name: str, found: np.ndarray, expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Which elements are too far from the expected ones, both given in f64; they were computed in `dtype`."""
    info = ml_dtypes.finfo(dtype)
    tolerance = TOLERANCES.get(name, ELEMENTARY)
    finite = np.isfinite(expected)
    size = np.abs(np.where(finite, expected, 0))
    size = np.maximum(size.max(initial=0.0), 1.0) if tolerance.of_terms else size
    units = min(tolerance.units, tolerance.halves) if info.bits == 16 else tolerance.units
    limit = units * (float(info.eps) * size + float(info.smallest_subnormal))
    with np.errstate(invalid="ignore"):
        wrong = np.where(finite, np.abs(found - expected) > limit, ~_same_special(found, expected))
    wrong |= finite & ~np.isfinite(found)
    if name not in ANY_ZERO and not tolerance.of_terms:
        wrong |= (expected == 0) & (found == 0) & (np.signbit(found) != np.signbit(expected))
    return wrong


def _same_special(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Whether both are NaN, or the same infinity."""
    return (np.isnan(found) & np.isnan(expected)) | (found == expected)
