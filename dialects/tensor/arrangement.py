"""Functions that rearrange elements, as NumPy has them: axes may count from the end, one size may be left open."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from blu.dialects.core.axes import normalize_axes, normalize_axis
from blu.dialects.core.dtypes import product
from blu.dialects.core.fields import VARIADIC_SLOTS
from blu.dialects.ops import shape as ops
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import as_tensor, promoted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concatenate",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "meshgrid",
    "moveaxis",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "unstack",
]


def as_shape(shape: Any) -> tuple[int, ...]:
    """A shape given as one size or several. Raises ShapeError for anything but integers."""
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    try:
        return tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise ShapeError(f"a shape consists of integers, got {shape!r}") from None


@method
def reshape(x: Any, *shape: Any) -> Tensor:
    """The same elements in row-major order in another shape, in which one size may be -1: what is left over.

    ShapeError for a shape that does not hold as many elements, or that leaves more than one size open.
    """
    tensor = as_tensor(x)
    sizes = as_shape(shape[0] if len(shape) == 1 else shape)
    if sizes.count(-1) == 1:
        sizes = _completed(sizes, tensor)
    return tensor if sizes == tensor.shape else ops.Reshape(tensor, shape=sizes)


def _completed(sizes: tuple[int, ...], tensor: Tensor) -> tuple[int, ...]:
    known = product(size for size in sizes if size != -1)
    if not known:
        advice = "Say its size: what is left over is 0 / 0 here, so that any would do (NumPy refuses it as well)."
        raise ShapeError(f"{tensor.type} in shape {list(sizes)} leaves the size -1 open", advice=advice)
    if tensor.size % known:
        raise ShapeError(f"{tensor.type} has {tensor.size} elements, which shape {list(sizes)} cannot hold")
    return tuple(tensor.size // known if size == -1 else size for size in sizes)


@method
def flatten(x: Any) -> Tensor:
    """The elements in row-major order in one dimension."""
    tensor = as_tensor(x)
    return reshape(tensor, tensor.size)


@method
def transpose(x: Any, *axes: Any) -> Tensor:
    """Dimension i of the result is dimension axes[i] of x; without axes, all dimensions in reverse order."""
    tensor = as_tensor(x)
    given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    if given is None or (not given and tensor.ndim):
        given = range(tensor.ndim)[::-1]
    permutation = tuple(normalize_axis(axis, tensor.ndim) for axis in given)
    return tensor if permutation == tuple(range(tensor.ndim)) else ops.Transpose(tensor, permutation=permutation)


@method
def swapaxes(x: Any, first: int, second: int) -> Tensor:
    """x with two dimensions exchanged."""
    return along(lambda whole, one: _swapped(whole, one, normalize_axis(second, whole.ndim)), as_tensor(x), first)


def _swapped(tensor: Tensor, one: int, other: int) -> Tensor:
    order = list(range(tensor.ndim))
    order[one], order[other] = other, one
    return transpose(tensor, order)


def along(function: Callable[[Tensor, int], Tensor], tensor: Tensor, axis: Any) -> Tensor:
    """What the function gives for a tensor and an axis, counted from zero, and keeps in its shape.

    A tensor without dimensions may be said to have one, as in sums. Raises ShapeError for other axes that it lacks.
    """
    if tensor.ndim or axis not in (0, -1):
        return function(tensor, normalize_axis(axis, tensor.ndim))
    return reshape(function(reshape(tensor, 1), 0), ())


@method
def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """x with the dimensions `source` (one or several) moved to the places `destination`, the others in order.

    ShapeError unless both name as many axes, each once.
    """
    tensor = as_tensor(x)
    sources, places = _each_axis(source, tensor.ndim), _each_axis(destination, tensor.ndim)
    if len(sources) != len(places):
        raise ShapeError(f"source {source} and destination {destination} must name equally many axes")
    order = [axis for axis in range(tensor.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transpose(tensor, order)


def _each_axis(axes: Any, ndim: int) -> list[int]:
    """Axes counted from zero in the order given. Raises ShapeError where one is named twice."""
    found = [normalize_axis(axis, ndim) for axis in (axes if isinstance(axes, Iterable) else (axes,))]
    if len(set(found)) != len(found):
        raise ShapeError(f"axes {axes} name the same dimension twice")
    return found


@method
def broadcast_to(x: Any, shape: Any) -> Tensor:
    """x repeated along dimensions of size 1 and along missing leading dimensions.

    ShapeError for a shape that x does not broadcast to.
    """
    tensor, sizes = as_tensor(x), as_shape(shape)
    return tensor if tensor.shape == sizes else ops.BroadcastTo(tensor, shape=sizes)


@method
def matrix_transpose(x: Any) -> Tensor:
    """x with its last two dimensions exchanged. ShapeError where x has fewer."""
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"a matrix has two dimensions, got {tensor.type}")
    return swapaxes(tensor, -1, -2)


@public
def meshgrid(*tensors: Any, indexing: str = "xy") -> list[Tensor]:
    """One-dimensional coordinates as the coordinates of all points of the grid that they span.

    Result i varies along dimension i ("ij"); with "xy" the first two dimensions are exchanged. ShapeError for another
    `indexing`, or for coordinates that are not one-dimensional.
    """
    if indexing not in ("xy", "ij"):
        raise ShapeError(f"indexing must be xy or ij, got {indexing!r}")
    lines = [flatten(tensor) for tensor in tensors]
    shape, places = [line.size for line in lines], list(range(len(lines)))
    if indexing == "xy" and len(lines) > 1:
        shape[:2], places[:2] = shape[1::-1], [1, 0]
    sides = [[size if axis == place else 1 for axis, size in enumerate(shape)] for place in places]
    return [broadcast_to(reshape(line, side), shape) for line, side in zip(lines, sides, strict=True)]


@public
def broadcast_arrays(*tensors: Any) -> list[Tensor]:
    """All tensors broadcast to their common shape."""
    found = [as_tensor(tensor) for tensor in tensors]
    shape = broadcast_shapes(*(tensor.shape for tensor in found))
    return [broadcast_to(tensor, shape) for tensor in found]


@method
def expand_dims(x: Any, axis: Any) -> Tensor:
    """x with a new dimension of size 1 at each of the result's axes named."""
    tensor = as_tensor(x)
    count = len(tuple(axis)) if isinstance(axis, Iterable) else 1
    places = normalize_axes(axis, tensor.ndim + count)
    sizes = iter(tensor.shape)
    return reshape(tensor, tuple(1 if place in places else next(sizes) for place in range(tensor.ndim + count)))


@method
def squeeze(x: Any, axis: Any = None) -> Tensor:
    """x without its dimensions of size 1, or without those named, which must be of size 1.

    ShapeError where those named are of another size.
    """
    tensor = as_tensor(x)
    if axis is None:
        return reshape(tensor, tuple(size for size in tensor.shape if size != 1))
    places = normalize_axes(axis, tensor.ndim)
    if any(tensor.shape[place] != 1 for place in places):
        raise ShapeError(f"axes {list(places)} of {tensor.type} are not all of size 1, so they cannot be squeezed")
    return reshape(tensor, tuple(size for place, size in enumerate(tensor.shape) if place not in places))


@public
def concatenate(tensors: Sequence[Any], axis: int | None = 0) -> Tensor:
    """The tensors one after the other along an axis (None: their elements in one dimension).

    ShapeError for no tensors, or for some that differ in another axis.
    """
    parts = _listed(tensors)
    if not parts:
        raise ShapeError("needs at least one tensor")
    if axis is None:
        return concatenate([flatten(part) for part in parts])
    place = normalize_axis(axis, parts[0].ndim)
    # An op takes a limited number of operands, so that many parts are joined in a tree.
    while len(parts) > VARIADIC_SLOTS:
        starts = range(0, len(parts), VARIADIC_SLOTS)
        parts = [ops.Concatenate(parts[start : start + VARIADIC_SLOTS], axis=place) for start in starts]
    return parts[0] if len(parts) == 1 else ops.Concatenate(parts, axis=place)


def _listed(tensors: Any) -> list[Tensor]:
    """The tensors of a sequence in one dtype; of a tensor, those along its first axis, as NumPy has it."""
    if not isinstance(tensors, Tensor):
        parts = list(tensors)
        return list(promoted(*parts)) if parts else []
    if not tensors.shape:
        raise ShapeError(f"takes a sequence of tensors, got {tensors.type}")
    return unstack(tensors)


@public
def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis. ShapeError for no tensors, or for some of different shapes."""
    parts = _listed(tensors)
    for part in parts[1:]:
        if part.shape != parts[0].shape:
            raise ShapeError(f"stack needs tensors of one shape, got {parts[0].type} and {part.type}")
    return concatenate([expand_dims(part, axis) for part in parts], axis)


@method
def split(x: Any, sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """x cut along an axis into `sections` equal parts, or before each of the positions named.

    ShapeError where the axis has no such equal parts.
    """
    tensor = as_tensor(x)
    place = normalize_axis(axis, tensor.ndim)
    size = tensor.shape[place]
    if isinstance(sections, int):
        if sections < 1 or size % sections:
            raise ShapeError(f"axis {place} of {tensor.type} cannot be cut into {sections} equal parts")
        sections = range(size // sections, size, size // sections) if size else [0] * (sections - 1)
    bounds = [0, *(slice(position).indices(size)[1] for position in sections), size]
    return [_part(tensor, place, start, limit) for start, limit in pairwise(bounds)]


def _part(tensor: Tensor, axis: int, start: int, limit: int) -> Tensor:
    """start..limit along one axis."""
    starts = [0] * tensor.ndim
    limits = list(tensor.shape)
    starts[axis], limits[axis] = start, max(start, limit)
    return ops.Slice(tensor, starts=tuple(starts), limits=tuple(limits), strides=(1,) * tensor.ndim)


@method
def unstack(x: Any, axis: int = 0) -> list[Tensor]:
    """The slices of x along an axis, without that axis."""
    tensor = as_tensor(x)
    place = normalize_axis(axis, tensor.ndim)
    return [squeeze(part, place) for part in split(tensor, range(1, tensor.shape[place]), place) if part.shape[place]]


@method
def flip(x: Any, axis: Any = None) -> Tensor:
    """x with the elements along the axes named (None: all) in reverse order."""
    tensor = as_tensor(x)
    axes = normalize_axes(axis, tensor.ndim)
    return ops.Reverse(tensor, axes=axes) if axes else tensor


@method
def roll(x: Any, shift: Any, axis: Any = None) -> Tensor:
    """x with the elements along an axis moved `shift` places on; those that leave at the end come in at the front.

    Several axes are moved each by its own of several shifts, or all by one; None moves elements in row-major order.
    ShapeError for shifts and axes that are not equally many.
    """
    tensor = as_tensor(x)
    if axis is None:
        moved = _moved_on(flatten(tensor), sum(as_shape(shift)), 0)
        return reshape(moved, tensor.shape)
    shifts, axes = as_shape(shift), tuple(axis) if isinstance(axis, Iterable) else (axis,)
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ShapeError(f"shift {shift} and axis {axis} must name equally many axes")
    count = max(len(shifts), len(axes)) if shifts and axes else 0
    pairs = zip(shifts * (count if len(shifts) == 1 else 1), axes * (count if len(axes) == 1 else 1), strict=True)
    for distance, one in pairs if count else ():
        tensor = _moved_on(tensor, distance, normalize_axis(one, tensor.ndim))
    return tensor


def _moved_on(tensor: Tensor, shift: int, place: int) -> Tensor:
    size = tensor.shape[place]
    if not size or not shift % size:
        return tensor
    cut = size - shift % size
    return concatenate([_part(tensor, place, cut, size), _part(tensor, place, 0, cut)], place)


@method
def tile(x: Any, repeats: Any) -> Tensor:
    """x repeated as a whole along each dimension; `repeats` counts from the last dimension backwards.

    ShapeError for repeats that are no integers from 0 up.
    """
    tensor, counts = as_tensor(x), as_shape(repeats)
    counts = (1,) * (tensor.ndim - len(counts)) + counts
    sizes = (1,) * (len(counts) - tensor.ndim) + tensor.shape
    pairs = list(zip(counts, sizes, strict=True))
    spread = reshape(tensor, tuple(size for _, own in pairs for size in (1, own)))
    spread = broadcast_to(spread, tuple(size for pair in pairs for size in pair))
    return reshape(spread, tuple(count * size for count, size in pairs))
