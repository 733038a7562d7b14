"""Tensors from nothing: constants, ranges, and triangles."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import DType, as_dtype, computing_dtype, f64, i64
from blu.dialects.ops.creation import Iota
from blu.dialects.tensor.arithmetic import equal, floor, where
from blu.dialects.tensor.arrangement import as_shape, broadcast_to
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import as_tensor, converted, scalar_constant, strong
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError

__all__ = [
    "arange",
    "asarray",
    "diagonal",
    "eye",
    "full",
    "full_like",
    "iota",
    "linspace",
    "ones",
    "ones_like",
    "tri",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


@public
def asarray(value: Any, dtype: Any = None) -> Tensor:
    """A tensor of a number, nested lists of numbers, or an array; Python numbers alone are bool, i64 or f64."""
    return strong(as_tensor(value, None if dtype is None else as_dtype(dtype)))


@public
def full(shape: Any, value: Any, dtype: Any = None) -> Tensor:
    """A tensor of `shape` filled with one value."""
    return broadcast_to(asarray(value, dtype), as_shape(shape))


@public
def zeros(shape: Any, dtype: Any = "f32") -> Tensor:
    """A tensor of zeros (f32 unless another dtype is given)."""
    return full(shape, 0, dtype)


@public
def ones(shape: Any, dtype: Any = "f32") -> Tensor:
    """A tensor of ones (f32 unless another dtype is given)."""
    return full(shape, 1, dtype)


def _like(x: Any, value: Any, dtype: Any) -> Tensor:
    tensor = as_tensor(x)
    return full(tensor.shape, value, tensor.dtype if dtype is None else dtype)


@public
def full_like(x: Any, value: Any, dtype: Any = None) -> Tensor:
    """A tensor of x's shape, and dtype unless another is given, filled with one value."""
    return _like(x, value, dtype)


@public
def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """Zeros in x's shape, and dtype unless another is given."""
    return _like(x, 0, dtype)


@public
def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """Ones in x's shape, and dtype unless another is given."""
    return _like(x, 1, dtype)


@public
def iota(shape: Any, axis: int, dtype: Any = "i64") -> Tensor:
    """0, 1, 2, ... along one axis of a tensor of `shape`."""
    return Iota(shape=as_shape(shape), axis=axis, dtype=as_dtype(dtype))


@public
def arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> Tensor:
    """start, start + step, ... before stop (`arange(n)` counts from 0): i64 for integers, f64 for floats, as NumPy.

    In an integer dtype, floats are counted as NumPy counts them: from start to start + step, both cut to integers, and
    on in steps of their distance. Raises ShapeError where there is no end.
    """
    first, limit = (0, start) if stop is None else (start, stop)
    count = _count_of_range(first, limit, step)
    target = as_dtype(dtype) if dtype is not None else _dtype_of_numbers(first, limit, step)
    step = step if count > 1 else 1
    if target.is_float:
        wide = computing_dtype(target)
        return converted(_scaled(Iota(shape=(count,), axis=0, dtype=wide), first, step, wide), target)
    distance = int(first + step) - int(first)
    return _scaled(Iota(shape=(count,), axis=0, dtype=target), int(first), _wrapped(distance, target), target)


def _count_of_range(first: float, limit: float, step: float) -> int:
    """How many numbers there are from `first` in steps before `limit`."""
    what = f"from {first} to {limit} in steps of {step}"
    if step == 0:
        raise ShapeError("arange: step cannot be 0")
    length = (limit - first) / step
    if not abs(length) < 2**60:
        raise ShapeError(f"arange: {what} has no end, or one too far away", advice="Give finite numbers.")
    if length == 0 and limit != first:  # too small for a float, or an infinite step: the first number, if any
        return int(math.copysign(1, length) > 0)
    return builtins.max(math.ceil(length), 0)


def _dtype_of_numbers(*values: float) -> DType:
    return f64 if builtins.any(isinstance(value, float | np.floating) for value in values) else i64


def _wrapped(value: int, dtype: DType) -> int:
    """An integer as the dtype holds it, in which arithmetic wraps."""
    return int(np.asarray(value % 2**dtype.bits, np.uint64).astype(dtype.numpy)) if dtype.is_integer else value


def _scaled(counted: Tensor, first: float, step: float, dtype: DType) -> Tensor:
    """counted * step + first, less what changes nothing."""
    if step != 1:
        counted = counted * scalar_constant(step, dtype)
    return counted + scalar_constant(first, dtype) if first != 0 else counted


@public
def linspace(start: Any, stop: Any, count: int, dtype: Any = "f32", endpoint: bool = True) -> Tensor:
    """`count` evenly spaced numbers from start to stop, which is among them unless `endpoint` is false.

    In integer dtypes they are rounded down, as in NumPy. Tensors as start and stop, which broadcast, give [count, ..].
    ShapeError for a negative `num`.
    """
    target, (size,) = as_dtype(dtype), as_shape(count)
    if not endpoint and size >= 0:
        return linspace(start, stop, size + 1, dtype)[:size]
    if size < 0:
        raise ShapeError(f"linspace: there cannot be {size} numbers")
    if isinstance(start, Tensor | np.ndarray) or isinstance(stop, Tensor | np.ndarray):
        return _evenly(start, stop, size, target)
    if size <= 2:
        numbers = np.array([start, stop][:size], np.float64)
        return as_tensor(np.floor(numbers) if target.is_integer else numbers, target)
    place = Iota(shape=(size,), axis=0, dtype=f64)
    evenly = _scaled(place, start, (stop - start) / (size - 1), f64)
    exact = where(place == size - 1, float(stop), evenly)
    return converted(floor(exact) if target.is_integer else exact, target)


def _evenly(start: Any, stop: Any, size: int, target: DType) -> Tensor:
    """The numbers of `linspace` between tensors."""
    first, last = (converted(as_tensor(end), f64) for end in (start, stop))
    place = Iota(shape=(size,), axis=0, dtype=f64).reshape((size, *(1,) * max(first.ndim, last.ndim)))
    evenly = first + place * ((last - first) / max(size - 1, 1))
    exact = where(place == size - 1, last, evenly) if size > 1 else evenly
    return converted(floor(exact) if target.is_integer else exact, target)


@public
def eye(rows: int, columns: int | None = None, offset: int = 0, dtype: Any = "f32") -> Tensor:
    """[rows, columns] with ones where column - row is `offset`, zeros elsewhere."""
    shape = (rows, rows if columns is None else columns)
    return converted(equal(_column_less_row(shape), offset), as_dtype(dtype))


@public
def tri(rows: int, columns: int | None = None, offset: int = 0, dtype: Any = "f32") -> Tensor:
    """[rows, columns] with ones where column - row is at most `offset`, zeros elsewhere."""
    shape = (rows, rows if columns is None else columns)
    return converted(_column_less_row(shape) <= offset, as_dtype(dtype))


def _column_less_row(shape: tuple[int, ...]) -> Tensor:
    return Iota(shape=(1, shape[1]), axis=1, dtype=i64) - Iota(shape=(shape[0], 1), axis=0, dtype=i64)


@method
def tril(x: Any, offset: int = 0) -> Tensor:
    """The last two dimensions' lower triangle (column - row at most `offset`), zeros above it.

    ShapeError where x has fewer than two dimensions.
    """
    tensor = _matrix(x)
    return where(_column_less_row(tensor.shape[-2:]) <= offset, tensor, scalar_constant(0, tensor.dtype))


@method
def triu(x: Any, offset: int = 0) -> Tensor:
    """The last two dimensions' upper triangle (column - row at least `offset`), zeros below it.

    ShapeError where x has fewer than two dimensions.
    """
    tensor = _matrix(x)
    return where(_column_less_row(tensor.shape[-2:]) >= offset, tensor, scalar_constant(0, tensor.dtype))


def _matrix(x: Any) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"a triangle needs at least two dimensions, got {tensor.type}")
    return tensor


@method
def diagonal(x: Any, offset: int = 0) -> Tensor:
    """The elements of the last two dimensions where column - row is `offset`, along one last dimension.

    ShapeError where x has fewer than two dimensions.
    """
    tensor = _matrix(x)
    rows, columns = tensor.shape[-2:]
    first_row, first_column = builtins.max(-offset, 0), builtins.max(offset, 0)
    count = builtins.max(builtins.min(rows - first_row, columns - first_column), 0)
    merged = tensor.reshape((*tensor.shape[:-2], rows * columns))
    start = first_row * columns + first_column
    return merged[..., start : start + count * (columns + 1) : columns + 1] if count else merged[..., :0]
