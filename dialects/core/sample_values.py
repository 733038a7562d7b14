"""Numbers that ops are tested with."""

from __future__ import annotations

import numpy as np

from blu.dialects.core.dtypes import DType, bool_


def draw(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, low: float = -4.0, high: float = 4.0
) -> np.ndarray:
    """An array of `shape` in `dtype` with values in low..high (integers include both ends; bools are a coin toss)."""
    if dtype == bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        low = max(low, np.iinfo(dtype.numpy).min)
        return np.asarray(rng.integers(int(np.ceil(low)), int(high), shape, endpoint=True)).astype(dtype.numpy)
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype.numpy)
