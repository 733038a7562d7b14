"""`x[...]` as NumPy reads it: integers, slices, None, Ellipsis and integer tensors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import bool_, i32, i64, product, u32, u64
from blu.dialects.ops.index_check import CheckedIndex
from blu.dialects.ops.indexing import INDEX_DTYPES, Take
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.ops.shape import Reverse, Slice
from blu.dialects.tensor.arrangement import moveaxis, reshape
from blu.dialects.tensor.function import as_operator
from blu.dialects.tensor.promotion import as_tensor, converted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, OutOfRangeError, ShapeError, TraceError


@dataclass(frozen=True)
class Range:
    """The elements of one dimension that are kept: start, start + stride, ... before limit, backwards if `reverse`."""

    start: int
    limit: int
    stride: int = 1
    reverse: bool = False


def as_indices(value: Any, size: int | None = None) -> Tensor:
    """Indices as an i32 or i64 tensor. Those known already are checked against the `size` of their axis.

    Raises DTypeError for other dtypes, OutOfRangeError for known indices outside of the axis.
    """
    if not isinstance(value, Tensor):
        value = np.asarray(value, np.int64) if np.size(value) == 0 else np.asarray(value)
        if value.dtype.kind in "iu" and size is not None:
            check_known_indices(value, size)
    tensor = as_tensor(value)
    if tensor.dtype in INDEX_DTYPES:
        return tensor
    if tensor.dtype.is_integer:
        return converted(tensor, i64 if tensor.dtype in (u32, u64) else i32)
    advice = "Masks give a shape known only at run time: use blu.where." if tensor.dtype == bool_ else ""
    raise DTypeError(f"indices must be integers, got {tensor.type}", advice=advice)


def check_known_indices(indices: np.ndarray, size: int) -> None:
    """Raise OutOfRangeError where an index, which may count from the end, lies outside of an axis of `size`."""
    wrong = indices[(indices < -size) | (indices >= size)]
    if wrong.size:
        advice = f"valid indices are from {-size} to {size - 1}" if size else "the axis is empty"
        raise OutOfRangeError(f"index {wrong.flat[0]} is out of range for an axis of size {size}", advice=advice)


@as_operator("__getitem__")
def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key] with NumPy's meaning, for integers, slices, None, Ellipsis, and integer arrays or tensors.

    Python integers are checked at once; indices in tensors are checked when the program runs.
    """
    entries = as_key_entries(key, x)
    ranges, places, shape = [], [], []
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        size = x.shape[len(ranges)]
        if isinstance(entry, slice):
            ranges.append(_range(entry, size))
            shape.append(len(range(ranges[-1].start, ranges[-1].limit, ranges[-1].stride)))
        elif _is_integer(entry):
            ranges.append(_single(operator.index(entry), size, len(ranges)))
            places.append((len(shape), None))
        else:
            ranges.append(Range(0, size))
            places.append((len(shape), as_indices(entry, size)))
            shape.append(size)
    return _taken(reshape(_sliced(x, ranges), tuple(shape)), places)


def as_key_entries(key: Any, x: Tensor) -> list[Any]:
    """The entries of a key of x as `x[key]` reads them: Nones, and one for each dimension."""
    return _spread(key if isinstance(key, tuple) else (key,), x)


def single_window(entries: list[Any], x: Tensor) -> tuple[tuple[int, ...], list[int]] | None:
    """The sizes and starts of what a key's entries read, if that is known and without gaps."""
    kept = [entry for entry in entries if entry is not None]
    if not all(isinstance(entry, slice) or _is_integer(entry) for entry in kept):
        return None
    pairs = enumerate(zip(kept, x.shape, strict=True))
    ranges = [_range(e, size) if isinstance(e, slice) else _single(int(e), size, axis) for axis, (e, size) in pairs]
    if any(item.stride != 1 or item.reverse for item in ranges):
        return None
    return tuple(item.limit - item.start for item in ranges), [item.start for item in ranges]


def _spread(key: tuple[Any, ...], x: Tensor) -> list[Any]:
    """The key with one entry per dimension of x (besides the Nones): Ellipsis and missing ends become slices."""
    entries: list[Any] = []
    for entry in key:
        entries.extend(_read(entry))
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    ellipses = [number for number, entry in enumerate(entries) if entry is Ellipsis]
    if len(ellipses) > 1:
        raise ShapeError("an index can have only one Ellipsis (...)")
    if used > x.ndim:
        raise ShapeError(f"{used} indices are too many for {x.type}, which has {x.ndim} dimensions")
    place = ellipses[0] if ellipses else len(entries)
    return [*entries[:place], *[slice(None)] * (x.ndim - used), *entries[place + 1 :]]


def _read(entry: Any) -> list[Any]:
    """One entry of the key as the user wrote it, as those it stands for: a known mask is as many index arrays."""
    if isinstance(entry, Tensor) and entry.dtype == bool_:
        raise TraceError(
            f"a mask {entry.type} selects a number of elements known only when the compiled function runs",
            advice="Use blu.where(mask, x, other), which keeps the shape, or blu.compress(mask, x, size=most).",
        )
    if isinstance(entry, bool | np.bool_):
        raise DTypeError(f"{entry} is no index", advice="Use an integer, or blu.where for a condition.")
    if isinstance(entry, float | str):
        raise DTypeError(f"indices must be integers, slices, None, Ellipsis or integer tensors, got {entry!r}")
    if isinstance(entry, list | np.ndarray):
        array = np.asarray(entry)
        return list(array.nonzero()) if array.dtype == np.bool_ else [array if array.ndim else operator.index(array)]
    return [entry]


def _is_integer(entry: Any) -> bool:
    return isinstance(entry, int | np.integer)


def _single(index: int, size: int, axis: int) -> Range:
    if not -size <= index < size:
        raise OutOfRangeError(f"index {index} is out of range for axis {axis} of size {size}")
    return Range(index % size, index % size + 1)


def _range(entry: slice, size: int) -> Range:
    try:
        start, stop, step = entry.indices(size)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{entry} cannot be read: {error}") from None
    count = len(range(start, stop, step))
    if not count:
        return Range(0, 0)
    last = start + (count - 1) * step
    return Range(start, last + 1, step) if step > 0 else Range(last, start + 1, -step, reverse=True)


def _sliced(x: Tensor, ranges: list[Range]) -> Tensor:
    """The elements kept, every dimension still there."""
    if any(entry != Range(0, size) for entry, size in zip(ranges, x.shape, strict=True)):
        starts, limits = tuple(entry.start for entry in ranges), tuple(entry.limit for entry in ranges)
        x = Slice(x, starts=starts, limits=limits, strides=tuple(entry.stride for entry in ranges))
    axes = tuple(axis for axis, entry in enumerate(ranges) if entry.reverse)
    return Reverse(x, axes=axes) if axes else x


Place = tuple[int, Tensor | None]


def _taken(x: Tensor, places: list[Place]) -> Tensor:
    """x with the axes of the index tensors replaced by the dimensions of these.

    `places` holds in order the axis of each index tensor, and None for a plain integer, whose dimension is gone
    already: as in NumPy, it still counts where it is asked whether all indices stand side by side.
    """
    tensors = [(axis, indices) for axis, indices in places if indices is not None]
    if not tensors:
        return x
    axes = [axis for axis, _ in tensors]
    target = axes[0] if _side_by_side(places) else 0
    if len(tensors) == 1:
        taken = Take(x, tensors[0][1], axis=axes[0])
        return _moved(taken, axes[0], target, tensors[0][1].ndim)
    x = moveaxis(x, axes, range(len(axes)))
    sizes = x.shape[: len(axes)]
    indices = _row_major([entry for _, entry in tensors], sizes)
    merged = reshape(x, (product(sizes), *x.shape[len(axes) :]))
    return _moved(Take(merged, indices, axis=0), 0, target, indices.ndim)


def _side_by_side(places: list[Place]) -> bool:
    """Whether no slice stands between two indices. An integer takes no place among the dimensions that are left."""
    expected = places[0][0]
    for axis, indices in places:
        if axis != expected:
            return False
        expected += indices is not None
    return True


def _moved(x: Tensor, source: int, target: int, count: int) -> Tensor:
    """`count` dimensions from `source` on moved to begin at `target`."""
    return moveaxis(x, range(source, source + count), range(target, target + count)) if source != target else x


def _row_major(indices: list[Tensor], sizes: tuple[int, ...]) -> Tensor:
    """Positions in the merged dimension. Each index is checked in its own; where one of these is empty, Take is."""
    broadcast_shapes(*(entry.shape for entry in indices))
    if 0 in sizes:
        return sum(indices[1:], indices[0])
    return CheckedIndex(indices, sizes=sizes, from_end=True, reported_as="take")
