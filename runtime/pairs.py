"""Arrays of complex numbers as programs have them: of their parts, side by side, in the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.runtime.array import Array, is_on_device


def as_parts(value: Any, dtype: np.dtype) -> Array | np.ndarray:
    """The parts, of this dtype, of an array of complex numbers, side by side in a last dimension, where it is.

    Nothing is copied of numbers in order. An array whose parts are donated is to be told by `give_away_whole`.
    """
    if is_on_device(value):
        from blu.runtime.cuda.array import DeviceArray, from_device

        found = value if isinstance(value, DeviceArray) else from_device(value)
        return DeviceArray(found.address, (*found.shape, 2), dtype, found.owner)
    is_ours = isinstance(value, Array) and not value.is_shared
    given = value.in_host_memory() if is_ours else value
    whole = np.ascontiguousarray(given, np.result_type(dtype, np.complex64))
    parts = whole.reshape(-1).view(dtype).reshape(*np.shape(value), 2)
    return Array(parts, is_shared=False) if is_ours else parts


def as_whole(parts: Array) -> Array:
    """The array of complex numbers that has these parts, in the same memory."""
    dtype = np.result_type(parts.dtype, np.complex64)
    if is_on_device(parts):
        from blu.runtime.cuda.array import DeviceArray

        return DeviceArray(parts.address, parts.shape[:-1], dtype, parts.owner)
    found = parts.in_host_memory()
    return Array(found.reshape(-1).view(dtype).reshape(found.shape[:-1]), is_shared=parts.is_shared)


def give_away_whole(whole: Any, parts: Any) -> None:
    """Let an array be gone where its parts have been given away."""
    if isinstance(whole, Array) and isinstance(parts, Array) and parts.is_donated and not whole.is_donated:
        whole.give_away(parts.taker)
