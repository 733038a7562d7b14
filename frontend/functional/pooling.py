"""Pooling with torch's names and arguments.

Data are [N, C, *spatial] as in torch, or [N, *spatial, C] where `channels_last` is given; N may be left out. How many
spatial dimensions there are is the name's last number. A number for what is said of each holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import computing_dtype, product
from blu.dialects.ops.convolution.convolution import Convolution
from blu.dialects.ops.convolution.pooling import MaxPool
from blu.dialects.ops.convolution.products import cut
from blu.dialects.tensor.arrangement import concatenate
from blu.dialects.tensor.folding import mean
from blu.dialects.tensor.promotion import constant, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError
from blu.frontend.functional.convolutions import (
    Sizes,
    from_channels_last,
    in_dimensions,
    per_dimension,
    to_channels_last,
    told_as,
)
from blu.frontend.functional.creation import full

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]


def _with_channels_last(x: Any, rank: int, channels_last: bool, function: Callable[[Tensor], Tensor]) -> Tensor:
    """The function of x as [N, *spatial, C], in the form of x."""
    (tensor,) = promoted_floats(x)
    return from_channels_last(function(to_channels_last(tensor, rank, channels_last)), rank, tensor, channels_last)


def _max_pool(
    rank: int,
    x: Any,
    window: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    channels_last: bool = False,
) -> Tensor:
    """The largest element of each window: [N, C, L] gives [N, C, count]; without a `stride`, windows lie side by side.

    With `ceil_mode`, a last window may reach beyond the end. The gradient goes to the first of equal elements.
    """
    places, apart = per_dimension("window", window, rank), per_dimension("dilation", dilation, rank)
    strides = places if stride is None else per_dimension("stride", stride, rank)
    around = per_dimension("padding", padding, rank)
    if any(2 * count > size for count, size in zip(around, places, strict=True)):
        raise ArgumentError(f"padding={padding!r} is more than half of the window {window!r}")

    def largest(tensor: Tensor) -> Tensor:
        along = zip(tensor.shape[1:-1], places, strides, around, apart, strict=True)
        high = tuple(_high(ceil_mode, *entry) for entry in along)
        return MaxPool(tensor, window=places, strides=strides, low=around, high=high, dilation=apart)

    return _with_channels_last(x, rank, channels_last, largest)


def _high(ceil_mode: bool, size: int, window: int, stride: int, padding: int, dilation: int) -> int:
    """How much is padded at the end: with `ceil_mode`, for a last window that begins before that."""
    left = size + 2 * padding - (window - 1) * dilation - 1
    count = -(-left // stride) if ceil_mode else left // stride
    if not ceil_mode or count * stride >= size + padding:
        return padding
    return padding + max(count * stride - left, 0)


max_pool1d, max_pool2d, max_pool3d = in_dimensions("max_pool", _max_pool)


def _avg_pool(
    rank: int,
    x: Any,
    window: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    count_include_pad: bool = True,
    *,
    ceil_mode: bool = False,
    divisor_override: float | None = None,
    channels_last: bool = False,
) -> Tensor:
    """The mean of each window: [N, C, L] gives [N, C, count]; without a `stride`, windows lie side by side.

    Zeros of the padding are counted, or only summed where `count_include_pad` is False. With `ceil_mode`, a last
    window may reach beyond the end, where nothing is counted. Sums are divided by `divisor_override` where it is given.
    """
    if divisor_override == 0:
        raise ArgumentError("divisor_override must not be zero")
    places = per_dimension("window", window, rank)
    strides = places if stride is None else per_dimension("stride", stride, rank)
    around = per_dimension("padding", padding, rank)

    def average(tensor: Tensor) -> Tensor:
        shape, channels, wide = tensor.shape[1:-1], tensor.shape[-1], computing_dtype(tensor.dtype)
        fills = places == strides and not any(around) and not any(map(int.__mod__, shape, places))
        if fills and divisor_override is None:
            return _average_side_by_side(tensor, places)
        along = zip(shape, places, strides, around, (1,) * rank, strict=True)
        with told_as(lambda: "avg_pool"):
            sums = Convolution(
                tensor.astype(wide),
                full((*places, 1, channels), 1, wide),
                strides=strides,
                low=around,
                high=tuple(_high(ceil_mode, *entry) for entry in along),
                dilation=(1,) * rank,
                spread=(1,) * rank,
                groups=max(channels, 1),
                precision="highest",
            )
        if divisor_override is not None:
            return (sums / divisor_override).astype(tensor.dtype)
        if not ceil_mode and (count_include_pad or not any(around)):
            return (sums / product(places)).astype(tensor.dtype)
        counted = around if count_include_pad else (0,) * rank
        numbers = _numbers_seen(shape, sums.shape[1:-1], places, strides, around, counted)
        return (sums / constant(numbers.astype(wide.numpy)[..., None])).astype(tensor.dtype)

    return _with_channels_last(x, rank, channels_last, average)


def _average_side_by_side(tensor: Tensor, places: tuple[int, ...]) -> Tensor:
    """The mean of windows of `places` that fill the operand."""
    split = [part for size, own in zip(tensor.shape[1:-1], places, strict=True) for part in (size // own, own)]
    windows = tensor.reshape((tensor.shape[0], *split, tensor.shape[-1]))
    return mean(windows, tuple(range(2, 2 * len(places) + 1, 2)))


def _numbers_seen(
    shape: tuple[int, ...],
    counts: tuple[int, ...],
    places: tuple[int, ...],
    strides: tuple[int, ...],
    around: tuple[int, ...],
    counted: tuple[int, ...],
) -> np.ndarray:
    """How many elements each window sees, with as many of the padding as are `counted` at each end: [*counts]."""
    numbers = np.ones((), np.int64)
    along = zip(shape, counts, places, strides, around, counted, strict=True)
    for size, count, window, stride, padding, beyond in along:
        starts = np.arange(count) * stride - padding
        own = np.minimum(starts + window, size + beyond) - np.maximum(starts, -beyond)
        numbers = np.multiply.outer(numbers, own)
    return numbers


avg_pool1d, avg_pool2d, avg_pool3d = in_dimensions("avg_pool", _avg_pool)


def _adaptive(x: Any, counts: Any, channels_last: bool, rank: int, fold: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Windows that cover x evenly, so many along each dimension (None: one for each element), one after the other."""
    given = counts if isinstance(counts, tuple | list) else (counts,) * rank

    def fit(tensor: Tensor) -> Tensor:
        # The last dimension first: of equals, the first in row-major order is chosen.
        for axis, size in reversed(list(enumerate(tensor.shape[1:-1], 1))):
            wanted = given[axis - 1] if len(given) == rank else None
            if len(given) != rank or not (wanted is None or (isinstance(wanted, int) and wanted > 0)):
                raise ArgumentError(
                    f"counts={counts!r} must be a positive number for each of {rank} dimensions, or None"
                )
            if wanted is not None and wanted != size:
                tensor = _folded(tensor, axis, wanted, fold)
        return tensor

    return _with_channels_last(x, rank, channels_last, fit)


def _folded(tensor: Tensor, axis: int, count: int, fold: Callable[[Tensor, int], Tensor]) -> Tensor:
    size = tensor.shape[axis]
    if size % count == 0:
        shape = (*tensor.shape[:axis], count, size // count, *tensor.shape[axis + 1 :])
        folded = fold(tensor.reshape(shape), axis + 1)
        return folded.reshape((*tensor.shape[:axis], count, *tensor.shape[axis + 1 :]))
    parts = []
    for place in range(count):
        start, limit = place * size // count, ceil((place + 1) * size / count)
        starts = [start if dim == axis else 0 for dim in range(tensor.ndim)]
        limits = [limit if dim == axis else length for dim, length in enumerate(tensor.shape)]
        parts.append(fold(cut(tensor, starts, limits), axis))
    return concatenate(parts, axis)


_mean = partial(mean, keepdims=True)


def _largest(tensor: Tensor, axis: int) -> Tensor:
    """The largest along an axis, of which the first of equals gets the gradient."""
    shape = tensor.shape
    before, after = product(shape[:axis]), product(shape[axis + 1 :])
    line = tensor.reshape((before, shape[axis], after))
    along = {"window": (shape[axis],), "strides": (shape[axis],), "low": (0,), "high": (0,), "dilation": (1,)}
    return MaxPool(line, **along).reshape((*shape[:axis], 1, *shape[axis + 1 :]))


def _adaptive_avg_pool(rank: int, x: Any, counts: Any, *, channels_last: bool = False) -> Tensor:
    """Means of `counts` windows that cover x evenly: [N, C, L] gives [N, C, count]. Window i is i * L // count to
    ceil((i + 1) * L / count); None leaves a dimension as it is."""
    return _adaptive(x, counts, channels_last, rank, _mean)


def _adaptive_max_pool(rank: int, x: Any, counts: Any, *, channels_last: bool = False) -> Tensor:
    """The largest elements of `counts` windows that cover x evenly, as those of `adaptive_avg_pool1d`."""
    return _adaptive(x, counts, channels_last, rank, _largest)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = in_dimensions("adaptive_avg_pool", _adaptive_avg_pool)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = in_dimensions("adaptive_max_pool", _adaptive_max_pool)
