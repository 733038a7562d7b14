"""NumPy meanings of elementwise ops that NumPy itself lacks, or states otherwise than Blu does."""

from __future__ import annotations

import math

import numpy as np

from blu.dialects.core.dtypes import DType, bool_


def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0)."""
    return np.maximum(x, np.zeros((), x.dtype))


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, by the C library."""
    return _by_element(math.erf, x)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x) without cancellation, by the C library."""
    return _by_element(math.erfc, x)


def _by_element(function, x: np.ndarray) -> np.ndarray:
    flat = [function(float(item)) for item in x.ravel()]
    return np.array(flat, np.float64).reshape(x.shape).astype(x.dtype)


def floor_divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NumPy's floor_divide; its warnings are left to the run-time check."""
    with np.errstate(all="ignore"):
        return np.floor_divide(x, y)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NumPy's remainder; its warnings are left to the run-time check."""
    with np.errstate(all="ignore"):
        return np.remainder(x, y)


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x to the power y."""
    return np.power(x, y)


def convert(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Saturating where a float does not fit an integer; NaN gives 0."""
    if x.dtype.kind not in "fV" or not dtype.is_integer:
        return np.not_equal(x, 0) if dtype == bool_ else x.astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    low, high = wide <= limits.min, wide >= limits.max
    inside = np.where(low | high, 0.0, wide).astype(dtype.numpy)
    return np.where(low, limits.min, np.where(high, limits.max, inside)).astype(dtype.numpy)
