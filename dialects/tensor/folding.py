"""Reductions as NumPy has them: axes may count from the end or be left out, small integers are summed as i64."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dialects.core.axes import normalize_axes
from blu.dialects.core.dtypes import DType, as_dtype, bool_, computing_dtype, f64, product, summing_dtype, u8
from blu.dialects.core.op import Op
from blu.dialects.ops import reduction as ops
from blu.dialects.ops import scan
from blu.dialects.tensor.arithmetic import as_bool, exp, isfinite, log, square, where
from blu.dialects.tensor.arrangement import along, flatten, moveaxis, reshape
from blu.dialects.tensor.function import method
from blu.dialects.tensor.promotion import as_tensor, converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, warn

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "cumsum",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def fold_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction: as elsewhere, and a tensor without dimensions may be said to have one, as in NumPy."""
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    return () if not ndim and given in ((0,), (-1,)) else normalize_axes(axis, ndim)


def _folded(op: type[Op], tensor: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return op(tensor, axes=fold_axes(axis, tensor.ndim), keepdims=bool(keepdims))


def _summing_dtype(tensor: Tensor, dtype: Any) -> DType:
    """The dtype of a sum: the one asked for, else 64 bits for bools and integers."""
    return as_dtype(dtype) if dtype is not None else summing_dtype(tensor.dtype)


@method
def sum(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over the axes named (None: all). Integers and bools are summed in 64 bits unless a `dtype` is given."""
    tensor = as_tensor(x)
    return _folded(ops.Sum, converted(tensor, _summing_dtype(tensor, dtype)), axis, keepdims)


@method
def prod(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over the axes named (None: all). Integers and bools multiply in 64 bits unless a `dtype` is given."""
    tensor = as_tensor(x)
    return _folded(ops.Prod, converted(tensor, _summing_dtype(tensor, dtype)), axis, keepdims)


@method
def max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over the axes named (None: all); NaN if any is NaN. Raises ShapeError where there is none."""
    return _folded(ops.Max, as_tensor(x), axis, keepdims)


@method
def min(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over the axes named (None: all), as `max`."""
    return _folded(ops.Min, as_tensor(x), axis, keepdims)


@method
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether at least one element over the axes named (None: all) is true (nonzero)."""
    return _folded(ops.Any, as_bool(x), axis, keepdims)


@method
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether every element over the axes named (None: all) is true (nonzero)."""
    return _folded(ops.All, as_bool(x), axis, keepdims)


def _position(op: type[Op], x: Any, axis: Any, keepdims: bool) -> Tensor:
    tensor = as_tensor(x)
    tensor = converted(tensor, u8) if tensor.dtype == bool_ else tensor
    axes = fold_axes(axis, tensor.ndim)
    if len(axes) == 1:
        return op(tensor, axis=axes[0], keepdims=bool(keepdims))
    merged = at_the_end(tensor, axes)
    return reshape(op(merged, axis=merged.ndim - 1, keepdims=False), ops.reduced_shape(tensor.shape, axes, keepdims))


def at_the_end(tensor: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The axes named, in the tensor's order, as one last dimension, of size 1 where there are none."""
    turned = moveaxis(tensor, axes, range(tensor.ndim - len(axes), tensor.ndim))
    kept = turned.shape[: tensor.ndim - len(axes)]
    return reshape(turned, (*kept, product(turned.shape[len(kept) :])))


@method
def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The position (i64) of the largest element along an axis, the first of equals.

    Over several axes (None: all), it is that in row-major order among their elements, whatever order names them. A NaN
    counts as larger than any number.
    """
    return _position(ops.Argmax, x, axis, keepdims)


@method
def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The position (i64) of the smallest element along an axis, the first of equals.

    Over several axes (None: all), it is that in row-major order among their elements, whatever order names them. A NaN
    counts as smaller than any number.
    """
    return _position(ops.Argmin, x, axis, keepdims)


@method
def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Running sums along an axis (None: in row-major order). Integers are added up in 64 bits, or in a `dtype`."""
    tensor = as_tensor(x)
    tensor = converted(tensor, _summing_dtype(tensor, dtype))
    if axis is None:
        return scan.Cumsum(flatten(tensor), axis=0)
    return along(lambda whole, place: scan.Cumsum(whole, axis=place), tensor, axis)


@method
def mean(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over the axes named (None: all). Integers give f64; f16 and bf16 are computed in f32.

    The mean of no elements is NaN, with a RuntimeWarning while tracing.
    """
    tensor = as_tensor(x)
    target = _averaging_dtype(tensor, dtype)
    count = product(tensor.shape[place] for place in fold_axes(axis, tensor.ndim))
    if not count:
        warn(f"mean of no elements of {tensor.type} is NaN", RuntimeWarning)
    total = sum(converted(tensor, computing_dtype(target)), axis, keepdims=keepdims)
    return converted(total / float(count), target)


def _averaging_dtype(tensor: Tensor, dtype: Any) -> DType:
    """The dtype of a mean: the one asked for, else f64 for bools and integers."""
    return as_dtype(dtype) if dtype is not None else tensor.dtype if tensor.dtype.is_float else f64


def _deviating(x: Any, dtype: Any) -> Tensor:
    """The operand of a variance in the dtype that its result has, which must be a float."""
    tensor = as_tensor(x)
    target = _averaging_dtype(tensor, dtype)
    if not target.is_float:
        raise DTypeError(f"{target} does not hold fractions", advice="Give a float dtype, and convert the result.")
    return converted(tensor, target)


@method
def var(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The variance over the axes named (None: all): squared distances from the mean, divided by count - `correction`.

    x is converted to `dtype` first where one is given. Integers give f64; f16 and bf16 are computed in f32. DTypeError
    for a `dtype` that does not hold fractions.
    """
    tensor = _deviating(x, dtype)
    wide = converted(tensor, computing_dtype(tensor.dtype))
    count = product(tensor.shape[place] for place in fold_axes(axis, tensor.ndim))
    if count <= correction:
        warn(f"variance of {count} elements with {correction=} is not finite", RuntimeWarning)
    distances = square(wide - mean(wide, axis, keepdims=True)) if count else wide
    total = sum(distances, axis, keepdims=keepdims)
    return converted(total / float(np.maximum(count - correction, 0)), tensor.dtype)


@method
def std(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The standard deviation: the square root of `var`. Its gradient is 0 where all elements are equal.

    DTypeError for a `dtype` that does not hold fractions.
    """
    tensor = _deviating(x, dtype)
    variance = var(converted(tensor, computing_dtype(tensor.dtype)), axis, correction, keepdims)
    is_zero = variance == 0
    # The slope of the root is infinite at 0, where that of the variance is 0: there the root is passed by.
    return converted(where(is_zero, variance, where(is_zero, 1, variance).sqrt()), tensor.dtype)


@method
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over the axes named (None: all), without overflow; -inf where there is nothing above -inf."""
    (tensor,) = promoted_floats(x)
    axes = fold_axes(axis, tensor.ndim)
    if not product(tensor.shape[place] for place in axes):
        return log(sum(tensor, axes, keepdims=keepdims))
    wide = converted(tensor, computing_dtype(tensor.dtype))
    largest = max(wide, axes, keepdims=True)
    shift = where(isfinite(largest), largest, 0.0)
    total = log(sum(exp(wide - shift), axes, keepdims=True)) + shift
    kept = total if keepdims else reshape(total, ops.reduced_shape(tensor.shape, axes, False))
    return converted(kept, tensor.dtype)
