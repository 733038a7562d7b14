"""Images, and data of one or three dimensions, in other sizes: torch's `interpolate`, and `unfold`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from blu.dialects.ops.convolution.products import cut, padded
from blu.dialects.tensor.arrangement import as_shape, moveaxis, stack
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import constant, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.convolutions import Sizes, per_dimension
from blu.frontend.functional.indexing import take

__all__ = ["interpolate", "unfold"]

LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
MODES = ("nearest", *LINEAR)


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

    `mode` is "nearest", or "linear", "bilinear", "trilinear" by the number of dimensions. Elements are taken to be in
    the middle of theirs, or the first and last ones of both to be in one place where `align_corners`. With
    `channels_last`, x and the result are [N, *spatial, C].
    """
    (tensor,) = promoted_floats(x)
    rank = tensor.ndim - 2
    if rank < 1 or mode not in MODES or LINEAR.get(mode, rank) != rank:
        raise ArgumentError(f"mode={mode!r} does not fit {tensor.type}: one of nearest, linear (of 3 dimensions), "
                            "bilinear (of 4), trilinear (of 5)")  # fmt: skip
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate takes a size or a scale_factor, and not both")
    first = 1 if channels_last else 2
    own = tensor.shape[first : first + rank]
    factors = list(scale_factor) if isinstance(scale_factor, tuple | list) else [scale_factor] * rank
    sizes = per_dimension("size", size, rank) if size is not None else as_shape(map(_scaled, own, factors))
    for axis, (count, wanted, factor) in enumerate(zip(own, sizes, factors, strict=True), first):
        if min(count, wanted) < 1:
            raise ShapeError(f"{tensor.type} cannot be resized to {list(sizes)}: all sizes must be at least 1")
        step = count / wanted if factor is None else 1 / factor
        tensor = (
            take(tensor, np.minimum(np.floor(np.arange(wanted) * step), count - 1).astype(np.int64), axis)
            if mode == "nearest"
            else _between(tensor, axis, wanted, step, align_corners)
        )
    return tensor


def _scaled(size: int, factor: float) -> int:
    return int(np.floor(size * factor))


def _between(tensor: Tensor, axis: int, wanted: int, step: float, align_corners: bool) -> Tensor:
    """Weighted means of neighbours along an axis."""
    count, numbers = tensor.shape[axis], np.arange(wanted)
    if align_corners:
        places = numbers * ((count - 1) / max(wanted - 1, 1))
    else:
        places = np.maximum((numbers + 0.5) * step - 0.5, 0)
    before = np.minimum(np.floor(places), count - 1).astype(np.int64)
    after = np.minimum(before + 1, count - 1)
    shape = [wanted if dim == axis else 1 for dim in range(tensor.ndim)]
    share = constant((places - before).reshape(shape).astype(tensor.dtype.numpy))
    return take(tensor, before, axis) * (1 - share) + take(tensor, after, axis) * share


@public
def unfold(x: Any, window: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """What windows see of x [N, C, *spatial], as columns: [N, C * places of a window, windows]."""
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
        starts = [int(at) * step for at, step in zip(place, apart, strict=True)]
        limits = [start + (n - 1) * step + 1 for start, n, step in zip(starts, counts, strides, strict=True)]
        views.append(cut(seen, [0, 0, *starts], [*seen.shape[:2], *limits], [1, 1, *strides]))
    columns = moveaxis(stack(views), 0, 2)
    return columns.reshape((tensor.shape[0], tensor.shape[1] * len(views), int(np.prod(counts))))
