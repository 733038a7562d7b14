"""Functions whose results have as many elements as are found: where something is, what is different, what is kept.

Programs have fixed shapes, so that compiled functions say with `size=` how many there are at most, and what is behind
them; where there are more, the run stops with an IndexError. On arrays, and without it, NumPy computes on the host.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from blu.dialects.core.axes import normalize_axis
from blu.dialects.core.dtypes import i64, product
from blu.dialects.ops.creation import Iota
from blu.dialects.ops.index_check import CheckedIndex
from blu.dialects.ops.indexing import ScatterAdd, Take
from blu.dialects.tensor.arithmetic import as_bool, isnan, not_equal, where
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, expand_dims, flatten, reshape, stack
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.folding import any as any_of
from blu.dialects.tensor.folding import cumsum
from blu.dialects.tensor.function import is_tracing, on_host, public
from blu.dialects.tensor.promotion import as_tensor, constant, converted, scalar_constant
from blu.dialects.tensor.tensor import METHODS, Tensor
from blu.errors import ShapeError, UnsupportedError, suggestion
from blu.frontend.functional.indexing import argsort, take
from blu.frontend.functional.searching.searching import searchsorted

__all__ = ["argwhere", "compress", "flatnonzero", "nonzero", "repeat", "unique"]

SAY_SIZE = "Say with size= how many there are at most, or compute it outside of the compiled function."
Function = Callable[..., Any]


def sized(numpys: Function) -> Callable[[Function], Function]:
    """A public function that takes `size`, and without one is NumPy's of arrays."""

    def make(function: Function) -> Function:
        compiled, on_arrays = public(function), on_host(SAY_SIZE)(_named(numpys, function.__name__))
        code = function.__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        @functools.wraps(function)
        def call(*arguments: Any, size: int | None = None, **keywords: Any) -> Any:
            for name in keywords:
                if name not in known:
                    guess = suggestion(name, known, most=1)
                    message = f"{function.__name__}() got an unexpected keyword argument {name!r}"
                    raise TypeError(f"{message}: {guess}" if guess else message)
            if size is not None:
                return compiled(*arguments, size=size, **keywords)
            keywords.pop("fill_value", None)
            return on_arrays(*arguments, **keywords)

        return call

    return make


def _named(function: Function, name: str) -> Function:
    """The function by the name that its errors shall say."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    call.__name__ = name
    return call


def checked_size(size: Any) -> int:
    """The number of elements that a user asks for. Raises ShapeError for negative ones."""
    count = operator.index(size)
    if count < 0:
        raise ShapeError(f"size must not be negative, got {count}")
    return count


def _positions(flags: Tensor, size: Any, fill: int, name: str) -> Tensor:
    """The positions in `flags` [N] of those that are true: `size` of them, with `fill` behind the last."""
    count = checked_size(size)
    if not flags.size:
        return broadcast_to(scalar_constant(fill, i64), (count,))
    number = cumsum(flags)
    reason = f"{name} finds more than size={count} elements"
    total = CheckedIndex([number[-1]], sizes=(count + 1,), from_end=False, reported_as=reason)
    wanted = Iota(shape=(count,), axis=0, dtype=i64)
    return where(wanted < total, _written(flags, number, count), fill)


def _written(flags: Tensor, number: Tensor, count: int) -> Tensor:
    """Each true element's position at its number among them. All others add 0 to the number that comes next, so that
    neighbours write to neighbours."""
    zeros = broadcast_to(scalar_constant(0, i64), (count,))
    if not count:
        return zeros
    position = where(flags, Iota(shape=flags.shape, axis=0, dtype=i64), 0)
    return ScatterAdd(zeros, (number - converted(flags, i64)).clip(0, count - 1), position, axis=0)


@sized(np.flatnonzero)
def flatnonzero(x: Any, *, size: int | None = None, fill_value: int = -1) -> Any:
    """The positions (i64) of true (nonzero) elements in row-major order.

    With `size` there are so many, those behind the last `fill_value`; where there are more, it is an IndexError.
    ShapeError for a negative size.
    """
    return _positions(flatten(as_bool(x)), size, operator.index(fill_value), "flatnonzero")


def _has_positions(ndim: int) -> None:
    if not ndim:
        raise ShapeError("what has no dimensions has no positions", advice="blu.flatnonzero reads it as one element.")


def _numpys_nonzero(x: np.ndarray) -> tuple[np.ndarray, ...]:
    _has_positions(np.ndim(x))
    return np.nonzero(x)


@sized(_numpys_nonzero)
def nonzero(x: Any, *, size: int | None = None, fill_value: int = -1) -> Any:
    """The positions (i64) of true (nonzero) elements in row-major order, an array for each dimension.

    With `size` each has so many, those behind the last `fill_value`; where there are more, it is an IndexError.
    ShapeError for a negative size, or an x without dimensions.
    """
    return _found(as_tensor(x), size, operator.index(fill_value), "nonzero")


def _found(tensor: Tensor, size: Any, fill: int, name: str) -> tuple[Tensor, ...]:
    _has_positions(tensor.ndim)
    place = _positions(flatten(as_bool(tensor)), size, -1, name)
    strides = [product(tensor.shape[axis + 1 :]) for axis in range(tensor.ndim)]
    parts = [place // max(stride, 1) % max(count, 1) for stride, count in zip(strides, tensor.shape, strict=True)]
    return tuple(where(place < 0, fill, part) for part in parts)


def _numpys_argwhere(x: np.ndarray) -> np.ndarray:
    _has_positions(np.ndim(x))
    return np.argwhere(x)


@sized(_numpys_argwhere)
def argwhere(x: Any, *, size: int | None = None, fill_value: int = -1) -> Any:
    """The positions (i64) of true (nonzero) elements in row-major order, [count, dimensions].

    With `size` there are so many, those behind the last `fill_value`; where there are more, it is an IndexError.
    ShapeError for a negative size, or an x without dimensions.
    """
    return stack(_found(as_tensor(x), size, operator.index(fill_value), "argwhere"), axis=1)


def _fit(condition: tuple[int, ...], shape: tuple[int, ...], axis: int | None) -> None:
    """Raise ShapeError unless a condition says something of each element (or slice along the axis) of a shape."""
    wanted = shape if axis is None else (shape[normalize_axis(axis, len(shape))],)
    if condition != wanted:
        what = "all elements" if axis is None else f"slices along axis {axis}"
        raise ShapeError(f"a condition {list(condition)} is not one for {what} of {list(shape)}")


def _numpys_compress(condition: Any, x: Any, axis: int | None = None) -> np.ndarray:
    _fit(np.shape(condition), np.shape(x), axis)
    return np.compress(np.ravel(condition), x, axis)


@sized(_numpys_compress)
def compress(condition: Any, x: Any, axis: int | None = None, *, size: int | None = None, fill_value: float = 0) -> Any:
    """The elements of x, in row-major order, where a condition of its shape is true: `x[condition]`.

    With an axis, the slices along it for which a condition [N] is true. With `size` there are so many, those behind the
    last `fill_value`; where there are more, it is an IndexError. ShapeError for a negative size, or a condition that is
    not one for all elements.
    """
    tensor, flags = as_tensor(x), as_bool(condition)
    _fit(flags.shape, tensor.shape, axis)
    if axis is None:
        tensor, flags, axis = flatten(tensor), flatten(flags), 0
    place = normalize_axis(axis, tensor.ndim)
    found = _positions(flags, size, -1, "compress")
    fill = as_tensor(fill_value, tensor.dtype)
    if not flags.size:
        return broadcast_to(fill, (*tensor.shape[:place], found.size, *tensor.shape[place + 1 :]))
    is_there = reshape(found >= 0, (found.size, *(1 for _ in tensor.shape[place + 1 :])))
    return where(is_there, Take(tensor, found.clip(0, None), axis=place), fill)


def _numpys_unique(x: np.ndarray, *arguments: Any, **options: Any) -> Any:
    return np.unique(x, *arguments, **options)


@sized(_numpys_unique)
def unique(
    x: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements in order; where each is first, where each of x is among them, and how often each is.

    What is asked for comes in that order, as in NumPy. NaN are equal, unless `equal_nan` is false. With an axis, it is
    of slices, which cannot be compiled. With `size` there are so many elements, those behind the last `fill_value`
    (None: the last again), which are at -1 and 0 times; where there are more, it is an IndexError. UnsupportedError for
    an axis in a compiled function; ShapeError for a negative size, or no elements.
    """
    if axis is not None:
        raise UnsupportedError("slices along an axis are compared by NumPy alone", advice="Leave size= out, on arrays.")
    tensor, count = as_tensor(x), checked_size(size)
    order = argsort(flatten(tensor))
    ordered = Take(flatten(tensor), order, axis=0) if tensor.size else flatten(tensor)
    if not ordered.size and count and fill_value is None:
        raise ShapeError("of no elements none are different", advice="Say with fill_value= what is in their place.")
    is_first = _firsts(ordered, equal_nan)
    places = _positions(is_first, count, ordered.size, "unique")
    is_there = places < ordered.size
    inside = places.clip(0, max(ordered.size - 1, 0))
    values = Take(ordered, inside, axis=0) if ordered.size else as_tensor(np.zeros(count, ordered.dtype.numpy))
    found = [values if fill_value is None else where(is_there, values, as_tensor(fill_value, values.dtype))]
    if return_index:
        first = Take(order, inside, axis=0) if ordered.size else places
        found.append(where(is_there, first, -1))
    if return_inverse:
        found.append(reshape(_inverse(order, cumsum(is_first) - 1), tensor.shape))
    if return_counts:
        end = scalar_constant(ordered.size, i64).reshape(1)
        found.append(concatenate([places[1:], end]) - places if count else places)
    return tuple(found) if len(found) > 1 else found[0]


def _firsts(ordered: Tensor, equal_nan: bool) -> Tensor:
    """Which elements of a sorted tensor are others than those before them."""
    if not ordered.size:
        return as_tensor(np.zeros(0, np.bool_))
    later, earlier = ordered[1:], ordered[:-1]
    is_other = not_equal(later, earlier)
    if equal_nan and ordered.dtype.is_float:
        is_other = is_other & (isnan(later) & isnan(earlier)).logical_not()
    return concatenate([as_tensor(np.ones(1, np.bool_)), is_other])


def _inverse(order: Tensor, number: Tensor) -> Tensor:
    """The numbers of elements in order, each where its element was before."""
    zeros = broadcast_to(scalar_constant(0, i64), order.shape)
    return ScatterAdd(zeros, order, number, axis=0) if order.size else order


def repeat(x: Any, repeats: Any, axis: int | None = None, size: int | None = None) -> Any:
    """Each element along an axis (None: in row-major order) `repeats` times in a row.

    `repeats` may also hold a number for each element. In a compiled function where it is computed, `size` says how long
    the result is, and the last element fills what is behind the others; where they are more, it is an IndexError.
    ShapeError for repeats that are no integers from 0 up, or not one for each element.
    """
    if size is None and hasattr(repeats, "__array__") and not is_tracing():
        shape = (product(np.shape(x)),) if axis is None else np.shape(x)
        place = normalize_axis(axis or 0, len(shape))
        return take(x, _repeated(_known_counts(np.asarray(repeats)), shape, place), axis)
    return repeated(x, repeats, axis, size)


def _repeat(x: Any, repeats: Any, axis: int | None = None, size: int | None = None) -> Tensor:
    tensor = flatten(x) if axis is None else as_tensor(x)
    place = 0 if axis is None else normalize_axis(axis, tensor.ndim)
    if size is not None:
        return _repeated_at_most(tensor, as_indices(repeats), place, checked_size(size))
    counts = _known_counts(repeats)
    if counts.size == 1:
        return _spread_out(tensor, int(counts.flat[0]), place)
    return Take(tensor, constant(_repeated(counts, tensor.shape, place)), axis=place)


_repeat.__name__ = "repeat"
repeated = public(_repeat)
METHODS.update(repeat=repeat, flatnonzero=flatnonzero, nonzero=nonzero, argwhere=argwhere, unique=unique)


def _known_counts(repeats: Any) -> np.ndarray:
    """Numbers of repetitions. ShapeError where they are no integers, or not known while tracing."""
    if isinstance(repeats, Tensor):
        advice = "Say with size= how long, or pass it as a tuple or as an array that is no argument of the function."
        raise ShapeError(f"repeats must be known, to know how long the result is, got {repeats.type}", advice=advice)
    counts = np.asarray(repeats)
    if counts.size and counts.dtype.kind not in "iu":
        raise ShapeError(f"repeats must be integers, got {repeats!r}")
    return counts.astype(np.int64)


def _repeated(counts: np.ndarray, shape: tuple[int, ...], place: int) -> np.ndarray:
    """The positions along an axis of what is repeated."""
    if counts.size == 1:
        counts = np.broadcast_to(counts.reshape(1), shape[place : place + 1])
    if counts.shape != (shape[place],) or (counts < 0).any():
        what = f"repeats of shape {list(counts.shape)}"
        raise ShapeError(f"{what} for axis {place} of {list(shape)}: there is one number for each element, from 0 up")
    return np.repeat(np.arange(counts.size), counts)


def _repeated_at_most(tensor: Tensor, counts: Tensor, place: int, size: int) -> Tensor:
    length = tensor.shape[place]
    counts = broadcast_to(counts, (length,)) if counts.size == 1 and counts.ndim < 2 else counts
    if counts.shape != (length,) or (size and not length):
        raise ShapeError(f"{counts.type} for axis {place} of {tensor.type}: there is one number for each element")
    if not length:
        return tensor
    ends = cumsum(counts)
    reason = f"repeat makes more than size={size} elements, or repeats one less than 0 times"
    total = where(any_of(counts < 0), -1, ends[-1])
    total = CheckedIndex([total], sizes=(size + 1,), from_end=False, reported_as=reason)
    wanted = Iota(shape=(size,), axis=0, dtype=i64)
    return Take(tensor, where(wanted < total, searchsorted(ends, wanted, side="right"), length - 1), axis=place)


def _spread_out(tensor: Tensor, repeats: int, place: int) -> Tensor:
    """Each element along an axis equally often."""
    if repeats < 0:
        raise ShapeError(f"repeats must not be negative, got {repeats}")
    before, size, after = tensor.shape[:place], tensor.shape[place], tensor.shape[place + 1 :]
    spread = broadcast_to(expand_dims(tensor, place + 1), (*before, size, repeats, *after))
    return reshape(spread, (*before, size * repeats, *after))
