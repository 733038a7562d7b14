"""Sums and the like of segments: of the rows that have the same number, as nodes' edges in a graph have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import DType, bool_, computing_dtype, f32, i64
from blu.dialects.tensor.arithmetic import maximum, where
from blu.dialects.tensor.arrangement import broadcast_to, reshape
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, converted, scalar_constant
from blu.dialects.tensor.tensor import Tensor
from blu.dialects.tensor.updating import with_rows
from blu.errors import ShapeError

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"]


@public
def segment_sum(x: Any, segments: Any, num_segments: int) -> Tensor:
    """The sums of the rows of x [N, ...] of each segment, [num_segments, ...]: row i is of segment `segments[i]`.

    `segments` are N whole numbers in any order; one outside of `num_segments` is an IndexError. An empty segment is 0.
    bools are counted as i64. ShapeError for numbers that are not one for each slice.
    """
    return _folded("segment_sum", _countable(x), segments, num_segments, "add", 0)


@public
def segment_prod(x: Any, segments: Any, num_segments: int) -> Tensor:
    """The products of the rows of each segment, as in `segment_sum`; an empty one is 1.

    ShapeError for numbers that are not one for each slice.
    """
    return _folded("segment_prod", _countable(x), segments, num_segments, "multiply", 1)


@public
def segment_mean(x: Any, segments: Any, num_segments: int) -> Tensor:
    """The means of the rows of each segment, as in `segment_sum`, of whole numbers as f32; an empty one is 0.

    ShapeError for numbers that are not one for each slice.
    """
    tensor = as_tensor(x)
    tensor = tensor if tensor.dtype.is_float else converted(tensor, f32)
    total = _folded("segment_mean", tensor, segments, num_segments, "add", 0)
    wide = computing_dtype(tensor.dtype)
    ones = broadcast_to(scalar_constant(1, wide), tensor.shape[:1])
    count = maximum(_folded("segment_mean", ones, segments, num_segments, "add", 0), 1)
    count = reshape(count, (num_segments, *(1 for _ in tensor.shape[1:])))
    return converted(converted(total, wide) / count, tensor.dtype)


@public
def segment_max(x: Any, segments: Any, num_segments: int) -> Tensor:
    """The largest elements of each segment's rows, as in `segment_sum`, NaN if one is; of none, the least of the dtype.

    That is -infinity of floats. ShapeError for numbers that are not one for each slice.
    """
    tensor = as_tensor(x)
    return _folded("segment_max", tensor, segments, num_segments, "max", _limits(tensor.dtype)[0])


@public
def segment_min(x: Any, segments: Any, num_segments: int) -> Tensor:
    """The least elements of each segment's rows, as in `segment_sum`, NaN if one is; of none, the largest of the dtype.

    That is infinity of floats. ShapeError for numbers that are not one for each slice.
    """
    tensor = as_tensor(x)
    return _folded("segment_min", tensor, segments, num_segments, "min", _limits(tensor.dtype)[1])


def _countable(x: Any) -> Tensor:
    tensor = as_tensor(x)
    return converted(tensor, i64) if tensor.dtype == bool_ else tensor


def _limits(dtype: DType) -> tuple[Any, Any]:
    """What no element of a dtype is below, and none above."""
    if dtype == bool_:
        return False, True
    if dtype.is_float:
        return -math.inf, math.inf
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _folded(name: str, x: Tensor, segments: Any, num_segments: int, how: str, empty: Any) -> Tensor:
    """The rows of x joined with their segment's, of which there are some that nothing joins."""
    found = as_indices(segments, num_segments)
    if x.ndim < 1 or found.shape != x.shape[:1]:
        message = f"{name}: there must be the number of a segment for each row of {x.type}, got {found.type}"
        raise ShapeError(message)
    found = where(found < 0, found + num_segments, found)
    whole = broadcast_to(scalar_constant(empty, x.dtype), (num_segments, *x.shape[1:]))
    return with_rows(whole, found, x, how)
