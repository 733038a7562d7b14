"""How far arrays are from others, of any size and where they are: what lies on a GPU is compared there."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from blu.compiler.jit import jit
from blu.dialects.tensor import arithmetic, folding
from blu.plan.tensors import NAMES
from blu.runtime.cuda.array import DeviceArray

PIECE = 1 << 22
"""Elements that are compared at a time."""
FLOATS = ("f64", "f32", "f16", "bf16")


def distance(one: Any, other: Any) -> float:
    """The norm of the difference of two arrays of a shape and dtype, relative to that of the second.

    Equal infinities are equal, and so are NaN. Of integers and booleans 0, or infinity where anything differs.
    """
    if NAMES[one.dtype] not in FLOATS:
        return 0.0 if np.array_equal(np.asarray(one), np.asarray(other)) else float("inf")
    squares, size = np.zeros(2), one.size
    for start in range(0, size, PIECE):
        pair = [_piece(item, start, min(PIECE, size - start)) for item in (one, other)]
        on_device = isinstance(one, DeviceArray) and size - start >= PIECE
        squares += _on_device(*pair) if on_device else _on_host(*map(np.asarray, pair))
    return float(np.sqrt(squares[0] / (squares[1] or 1.0)))


def _piece(array: Any, start: int, count: int) -> Any:
    """Elements of an array, in the order in which they lie, where they are."""
    if isinstance(array, DeviceArray):
        return DeviceArray(array.address + start * array.dtype.itemsize, (count,), array.dtype, array)
    return np.asarray(array).reshape(-1)[start : start + count]


def _on_host(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    a, b = (item.astype(np.float64) for item in (one, other))
    with np.errstate(invalid="ignore"):
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, a - b)
    return np.array([np.square(gap).sum(), np.square(b[np.isfinite(b)]).sum()])


def _on_device(one: DeviceArray, other: DeviceArray) -> np.ndarray:
    return np.array(
        [float(np.asarray(item)) for item in _squares("f64" if one.dtype == np.float64 else "f32")(one, other)]
    )


@cache
def _squares(dtype: str) -> Any:
    """The sums of the squares of what two pieces differ by, and of the second's finite elements, compiled once."""

    def squares(one: Any, other: Any) -> Any:
        a, b = one.astype(dtype), other.astype(dtype)
        gap = arithmetic.where((a == b) | (arithmetic.isnan(a) & arithmetic.isnan(b)), 0.0, a - b)
        size = arithmetic.where(arithmetic.isfinite(b), b, 0.0)
        return folding.sum(gap * gap), folding.sum(size * size)

    return jit(squares, target="cuda")
