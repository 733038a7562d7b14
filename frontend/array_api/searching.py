"""Searching, sorting, indexing, sets. What is found decides on shapes: NumPy computes that, on the host.

In compiled functions `nonzero`, `unique_values` and `unique_counts` take the number `size` of what is found at most.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from blu.dialects.core.dtypes import product
from blu.dialects.tensor import folding
from blu.dialects.tensor.arithmetic import astype, not_equal, where
from blu.dialects.tensor.arrangement import concatenate, flatten
from blu.dialects.tensor.function import on_host, public
from blu.dialects.tensor.promotion import as_tensor, scalar_constant
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.frontend.functional import indexing
from blu.frontend.functional import searching as found_by
from blu.frontend.functional.indexing import take_along_axis
from blu.frontend.functional.searching import count_nonzero

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "isin",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]

argmax, argmin = folding.argmax, folding.argmin


@public
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis: always stable, NaN last in both directions."""
    return indexing.sort(x, axis, descending)


@public
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions of the elements in sorted order along an axis: always stable, NaN last in both directions."""
    return indexing.argsort(x, axis, descending)


@public
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The slices of x at `indices` along an axis, which may be left out of one dimension."""
    tensor = as_tensor(x)
    if axis is None and tensor.ndim != 1:
        raise ShapeError(f"{tensor.type} is not of one dimension", advice="Say the axis.")
    return indexing.take(tensor, indices, 0 if axis is None else axis)


@public
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """The positions in the sorted `x1` before which each of `x2` keeps it sorted; `sorter` sorts it first."""
    return found_by.searchsorted(x1, x2, side, sorter)


@public
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of x1 is in x2 (not, with `invert`)."""
    return found_by.isin(x1, x2, invert)


_SIZE = "Say with size= how many there are at most, or compute it outside of the compiled function."
_OUTSIDE = "Compute it outside of the compiled function."


def nonzero(x: Any, /, *, size: int | None = None) -> Any:
    """The positions of nonzero elements, an array for each dimension.

    With `size` there are so many, of which those behind the last are -1; where there are more, it is an IndexError.
    """
    if size is None:
        return _nonzero(x)
    return _sized_nonzero(x, size)


def _flat_nonzero(x: np.ndarray) -> tuple[np.ndarray, ...]:
    if not x.ndim:
        raise ShapeError("nonzero: an array without dimensions has no positions")
    return np.nonzero(x)


_flat_nonzero.__name__ = "nonzero"
_nonzero = on_host(_SIZE)(_flat_nonzero)


@public
def _sized_nonzero(x: Any, size: int) -> tuple[Tensor, ...]:
    tensor = as_tensor(x)
    if not tensor.ndim:
        raise ShapeError("a tensor without dimensions has no positions")
    place = found_by.flatnonzero(tensor, size)
    strides = [product(tensor.shape[axis + 1 :]) for axis in range(tensor.ndim)]
    parts = [place // max(stride, 1) % max(count, 1) for stride, count in zip(strides, tensor.shape, strict=True)]
    return tuple(where(place < 0, -1, part) for part in parts)


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


@on_host(_OUTSIDE)
def unique_all(x: Any, /) -> UniqueAll:
    """The different elements in order, where each is first, where each of x is among them, and how often each is."""
    return UniqueAll(*np.unique_all(x))


@on_host(_OUTSIDE)
def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements in order, and where each of x is among them."""
    return UniqueInverse(*np.unique_inverse(x))


def unique_values(x: Any, /, *, size: int | None = None) -> Any:
    """The different elements in order. With `size` there are so many, the last of them again behind the last."""
    return _host_unique_values(x) if size is None else _sized_unique(x, size)[0]


def unique_counts(x: Any, /, *, size: int | None = None) -> Any:
    """The different elements in order and how often each is. With `size` so many, those that are not there 0 times."""
    return _host_unique_counts(x) if size is None else UniqueCounts(*_sized_unique(x, size))


def _values(x: np.ndarray) -> np.ndarray:
    return np.sort(np.unique_values(x))


def _counts(x: np.ndarray) -> UniqueCounts:
    return UniqueCounts(*np.unique_counts(x))


_values.__name__, _counts.__name__ = "unique_values", "unique_counts"
_host_unique_values, _host_unique_counts = on_host(_SIZE)(_values), on_host(_SIZE)(_counts)


@public
def _sized_unique(x: Any, size: int) -> tuple[Tensor, Tensor]:
    ordered = indexing.sort(flatten(as_tensor(x)))
    if not ordered.size:
        raise ShapeError("of no elements none are different")
    first = as_tensor(np.ones(1, np.bool_))
    place = found_by.flatnonzero(concatenate([first, not_equal(ordered[1:], ordered[:-1])]), size, fill=ordered.size)
    later = concatenate([place[1:], astype(scalar_constant(ordered.size, place.dtype).reshape(1), place.dtype)])
    return indexing.take(ordered, place.clip(0, ordered.size - 1)), later - place
