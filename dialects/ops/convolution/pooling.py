"""The largest elements of windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blu.dialects.batching import folded
from blu.dialects.core.dtypes import FLOATS, TensorType, f32, f64, i32, i64
from blu.dialects.core.op import ErrorSample, Ints, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.convolution.pooling_gradient import (
    LOWEST,
    MaxPoolGradient,
    MaxPoolPlace,
    dimensions_of,
    infer_max_pool,
    padding_of,
    seen_from,
)
from blu.dialects.ops.convolution.pooling_stages import gradient_in_stages, largest_along, stages_of
from blu.dialects.ops.convolution.products import cut, padded
from blu.dialects.ops.convolution.windows import Dimension
from blu.dialects.ops.creation import Iota
from blu.dialects.ops.reduction import Argmax, Max
from blu.dialects.tensor.tensor import Tensor

_MOST_PLACES = 32
"""Places of a window that one loop reads, as instructions one after the other."""


class MaxPool(Op, name="max_pool"):
    """The largest element of each window over [N, *spatial, C]: [N, *counts, C]; NaN where there is one.

    Per spatial dimension: windows of `window` places begin `strides` apart, places are `dilation` apart, and `low` and
    `high` places around the operand are never chosen. The gradient goes to the first of equals in row-major order.
    """

    batch = staticmethod(folded("operand"))

    operand: Operand
    window: Ints
    strides: Ints
    low: Ints
    high: Ints
    dilation: Ints

    @staticmethod
    def reference(operand: np.ndarray, **along: Any) -> np.ndarray:
        dims = dimensions_of(operand.shape[1:-1], along)
        seen = np.pad(operand, padding_of(dims), constant_values=LOWEST)
        return np.max([seen[seen_from(dims, place)] for place in np.ndindex(*along["window"])], axis=0)

    infer = staticmethod(infer_max_pool)

    @staticmethod
    def decompose(operand: Tensor, **along: Any) -> Tensor:
        """One dimension after the other; windows that lie side by side are dimensions of their own."""
        dims = dimensions_of(operand.shape[1:-1], along)
        for axis, dim in enumerate(dims, 1):
            if _is_apart(dim):
                operand = _side_by_side(operand, axis, dim)
                continue
            for stage in stages_of(dim):
                operand = largest_along(operand, axis, stage)
        return operand

    @staticmethod
    def stays_whole(**along: Any) -> bool:
        """Whether windows overlap, and are small: then padded copies would be most of what is read and written."""
        are_apart = along["window"] == along["strides"] and not any((*along["low"], *along["high"]))
        return not are_apart and int(np.prod(along["window"])) <= _MOST_PLACES

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, **along: Any) -> Tensor:
        dims = dimensions_of(operand.shape[1:-1], along)
        if all(map(_is_apart, dims)):
            return _gradient_side_by_side(g, operand, dims)
        if _count(dims) > _MOST_PLACES and operand.size and g.size:
            return gradient_in_stages(g, operand, dims)
        place = MaxPoolPlace(operand, **along)
        return MaxPoolGradient(g, place, sizes=operand.shape[1:-1], **along)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in FLOATS:
            for shape, window, strides, low, high, dilation in _CASES if dtype in (f32, f64) else _CASES[:2]:
                attributes = {"window": window, "strides": strides, "low": low, "high": high, "dilation": dilation}
                yield Sample((draw(rng, shape, dtype),), attributes)
        found = np.array([[1, np.nan, 2, -np.inf, -0.0, 0.0]], np.float32).reshape((1, 6, 1))
        yield Sample((found,), {"window": (2,), "strides": (1,), "low": (0,), "high": (0,), "dilation": (1,)})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        plain = {"window": (3,), "strides": (1,), "low": (0,), "high": (0,), "dilation": (1,)}
        operand = TensorType((1, 5, 2), f32)
        yield ErrorSample((operand,), plain | {"dilation": (3,)}, "reaches over 7 elements of spatial dimension 0")
        yield ErrorSample((operand,), plain | {"window": (3, 3)}, "one number per spatial dimension")
        yield ErrorSample((operand,), plain | {"strides": (0,)}, "strides must be at least 1")
        yield ErrorSample((operand,), plain | {"low": (-1,)}, "low must be at least 0")
        yield ErrorSample((operand.with_dtype(i32),), plain, "does not take i32")


def _is_apart(dim: Dimension) -> bool:
    """Whether windows touch each other, and nothing else: no element is in two of them."""
    return dim.dilation == 1 and dim.window == dim.stride and not dim.low and not dim.high


def _side_by_side(tensor: Tensor, axis: int, dim: Dimension) -> Tensor:
    return Max(_windows(tensor, axis, dim), axes=(axis + 1,), keepdims=False)


def _windows(tensor: Tensor, axis: int, dim: Dimension) -> Tensor:
    """The dimension as [count, window]."""
    limits = [dim.count * dim.window if place == axis else size for place, size in enumerate(tensor.shape)]
    whole = cut(tensor, [0] * tensor.ndim, limits)
    return whole.reshape((*whole.shape[:axis], dim.count, dim.window, *whole.shape[axis + 1 :]))


def _gradient_side_by_side(g: Tensor, operand: Tensor, dims: list[Dimension]) -> Tensor:
    """Each window as a row, in which one number is g's."""
    rank = len(dims)
    split = operand
    for axis, dim in reversed(list(enumerate(dims, 1))):
        split = _windows(split, axis, dim)
    counts, places = [1 + 2 * axis for axis in range(rank)], [2 + 2 * axis for axis in range(rank)]
    order = [0, *counts, 2 * rank + 1, *places]
    turned = split.transpose(order)
    rows = turned.reshape((*g.shape, _count(dims)))
    chosen = Argmax(rows, axis=g.ndim, keepdims=True)
    is_chosen = Iota(shape=(_count(dims),), axis=0, dtype=i64) == chosen
    shares = is_chosen.where(g.reshape((*g.shape, 1)), 0).reshape(turned.shape)
    inverse = [order.index(dim) for dim in range(len(order))]
    shape = (operand.shape[0], *(dim.count * dim.window for dim in dims), operand.shape[-1])
    back = shares.transpose(inverse).reshape(shape)
    return padded(back, [0] * back.ndim, [size - own for size, own in zip(operand.shape, shape, strict=True)])


def _count(dims: list[Dimension]) -> int:
    """How many places a window has."""
    return int(np.prod([dim.window for dim in dims]))


# Shape of the operand, window, strides, low, high, dilation.
_CASES = [
    ((2, 7, 3), (3,), (2,), (1,), (1,), (1,)),
    ((1, 4, 6, 2), (2, 3), (2, 3), (0, 0), (0, 0), (1, 1)),
    ((2, 5, 1), (2,), (2,), (0,), (0,), (1,)),
    ((1, 4, 5, 2), (2, 2), (1, 2), (0, 1), (1, 0), (1, 1)),
    ((1, 6, 2), (2,), (3,), (0,), (0,), (2,)),
    ((0, 4, 2), (2,), (2,), (0,), (0,), (1,)),
    ((3, 2), (), (), (), (), ()),
]
