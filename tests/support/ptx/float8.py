"""Conversions from and to two fp8 in 16 bits.

Source: PTX ISA, "cvt".
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

FLOAT8 = {"e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2}


def pair_of_float8(kind: str, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Two f32 as fp8 in 16 bits: to nearest even, the largest for what is beyond that, and a NaN of positive sign."""
    dtype, limits = FLOAT8[kind], ml_dtypes.finfo(FLOAT8[kind])
    codes = []
    for numbers in (low, high):
        inside = np.clip(numbers, float(limits.min), float(limits.max)).astype(dtype).view(np.uint8)
        codes.append(np.where(np.isnan(numbers), np.uint8(0x7F), inside).astype(np.uint16))
    return codes[0] | codes[1] << np.uint16(8)


def halves_of_float8(kind: str, pairs: np.ndarray) -> np.ndarray:
    """Two fp8 in 16 bits as two f16 in 32."""
    low, high = ((pairs >> np.uint16(shift)).astype(np.uint8).view(FLOAT8[kind]) for shift in (0, 8))
    low, high = (part.astype(np.float16).view(np.uint16).astype(np.uint32) for part in (low, high))
    return low | high << np.uint32(16)
