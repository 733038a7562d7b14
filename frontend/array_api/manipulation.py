"""Functions that rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blu.dialects.ops.pointwise import broadcast_shapes as common_shape
from blu.dialects.tensor import arrangement
from blu.dialects.tensor.arrangement import as_shape, broadcast_to, moveaxis
from blu.dialects.tensor.function import public, told
from blu.dialects.tensor.tensor import Tensor
from blu.errors import OutOfRangeError, ShapeError
from blu.frontend.functional.searching import selecting

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]

Axes = int | tuple[int, ...] | None


@public
def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """All arrays broadcast to their common shape."""
    return tuple(arrangement.broadcast_arrays(*arrays))


@told
def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape that arrays of these are broadcast to. ShapeError (a ValueError) where there is none."""
    return common_shape(*(as_shape(shape) for shape in shapes)) if shapes else ()


@public
def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Tensor:
    """The arrays one after the other along an axis (None: their elements in one dimension)."""
    return arrangement.concatenate(arrays, axis)


@public
def expand_dims(x: Any, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """x with a new dimension of size 1 at each of the result's axes named. IndexError where there are not as many."""
    try:
        return arrangement.expand_dims(x, axis)
    except ShapeError as error:
        raise OutOfRangeError(error.message, location=error.location) from None


@public
def flip(x: Any, /, *, axis: Axes = None) -> Tensor:
    """x with the elements along the axes named (None: all) in reverse order."""
    return arrangement.flip(x, axis)


@public
def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Tensor:
    """Dimension i of the result is dimension axes[i] of x."""
    return arrangement.transpose(x, tuple(axes))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element along an axis (None: in row-major order) `repeats` times, or each as often as `repeats` says."""
    return selecting.repeat(x, repeats, axis)


@public
def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The same elements in row-major order in another shape, in which one size may be -1: what is left over."""
    if copy is False:
        raise ValueError("reshape: the result is a copy")
    return arrangement.reshape(x, as_shape(shape))


@public
def roll(x: Any, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Tensor:
    """x with the elements moved `shift` places on along axes (None: in row-major order), around their ends."""
    return arrangement.roll(x, shift, axis)


@public
def squeeze(x: Any, /, axis: int | tuple[int, ...]) -> Tensor:
    """x without the dimensions named, which must be of size 1."""
    return arrangement.squeeze(x, axis)


@public
def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    return arrangement.stack(arrays, axis)


@public
def tile(x: Any, repetitions: tuple[int, ...], /) -> Tensor:
    """x repeated as a whole along each dimension."""
    return arrangement.tile(x, repetitions)


@public
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along an axis, without that axis."""
    return tuple(arrangement.unstack(x, axis))
