"""Functions of numbers as PTX has them where NumPy's are others: how they are rounded, and what is out of range."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.support.ptx.program import SIGNED, UNSIGNED

_TINY = np.finfo(np.float32).tiny


def rounded_once(compute: Callable, name: str) -> Callable:
    """A function of words that hold one number of 16 bits, or two: computed in f64, rounded once."""
    dtype = ml_dtypes.bfloat16 if name.startswith("bf") else np.float16
    word = np.uint32 if name.endswith("x2") else np.uint16

    def computed(*words: np.ndarray) -> np.ndarray:
        numbers = (item.view(dtype).astype(np.float64) for item in words)
        return compute(*numbers).astype(dtype).view(word)

    return computed


def of_pairs(compute: Callable, name: str) -> Callable:
    """A function of words that hold two integers of 16 bits."""
    dtype = np.int16 if name == "s16x2" else np.uint16
    return lambda *words: compute(*(item.view(dtype) for item in words)).astype(dtype).view(np.uint32)


def flushing(compute: Callable) -> Callable:
    """With zeros in place of subnormal operands and results, as `.ftz` says."""
    return lambda value: _flushed(compute(_flushed(value)))


def _flushed(value: np.ndarray) -> np.ndarray:
    small = np.abs(value) < _TINY
    return np.where(small, np.copysign(np.zeros_like(value), value), value) if np.count_nonzero(small) else value


def into_range(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats that become integers of a dtype: the nearest end of its range outside of it, 0 for NaN."""
    ends = np.iinfo(dtype)
    inside = np.isfinite(value) & (value >= ends.min) & (value < float(ends.max) + 1)
    if np.count_nonzero(inside) == inside.size:
        return value.astype(dtype)
    whole = np.where(inside, value, 0).astype(dtype)
    outside = np.where(np.isnan(value), 0, np.where(value > 0, ends.max, ends.min)).astype(dtype)
    return np.where(inside, whole, outside)


def as_stored(value: np.ndarray, bits: int) -> np.ndarray:
    """What a register of so many bits holds of a number, which may be of any type of so many bits."""
    size, kind = value.dtype.itemsize * 8, value.dtype.kind
    if bits == 1 or (size == bits and kind in "uif"):
        return value
    if kind == "i" and size < bits:
        return value.astype(SIGNED[bits])  # signed numbers fill wider registers with their sign
    return value.view(UNSIGNED[size]).astype(UNSIGNED[bits])


def read_as(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """What is read as a dtype of a register that holds a value: its last bits, or all if there are no more."""
    size, held = dtype.itemsize, value.dtype.itemsize
    if held == size:
        return value.view(dtype)
    if held < size or dtype.kind == "b":
        return value
    return value.view(UNSIGNED[8 * held]).astype(UNSIGNED[8 * size]).view(dtype)


def high_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The upper halves of products of numbers of 64 bits."""
    if left.dtype == np.int64:
        bits, others = left.view(np.uint64), right.view(np.uint64)
        below = np.where(left < 0, others, 0) + np.where(right < 0, bits, 0)  # what two's complement has too much
        return (high_product(bits, others) - below.astype(np.uint64)).view(np.int64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    middle = (left >> half) * (right & low) + ((left & low) * (right & low) >> half)
    other = (left & low) * (right >> half) + (middle & low)
    return (left >> half) * (right >> half) + (middle >> half) + (other >> half)


def add_towards_zero(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The sum of two f32, whose f64 is exact enough: rounded towards zero."""
    exact = left.astype(np.float64) + right
    near = exact.astype(np.float32)
    return np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near)


def to_tf32(value: np.ndarray) -> np.ndarray:
    """Words of f32 to the nearest of 10 bits of fraction, halves away from zero: 13 of the 23 bits go."""
    return (value + np.uint32(0x1000)) & np.uint32(0xFFFFE000)


def to_even_tf32(value: np.ndarray) -> np.ndarray:
    """The same, halves to what is even; NaN as it is."""
    rounded = value + np.uint32(0xFFF) + ((value >> np.uint32(13)) & np.uint32(1))
    is_none = (value & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_none, value, rounded & np.uint32(0xFFFFE000))
