"""Axes: the check of an op's own (counted from zero), and the reading of a user's (which may count from the end)."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from blu.dialects.core.dtypes import TensorType
from blu.errors import ShapeError


def check_axis(axis: int, type_: TensorType) -> None:
    """Raise ShapeError unless `axis` is one of the dimensions of `type_`, counted from zero."""
    if not type_.ndim:
        raise ShapeError(f"axis {axis} is out of range: {type_} has no dimensions")
    if not 0 <= axis < type_.ndim:
        raise ShapeError(f"axis {axis} is out of range: {type_} has axes 0..{type_.ndim - 1}")


def check_axes(axes: tuple[int, ...], type_: TensorType) -> None:
    """Raise ShapeError unless `axes` are dimensions of `type_`, sorted and each named once."""
    for axis in axes:
        check_axis(axis, type_)
    if list(axes) != sorted(set(axes)):
        raise ShapeError(f"axes must be sorted and different from each other, got {list(axes)}")


def normalize_axis(axis: Any, ndim: int) -> int:
    """An axis counted from zero, given one that may count from the end (-1 is the last). Raises ShapeError."""
    try:
        number = operator.index(axis)
    except TypeError:
        raise ShapeError(f"an axis must be an integer, got {axis!r}") from None
    if not ndim:
        raise ShapeError(f"axis {number} is out of range: a 0-d tensor has no axes")
    if not -ndim <= number < ndim:
        raise ShapeError(f"axis {number} is out of range: a tensor of {ndim} dimensions has axes {-ndim}..{ndim - 1}")
    return number % ndim


def normalize_axes(axes: Any, ndim: int) -> tuple[int, ...]:
    """Sorted axes counted from zero, given None (all of them), one axis, or several. Raises ShapeError."""
    if axes is None:
        return tuple(range(ndim))
    given = tuple(axes) if isinstance(axes, Iterable) else (axes,)
    found = sorted(normalize_axis(axis, ndim) for axis in given)
    if len(set(found)) != len(found):
        raise ShapeError(f"axes {list(given)} name the same dimension twice")
    return tuple(found)


def without_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """`shape` less the dimension `axis`, counted from zero."""
    return shape[:axis] + shape[axis + 1 :]
