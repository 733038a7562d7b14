"""Counting and searching: what is found in how many places, and where."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.dtypes import i64
from blu.dialects.tensor.arithmetic import as_bool, equal, isnan, less_equal, where
from blu.dialects.tensor.arrangement import broadcast_to, flatten
from blu.dialects.tensor.folding import sum as summed
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import as_tensor, promoted, scalar_constant
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.frontend.functional.indexing import sort, take

__all__ = ["count_nonzero", "isin", "searchsorted"]


@method
def count_nonzero(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are true (nonzero; NaN is) over the axes named (None: all), as i64."""
    return summed(as_bool(x), axis, keepdims=keepdims)


@public
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """The positions (i64) in `a`, which is one-dimensional and sorted, before which each of `v` keeps it sorted.

    Of equals, `side` says whether the position is "left" of them or "right". NaN counts as largest. Where `a` is not
    sorted, `sorter` holds the positions that sort it. Each of `v` is looked for by halving. ShapeError for another
    `side`, or for what is sorted in several dimensions.
    """
    if side not in ("left", "right"):
        raise ShapeError(f"side must be left or right, got {side!r}")
    ordered, wanted = promoted(a, v)
    if ordered.ndim != 1:
        raise ShapeError(f"looks in one dimension, got {ordered.type}")
    ordered = ordered if sorter is None else take(ordered, sorter)
    found, left = broadcast_to(scalar_constant(0, i64), wanted.shape), ordered.shape[0]
    is_last = isnan(wanted) if wanted.dtype.is_float else None
    while left:  # what is looked for is at `found`, or up to `left` places further
        half = left - left // 2
        other = take(ordered, found + (half - 1))
        if side == "left":
            stays = less_equal(wanted, other)
            found = where(stays if is_last is None else stays | isnan(other), found, found + half)
        else:
            goes = less_equal(other, wanted)
            found = where(goes if is_last is None else goes | is_last, found + half, found)
        left //= 2
    return found


@public
def isin(x: Any, values: Any, invert: bool = False) -> Tensor:
    """Whether each element of x is among `values` (not, with `invert`). NaN is in nothing."""
    tensor, others = promoted(x, values)
    members = flatten(others)
    if not members.size:
        return broadcast_to(as_tensor(bool(invert)), tensor.shape)
    ordered = sort(members)
    place = searchsorted(ordered, tensor).clip(0, members.size - 1)
    found = equal(take(ordered, place), tensor)
    return found.logical_not() if invert else found
