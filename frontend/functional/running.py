"""Along an axis, what neighbours differ by and what elements come to: differences, running products and extremes."""

from __future__ import annotations

import operator
from typing import Any

from blu.dialects.core.axes import normalize_axis
from blu.dialects.core.dtypes import as_dtype, bool_, summing_dtype, u8
from blu.dialects.core.op import Op
from blu.dialects.ops import scan
from blu.dialects.tensor.arithmetic import not_equal, subtract
from blu.dialects.tensor.arrangement import along, broadcast_to, concatenate, flatten, reshape
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import as_tensor, converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError

__all__ = ["cummax", "cummin", "cumprod", "diff", "logcumsumexp"]


@public
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours along an axis, `n` times over; of bools, whether they differ.

    `prepend` and `append` (numbers, or tensors of x's other sizes) are put before and behind x first. ShapeError for a
    negative `n`.
    """
    tensor, count = as_tensor(x), operator.index(n)
    if count < 0:
        raise ShapeError(f"n must not be negative, got {count}")
    place = normalize_axis(axis, tensor.ndim)
    if not count:
        return tensor
    parts = [None if part is None else _beside(part, tensor, place) for part in (prepend, append)]
    ends = [part for part in (parts[0], tensor, parts[1]) if part is not None]
    tensor = concatenate(ends, place) if len(ends) > 1 else tensor
    lead = (slice(None),) * place
    for _ in range(count):
        later, earlier = tensor[(*lead, slice(1, None))], tensor[(*lead, slice(0, -1))]
        tensor = not_equal(later, earlier) if tensor.dtype == bool_ else subtract(later, earlier)
    return tensor


def _beside(part: Any, tensor: Tensor, axis: int) -> Tensor:
    """What is put beside a tensor: as it is, or a number as a slice of one element along the axis."""
    given = as_tensor(part, tensor.dtype) if isinstance(part, bool | int | float) else as_tensor(part)
    return given if given.ndim else broadcast_to(given, (*tensor.shape[:axis], 1, *tensor.shape[axis + 1 :]))


@method
def cumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Running products along an axis (None: in row-major order). Integers multiply in 64 bits, or in a `dtype`.

    f16 and bf16 multiply in f32. Gradients are right where elements are 0 as well.
    """
    tensor = as_tensor(x)
    target = as_dtype(dtype) if dtype is not None else summing_dtype(tensor.dtype)
    return _running(scan.Cumprod, converted(tensor, target), axis)


def _running(op: type[Op], tensor: Tensor, axis: int | None) -> Tensor:
    """What an op carries along an axis (None: through all elements in row-major order)."""
    if axis is None:
        return op(flatten(tensor), axis=0)
    return along(lambda whole, place: op(whole, axis=place), tensor, axis)


@method
def cummax(x: Any, axis: int | None = None, return_indices: bool = False) -> Any:
    """The largest element so far along an axis (None: in row-major order); NaN from the first NaN on.

    With `return_indices`, also the positions (i64) along the axis where they are, of equals the last, as in torch. The
    gradient goes there.
    """
    return _extreme(scan.Cummax, x, axis, return_indices)


@method
def cummin(x: Any, axis: int | None = None, return_indices: bool = False) -> Any:
    """The smallest element so far along an axis (None: in row-major order), as `cummax`."""
    return _extreme(scan.Cummin, x, axis, return_indices)


def _extreme(op: type[Op], x: Any, axis: int | None, return_indices: bool) -> Any:
    given = as_tensor(x)
    tensor = converted(given, u8) if given.dtype == bool_ else given
    tensor, axis = (flatten(tensor), 0) if axis is None else (tensor, axis)
    values = _running(op, tensor, axis)
    found = converted(values, given.dtype)
    if not return_indices:
        return found
    if not tensor.ndim:
        return found, scan.place_along(reshape(tensor, 1), 0).reshape(())
    return found, scan.where_found(tensor, values, normalize_axis(axis, tensor.ndim))


@method
def logcumsumexp(x: Any, axis: int | None = None) -> Tensor:
    """log(cumsum(exp(x))) along an axis (None: in row-major order), without overflow; f16 and bf16 are added in f32."""
    (tensor,) = promoted_floats(x)
    return _running(scan.LogCumsumExp, tensor, axis)
