"""Numbers that are hard to put in order, and the order that they have."""

from __future__ import annotations

import numpy as np

from blu.dialects.core.dtypes import DType
from blu.dialects.ops.sorting import stable_order


def numbers(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Numbers with many equals over the dtype's range; floats with NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(sum(shape))
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        wide = rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
        extremes = rng.choice(np.array([limits.min, limits.max], dtype.numpy), shape)
        return np.where(rng.random(shape) < 0.5, wide, np.where(rng.random(shape) < 0.2, extremes, wide % 7))
    rounded = np.round(rng.standard_normal(shape) * 50)
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40], shape)
    return np.where(rng.random(shape) < 0.2, special, rounded).astype(dtype.numpy)


def order_of(values: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The reference's order, in a dtype in which NumPy knows where NaN belongs."""
    return stable_order(values if values.dtype.kind in "iu" else values.astype(np.float64), axis, descending)
