"""Images, and data of one or three dimensions, in other sizes: torch's `interpolate`, `unfold` and `fold`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from blu.dialects.ops.convolution.products import cut, padded
from blu.dialects.tensor.arrangement import as_shape, moveaxis, stack
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import constant, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.convolutions import Sizes, per_dimension
from blu.frontend.functional.creation import full
from blu.frontend.functional.indexing import take
from blu.frontend.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = ["fold", "interpolate", "unfold"]

AREAS = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
MODES = ("nearest", "nearest-exact", *LINEAR, "bicubic", "area")
RANKS = {**LINEAR, "bicubic": 2}
CUBIC = -0.75  # the slope of the weights at a distance of 1, as images have it


@public
def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    *,
    channels_last: bool = False,
) -> Tensor:
    """x [N, C, *spatial] in another size: `size`, or floor(its own * `scale_factor`), a number or one per dimension.

    `mode` is "nearest" (or "nearest-exact", by the middle of elements), "area" (means of what an element covers), or
    "linear", "bilinear" or "bicubic", "trilinear" by the number of dimensions. Elements are taken to be in the middle
    of theirs, or the first and last ones of both to be in one place where `align_corners`. With `channels_last`, x and
    the result are [N, *spatial, C]. ArgumentError for a mode that does not fit the dimensions, or unless either a size
    or a scale is given; ShapeError where nothing is left.
    """
    (tensor,) = promoted_floats(x)
    rank = tensor.ndim - 2
    if rank < 1 or mode not in MODES or RANKS.get(mode, rank) != rank or (mode == "area" and rank > 3):
        raise ArgumentError(f"mode={mode!r} does not fit {tensor.type}: one of nearest, nearest-exact, area, "
                            "linear (of 3 dimensions), bilinear and bicubic (of 4), trilinear (of 5)")  # fmt: skip
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate takes a size or a scale_factor, and not both")
    first = 1 if channels_last else 2
    own = tensor.shape[first : first + rank]
    factors = list(scale_factor) if isinstance(scale_factor, tuple | list) else [scale_factor] * rank
    sizes = per_dimension("size", size, rank) if size is not None else as_shape(map(_scaled, own, factors))
    for axis, (count, wanted, factor) in enumerate(zip(own, sizes, factors, strict=True), first):
        if min(count, wanted) < 1:
            raise ShapeError(f"{tensor.type} cannot be resized to {list(sizes)}: all sizes must be at least 1")
        if mode != "area":
            step = count / wanted if factor is None else 1 / factor
            tensor = _resized(tensor, axis, wanted, step, mode, align_corners)
    return AREAS[rank](tensor, sizes, channels_last=channels_last) if mode == "area" else tensor


def _scaled(size: int, factor: float) -> int:
    return int(np.floor(size * factor))


def _resized(tensor: Tensor, axis: int, wanted: int, step: float, mode: str, align_corners: bool) -> Tensor:
    """The tensor with `wanted` elements along an axis, one for each `step` of its own."""
    if mode == "bicubic":
        return _among_four(tensor, axis, wanted, step, align_corners)
    if mode not in ("nearest", "nearest-exact"):
        return _between(tensor, axis, wanted, step, align_corners)
    middle = 0.5 if mode == "nearest-exact" else 0.0
    places = np.floor((np.arange(wanted) + middle) * step)
    return take(tensor, np.minimum(places, tensor.shape[axis] - 1).astype(np.int64), axis)


def _places(count: int, wanted: int, step: float, align_corners: bool) -> np.ndarray:
    """Where the elements that are wanted lie among `count`."""
    numbers = np.arange(wanted)
    if align_corners:
        return numbers * ((count - 1) / max(wanted - 1, 1))
    return (numbers + 0.5) * step - 0.5


def _among_four(tensor: Tensor, axis: int, wanted: int, step: float, align_corners: bool) -> Tensor:
    """Weighted sums of the four elements around each place (Keys, 1981); beyond the ends are the last ones again."""
    count = tensor.shape[axis]
    places = _places(count, wanted, step, align_corners)
    shape = [wanted if dim == axis else 1 for dim in range(tensor.ndim)]
    first, total = np.floor(places), None
    for neighbour in (-1, 0, 1, 2):
        weights = _cubic(np.abs(places - first - neighbour)).reshape(shape)
        taken = take(tensor, np.clip(first + neighbour, 0, count - 1).astype(np.int64), axis)
        part = taken * constant(weights.astype(tensor.dtype.numpy))
        total = part if total is None else total + part
    assert total is not None
    return total


def _cubic(distance: np.ndarray) -> np.ndarray:
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance**2 + 1
    far = ((CUBIC * distance - 5 * CUBIC) * distance + 8 * CUBIC) * distance - 4 * CUBIC
    return np.where(distance <= 1, near, far)


def _between(tensor: Tensor, axis: int, wanted: int, step: float, align_corners: bool) -> Tensor:
    """Weighted means of neighbours along an axis."""
    count = tensor.shape[axis]
    places = np.maximum(_places(count, wanted, step, align_corners), 0)
    before = np.minimum(np.floor(places), count - 1).astype(np.int64)
    after = np.minimum(before + 1, count - 1)
    shape = [wanted if dim == axis else 1 for dim in range(tensor.ndim)]
    share = constant((places - before).reshape(shape).astype(tensor.dtype.numpy))
    return take(tensor, before, axis) * (1 - share) + take(tensor, after, axis) * share


@public
def unfold(x: Any, window: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """What windows see of x [N, C, *spatial], as columns: [N, C * places of a window, windows].

    ShapeError for an x of other dimensions, or a window that does not fit.
    """
    (tensor,) = promoted_floats(x)
    rank = tensor.ndim - 2
    if rank < 1:
        raise ShapeError(f"x must be [N, C, *spatial], got {tensor.type}")
    names = {"window": window, "dilation": dilation, "padding": padding, "stride": stride}
    places, apart, around, strides = (per_dimension(name, value, rank) for name, value in names.items())
    seen = padded(tensor, [0, 0, *around], [0, 0, *around])
    reach = [(size - 1) * step + 1 for size, step in zip(places, apart, strict=True)]
    if any(map(operator.gt, reach, seen.shape[2:])):
        raise ShapeError(f"a window reaches over {reach} elements of {seen.type}, x with its padding")
    counts = [(size - own) // step + 1 for size, own, step in zip(seen.shape[2:], reach, strides, strict=True)]
    views = []
    for place in np.ndindex(*places):
        starts, limits = _seen_at(place, apart, counts, strides)
        views.append(cut(seen, [0, 0, *starts], [*seen.shape[:2], *limits], [1, 1, *strides]))
    columns = moveaxis(stack(views), 0, 2)
    return columns.reshape((tensor.shape[0], tensor.shape[1] * len(views), int(np.prod(counts))))


def _seen_at(
    place: tuple[int, ...], apart: Sequence[int], counts: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Where the elements at a place of all windows begin and end."""
    starts = [int(at) * step for at, step in zip(place, apart, strict=True)]
    return starts, [start + (n - 1) * step + 1 for start, n, step in zip(starts, counts, strides, strict=True)]


@public
def fold(x: Any, size: Sizes, window: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """The sums of what windows see of each element, where x [N, C * places of a window, windows] is as `unfold`'s.

    The result is [N, C, *size]; `size` has a number for each spatial dimension. It is the gradient of `unfold`.
    ShapeError for an x that is not what these make of such a size.
    """
    (tensor,) = promoted_floats(x)
    wanted = size if isinstance(size, tuple | list) else (size,)
    rank = len(wanted)
    names = {"size": size, "window": window, "dilation": dilation, "padding": padding, "stride": stride}
    sizes, places, apart, around, strides = (per_dimension(name, value, rank) for name, value in names.items())
    whole = [own + 2 * more for own, more in zip(sizes, around, strict=True)]
    left = [own - (count - 1) * step - 1 for own, count, step in zip(whole, places, apart, strict=True)]
    counts, views = [rest // step + 1 for rest, step in zip(left, strides, strict=True)], int(np.prod(places))
    if min(left) < 0 or tensor.ndim != 3 or tensor.shape[1] % views or tensor.shape[2] != np.prod(counts):
        rows = f"[N, C * {views}, {max(int(np.prod(counts)), 0)}]"
        raise ShapeError(f"fold: x must be {rows} for size={size!r} and window={window!r}, got {tensor.type}")
    columns = tensor.reshape((tensor.shape[0], tensor.shape[1] // views, views, *counts))
    total = full((*columns.shape[:2], *whole), 0, tensor.dtype)
    for number, place in enumerate(np.ndindex(*places)):
        starts, limits = _seen_at(place, apart, counts, strides)
        key = (..., *map(slice, starts, limits, strides))
        total = total.at[key].add(columns[:, :, number])
    inner = [more + own for own, more in zip(sizes, around, strict=True)]
    return cut(total, [0, 0, *around], [*total.shape[:2], *inner])
