"""Along an axis, what neighbours differ by and what elements come to: differences and running products."""

from __future__ import annotations

import operator
from typing import Any

from blu.dialects.core.axes import normalize_axis
from blu.dialects.core.dtypes import as_dtype, bool_, i64
from blu.dialects.tensor.arithmetic import not_equal, subtract
from blu.dialects.tensor.arrangement import along, broadcast_to, concatenate, flatten
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.prefixes import prefixes
from blu.dialects.tensor.promotion import as_tensor, converted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError

__all__ = ["cumprod", "diff"]


@public
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours along an axis, `n` times over; of bools, whether they differ.

    `prepend` and `append` (numbers, or tensors of x's other sizes) are put before and behind x first.
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
    """Running products along an axis (None: in row-major order). Integers multiply as i64 unless a `dtype` is given.

    They are formed in a tree, in logarithmically many steps, and so are their gradients, of zeros as well.
    """
    tensor = as_tensor(x)
    target = as_dtype(dtype) if dtype is not None else tensor.dtype if tensor.dtype.is_float else i64
    tensor = converted(tensor, target)
    return _running_product(flatten(tensor), 0) if axis is None else along(_running_product, tensor, axis)


def _running_product(tensor: Tensor, axis: int) -> Tensor:
    [found] = prefixes(lambda one, other: [one[0] * other[0]], [tensor], [axis])
    return found
