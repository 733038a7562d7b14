"""Images sampled at places between their pixels, and pixels rearranged: torch's `grid_sample`, `pixel_shuffle`."""

from __future__ import annotations

from itertools import product as combinations
from typing import Any

from blu.dialects.core.dtypes import computing_dtype, product
from blu.dialects.ops.indexing import TakeAlongAxis
from blu.dialects.tensor.arithmetic import absolute, clip, equal, floor, greater_equal, less, logical_and, round, where
from blu.dialects.tensor.arrangement import broadcast_to, transpose
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError

__all__ = ["grid_sample", "pixel_shuffle", "pixel_unshuffle"]

BEYOND = ("zeros", "border", "reflection")


@public
def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """x [N, C, H, W] at the places of a grid [N, *places, 2]: [N, C, *places]; or x [N, C, D, H, W], grid [..., 3].

    A place is (x, y), or (x, y, z): -1 to 1 from the first to the last edge of an image, or from the middle of its
    first pixel to that of its last with `align_corners`. Pixels are weighed by nearness ("bilinear"), or the nearest
    one is taken ("nearest"). Beyond the image are zeros, its last pixels ("border"), or it again, mirrored
    ("reflection"). ShapeError for other shapes or no pixels, ArgumentError for another mode.
    """
    image, places = promoted_floats(x, grid)
    rank = image.ndim - 2
    if rank not in (2, 3) or places.ndim != image.ndim or places.shape[0] != image.shape[0] or places.shape[-1] != rank:
        raise ShapeError(
            f"grid_sample: x must be [N, C, H, W] and grid [N, *places, 2], or [N, C, D, H, W] and [N, *places, 3]; "
            f"got {image.type} and {places.type}"
        )
    if mode not in ("bilinear", "nearest") or padding_mode not in BEYOND:
        raise ArgumentError(
            f"grid_sample: mode must be bilinear or nearest, and padding_mode one of {', '.join(BEYOND)}; "
            f"got {mode!r} and {padding_mode!r}"
        )
    if not product(image.shape[2:]):
        raise ShapeError(f"grid_sample: {image.type} has no pixels")
    wide = computing_dtype(image.dtype)
    at = places.astype(wide)
    along = [
        _position(at[..., rank - 1 - dim], size, padding_mode, align_corners)
        for dim, size in enumerate(image.shape[2:])
    ]
    pixels = image.astype(wide).reshape((*image.shape[:2], product(image.shape[2:])))
    total = _nearest(pixels, along, image.shape[2:]) if mode == "nearest" else _weighed(pixels, along, image.shape[2:])
    return total.astype(image.dtype)


def _position(place: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """The pixel, with a fraction, of places -1 to 1 along a dimension."""
    position = (place + 1) * ((size - 1) / 2) if align_corners else (place + 1) * (size / 2) - 0.5
    if padding_mode == "reflection":
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        position = _mirrored(position, low, high)
    return position if padding_mode == "zeros" else clip(position, 0.0, size - 1.0)


def _mirrored(position: Tensor, low: float, high: float) -> Tensor:
    span = high - low
    if not span:
        return position * 0
    beyond = absolute(position - low)
    turns = floor(beyond / span)
    rest = beyond - turns * span
    return where(equal(turns % 2, 0.0), rest + low, high - rest)


def _nearest(pixels: Tensor, along: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    return _read(pixels, [round(position) for position in along], sizes)


def _weighed(pixels: Tensor, along: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    """The pixels around each place, by how near they are: 4 of an image, 8 of a volume."""
    before = [floor(position) for position in along]
    shares = [position - first for position, first in zip(along, before, strict=True)]
    total = None
    for corner in combinations((0, 1), repeat=len(sizes)):
        found = _read(pixels, [first + step for first, step in zip(before, corner, strict=True)], sizes)
        for share, step in zip(shares, corner, strict=True):
            weight = share if step else 1 - share
            found = found * weight.reshape((weight.shape[0], 1, *weight.shape[1:]))
        total = found if total is None else total + found
    assert total is not None
    return total


def _read(pixels: Tensor, along: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    """[N, C, *places] of pixels [N, C, H * W] by their numbers along each dimension; zeros where there are none."""
    number, inside = None, None
    for position, size in zip(along, sizes, strict=True):
        own = logical_and(greater_equal(position, 0.0), less(position, float(size)))
        index = where(own, position, 0.0).astype("i64")
        number = index if number is None else number * size + index
        inside = own if inside is None else logical_and(inside, own)
    assert number is not None and inside is not None
    count, channels, shape = number.shape[0], pixels.shape[1], number.shape[1:]
    places = broadcast_to(number.reshape((count, 1, product(shape))), (count, channels, product(shape)))
    found = TakeAlongAxis(pixels, places, axis=2).reshape((count, channels, *shape))
    return where(inside.reshape((count, 1, *shape)), found, 0.0)


@public
def pixel_shuffle(x: Any, factor: int) -> Tensor:
    """x [..., C * factor**2, H, W] as [..., C, H * factor, W * factor]: blocks of channels as squares.

    ShapeError where there are no such channels.
    """
    (tensor,) = promoted_floats(x)
    if factor < 1 or tensor.ndim < 3 or tensor.shape[-3] % factor**2:
        raise ShapeError(f"pixel_shuffle: x must be [..., C * {factor}**2, H, W], got {tensor.type}")
    *batch, channels, height, width = tensor.shape
    apart = tensor.reshape((*batch, channels // factor**2, factor, factor, height, width))
    turned = _turned(apart, len(batch), (0, 3, 1, 4, 2))
    return turned.reshape((*batch, channels // factor**2, height * factor, width * factor))


@public
def pixel_unshuffle(x: Any, factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`: x [..., C, H * factor, W * factor] as [..., C * factor**2, H, W].

    ShapeError where the sizes are no multiples of the factor.
    """
    (tensor,) = promoted_floats(x)
    if factor < 1 or tensor.ndim < 3 or tensor.shape[-1] % factor or tensor.shape[-2] % factor:
        raise ShapeError(f"pixel_unshuffle: x must be [..., C, H * {factor}, W * {factor}], got {tensor.type}")
    *batch, channels, height, width = tensor.shape
    apart = tensor.reshape((*batch, channels, height // factor, factor, width // factor, factor))
    turned = _turned(apart, len(batch), (0, 2, 4, 1, 3))
    return turned.reshape((*batch, channels * factor**2, height // factor, width // factor))


def _turned(tensor: Tensor, kept: int, order: tuple[int, ...]) -> Tensor:
    return transpose(tensor, (*range(kept), *(kept + axis for axis in order)))
