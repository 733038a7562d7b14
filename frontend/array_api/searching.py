"""Searching, sorting, indexing, sets. What is found decides on shapes: NumPy computes that, on the host.

In compiled functions `nonzero`, `unique_values` and `unique_counts` take the number `size` of what is found at most.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from blu.dialects.tensor import folding
from blu.dialects.tensor.arithmetic import where
from blu.dialects.tensor.function import on_host, public
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.frontend.functional import indexing
from blu.frontend.functional.indexing import take_along_axis
from blu.frontend.functional.searching import searching as found_by
from blu.frontend.functional.searching import selecting
from blu.frontend.functional.searching.searching import count_nonzero
from blu.frontend.functional.searching.selecting import SAY_SIZE

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
    """The slices of x at `indices` along an axis, which may be left out of one dimension.

    ShapeError where it is left out and x has others.
    """
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


_OUTSIDE = "Compute it outside of the compiled function."


def nonzero(x: Any, /, *, size: int | None = None) -> Any:
    """The positions of nonzero elements, an array for each dimension.

    With `size` there are so many, of which those behind the last are -1; where there are more, it is an IndexError.
    """
    return selecting.nonzero(x, size=size)


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
    return _host_unique_values(x) if size is None else selecting.unique(x, size=size, equal_nan=False)


def unique_counts(x: Any, /, *, size: int | None = None) -> Any:
    """The different elements in order and how often each is. With `size` so many, those that are not there 0 times."""
    if size is None:
        return _host_unique_counts(x)
    return UniqueCounts(*selecting.unique(x, return_counts=True, equal_nan=False, size=size))


def _values(x: np.ndarray) -> np.ndarray:
    return np.sort(np.unique_values(x))


def _counts(x: np.ndarray) -> UniqueCounts:
    return UniqueCounts(*np.unique_counts(x))


_values.__name__, _counts.__name__ = "unique_values", "unique_counts"
_host_unique_values, _host_unique_counts = on_host(SAY_SIZE)(_values), on_host(SAY_SIZE)(_counts)
