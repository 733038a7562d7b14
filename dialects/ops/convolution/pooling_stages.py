"""Large windows of `max_pool` in stages, each of which looks at few places: one dimension after the other, and of long
dimensions what is largest in parts of windows.

Of equals the first in row-major order is chosen: in rows first, and then of rows; in parts first, and then of parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import computing_dtype
from blu.dialects.ops.convolution.pooling_gradient import LOWEST, WINDOWS, MaxPoolGradient, MaxPoolPlace
from blu.dialects.ops.convolution.products import cut, padded, zeros
from blu.dialects.ops.convolution.windows import Dimension
from blu.dialects.ops.creation import Constant
from blu.dialects.ops.indexing import ScatterAdd, Take
from blu.dialects.tensor.tensor import Tensor

_LONG = 32
"""Places along one dimension from which on windows are looked at in parts."""


def stages_of(dim: Dimension) -> list[Dimension]:
    """Windows that one after the other see what a window does: parts of it, as many as cover it, and two of those that
    overlap where its places are not a whole number of parts."""
    if dim.window <= _LONG:
        return [dim]
    length = math.isqrt(dim.window - 1) + 1
    count = dim.window // length
    rest = dim.window - count * length
    sizes = [(length, 1), (count, length), *([(2, rest)] if rest else [])]
    found: list[Dimension] = []
    for number, (window, apart) in enumerate(sizes):
        before = found[-1].count if found else dim.size
        stride, own = dim.stride if number == len(sizes) - 1 else 1, {} if number == 0 else {"low": 0, "high": 0}
        stage = replace(dim, size=before, window=window, stride=stride, dilation=apart * dim.dilation, **own)
        found.append(stage)
    return found


def largest_along(tensor: Tensor, axis: int, dim: Dimension) -> Tensor:
    """The largest of the places of windows along one axis."""
    low, high = ([count if at == axis else 0 for at in range(tensor.ndim)] for count in (dim.low, dim.high))
    seen = padded(tensor, low, high, LOWEST)
    result = None
    for place in range(dim.window):
        starts = [place * dim.dilation if at == axis else 0 for at in range(seen.ndim)]
        ends = place * dim.dilation + (dim.count - 1) * dim.stride + 1
        limits = [ends if at == axis else size for at, size in enumerate(seen.shape)]
        view = cut(seen, starts, limits, [dim.stride if at == axis else 1 for at in range(seen.ndim)])
        result = view if result is None else result.maximum(view)
    assert result is not None
    return result


def gradient_in_stages(g: Tensor, operand: Tensor, dims: Sequence[Dimension]) -> Tensor:
    """Each element of g added to the first of the largest in its window. Sums are in f32 at least, rounded once."""
    value, back = operand, []
    for axis in range(len(dims), 0, -1):
        dim = whole = dims[axis - 1]
        if dim.window > _LONG and (dim.low or dim.high):
            # A part of a window may lie in the padding, where others do not: there are copies of elements.
            value, dim = _with_edges(value, axis, whole), replace(whole, size=whole.padded, low=0, high=0)
            back.append(partial(_to_edges, axis=axis, dim=whole))
        for stage in stages_of(dim):
            back.append(partial(_to_largest, seen=value, axis=axis, dim=stage))
            value = largest_along(value, axis, stage)
        if dim is not whole:
            back.append(partial(_where_inside, axis=axis, dim=whole))
    share = g.astype(computing_dtype(g.dtype))
    for step in reversed(back):
        share = step(share)
    return share.astype(g.dtype)


def _to_largest(g: Tensor, seen: Tensor, axis: int, dim: Dimension) -> Tensor:
    """Gradients of what is largest along one axis, at what was seen."""
    rank = seen.ndim - 2
    plain = {"window": 1, "strides": 1, "low": 0, "high": 0, "dilation": 1}
    own = dict(zip(WINDOWS, (dim.window, dim.stride, dim.low, dim.high, dim.dilation), strict=True))
    along: dict[str, Any] = {
        name: tuple(own[name] if at == axis else plain[name] for at in range(1, rank + 1)) for name in WINDOWS
    }
    return MaxPoolGradient(g, MaxPoolPlace(seen, **along), sizes=seen.shape[1:-1], **along)


def _edges(dim: Dimension) -> np.ndarray:
    """For the elements and the padding around them which element stands there: of padding, the nearest that the same
    windows see, if they see any."""
    places = np.arange(-dim.low, dim.size + dim.high)
    after = dim.size - 1 - (dim.size - 1 - places) % dim.dilation
    nearest = np.where(places < 0, places % dim.dilation, np.where(places < dim.size, places, after))
    return np.clip(nearest, 0, dim.size - 1)


def _with_edges(tensor: Tensor, axis: int, dim: Dimension) -> Tensor:
    """Elements along an axis, with copies of those at its ends in place of the padding."""
    return Take(tensor, Constant(value=_edges(dim)), axis=axis)


def _to_edges(g: Tensor, axis: int, dim: Dimension) -> Tensor:
    """Gradients of copies added to those of the elements that they are of."""
    shape = [dim.size if at == axis else size for at, size in enumerate(g.shape)]
    return ScatterAdd(zeros(shape, g.dtype), Constant(value=_edges(dim)), g, axis=axis)


def _where_inside(g: Tensor, axis: int, dim: Dimension) -> Tensor:
    """Gradients of windows that see an element, and not the padding alone."""
    seen = np.arange(dim.count)[:, None] * dim.stride + np.arange(dim.window) * dim.dilation - dim.low
    is_inside = ((seen >= 0) & (seen < dim.size)).any(axis=1)
    if is_inside.all():
        return g
    flags = Constant(value=is_inside).reshape([dim.count if at == axis else 1 for at in range(g.ndim)])
    return flags.where(g, 0)
