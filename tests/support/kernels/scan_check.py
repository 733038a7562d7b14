"""What running sums must be: of integers exactly, of floats within what roundings of partial sums come to."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from blu.dialects.core.dtypes import DType

# Half a unit in the last place, relative, of what is written.
_ROUNDING = {np.dtype(ml_dtypes.bfloat16): 2.0**-8, np.dtype(np.float16): 2.0**-11, np.dtype(np.float32): 2.0**-24}
# In which sums are carried.
_CARRIED = {8: 2.0**-53}


def numbers(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Numbers whose sums of any length are finite (integers wrap)."""
    rng = np.random.default_rng(sum(shape))
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
    return rng.standard_normal(shape).astype(dtype.numpy)


def check_running_sum(result: np.ndarray, values: np.ndarray, axis: int) -> None:
    """That `result` is the running sum of `values`, in their dtype.

    A sum of n terms that are added in parts is off by at most log2(n) and some roundings of its terms' magnitudes.
    """
    if values.dtype.kind in "iu":
        np.testing.assert_array_equal(result, np.cumsum(values, axis, dtype=values.dtype))
        return
    assert result.dtype == values.dtype
    wide = values.astype(np.float64)
    exact, magnitude = np.cumsum(wide, axis), np.cumsum(np.abs(wide), axis)
    carried = _CARRIED.get(values.dtype.itemsize, 2.0**-24)
    depth = 24 + values.shape[axis] / 64
    tolerance = _ROUNDING.get(values.dtype, carried) * np.abs(exact) * 1.001 + depth * carried * magnitude
    difference = np.abs(result.astype(np.float64) - exact)
    assert (difference <= tolerance).all(), f"off by up to {(difference / np.maximum(tolerance, 1e-300)).max()} bounds"
