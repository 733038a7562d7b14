"""Tensors from nothing: constants, ranges, and triangles."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from blu.dialects.arithmetic import equal, where
from blu.dialects.arrangement import as_shape, broadcast_to
from blu.dialects.creation import Iota
from blu.dialects.dtypes import DType, as_dtype, bool_, f64, i64
from blu.dialects.function import method, public
from blu.dialects.promotion import as_tensor, converted, python_dtype, scalar_constant
from blu.dialects.tensor import Tensor
from blu.errors import ShapeError


@public
def asarray(value: Any, dtype: Any = None) -> Tensor:
    """A tensor of a number, nested lists of numbers, or an array; Python numbers alone are bool, i64 or f64."""
    return as_tensor(value, None if dtype is None else as_dtype(dtype))


@public
def full(shape: Any, value: Any, dtype: Any = None) -> Tensor:
    """A tensor of `shape` filled with one value."""
    return broadcast_to(as_tensor(value, None if dtype is None else as_dtype(dtype)), as_shape(shape))


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
    """start, start + step, ... before stop (`arange(n)` counts from 0): i64 for integers, f64 for floats, as NumPy."""
    first, limit = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError("arange: step cannot be 0")
    count = builtins.max(math.ceil((limit - first) / step), 0)
    natural = max(map(python_dtype, (first, limit, step)), key=(bool_, i64, f64).index)
    target = as_dtype(dtype) if dtype is not None else natural if natural != bool_ else i64
    wide = target if natural != f64 or target.is_float else f64
    counted = Iota(shape=(count,), axis=0, dtype=wide)
    return converted(_scaled(counted, first, step, wide), target)


def _scaled(counted: Tensor, first: float, step: float, dtype: DType) -> Tensor:
    """counted * step + first, less what changes nothing."""
    if step != 1:
        counted = counted * scalar_constant(step, dtype)
    return counted + scalar_constant(first, dtype) if first != 0 else counted


@public
def linspace(start: float, stop: float, count: int, dtype: Any = "f32") -> Tensor:
    """`count` evenly spaced numbers from start to stop, both included."""
    target = as_dtype(dtype)
    positions = np.linspace(start, stop, count)
    if count <= 2:
        return as_tensor(positions, target)
    step = (stop - start) / (count - 1)
    return converted(_scaled(Iota(shape=(count,), axis=0, dtype=f64), start, step, f64), target)


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
    """The last two dimensions' lower triangle (column - row at most `offset`), zeros above it."""
    tensor = _matrix(x)
    return where(_column_less_row(tensor.shape[-2:]) <= offset, tensor, scalar_constant(0, tensor.dtype))


@method
def triu(x: Any, offset: int = 0) -> Tensor:
    """The last two dimensions' upper triangle (column - row at least `offset`), zeros below it."""
    tensor = _matrix(x)
    return where(_column_less_row(tensor.shape[-2:]) >= offset, tensor, scalar_constant(0, tensor.dtype))


def _matrix(x: Any) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"a triangle needs at least two dimensions, got {tensor.type}")
    return tensor


@method
def diagonal(x: Any, offset: int = 0) -> Tensor:
    """The elements of the last two dimensions where column - row is `offset`, along one last dimension."""
    tensor = _matrix(x)
    rows, columns = tensor.shape[-2:]
    first_row, first_column = builtins.max(-offset, 0), builtins.max(offset, 0)
    count = builtins.max(builtins.min(rows - first_row, columns - first_column), 0)
    merged = tensor.reshape((*tensor.shape[:-2], rows * columns))
    start = first_row * columns + first_column
    return merged[..., start : start + count * (columns + 1) : columns + 1] if count else merged[..., :0]
