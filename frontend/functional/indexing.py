"""Reading and writing at positions known only at run time, and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blu.dialects.core.axes import normalize_axis, without_axis
from blu.dialects.core.dtypes import as_dtype, bool_, i64, u8
from blu.dialects.core.op import Op
from blu.dialects.ops import creation, sorting
from blu.dialects.ops import indexing as ops
from blu.dialects.ops.index_check import CheckedIndex
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.arithmetic import as_bool, minimum, where
from blu.dialects.tensor.arrangement import along, as_shape, broadcast_to, flatten, moveaxis, reshape
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.folding import cumsum
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import as_tensor, common_dtype, converted, scalar_constant, strengthened
from blu.dialects.tensor.tensor import Tensor
from blu.dialects.tensor.updating import check_way, fitted, with_rows
from blu.errors import ShapeError

__all__ = [
    "argsort",
    "dynamic_slice",
    "dynamic_update_slice",
    "masked_scatter",
    "one_hot",
    "put_along_axis",
    "scatter_add",
    "sort",
    "take",
    "take_along_axis",
    "top_k",
]


@method
def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """The slices of x at `indices` along an axis (None: of the elements in row-major order).

    Negative indices count from the end. An index outside of the axis is an IndexError: at once where the indices are
    known, else when the program runs.
    """
    tensor = flatten(x) if axis is None else as_tensor(x)
    place = 0 if axis is None else normalize_axis(axis, tensor.ndim)
    return ops.Take(tensor, as_indices(indices, tensor.shape[place]), axis=place)


@method
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Tensor:
    """Per position the element of x that stands at the index along the axis; all other dimensions broadcast.

    ShapeError for indices of another number of dimensions.
    """
    tensor = as_tensor(x)
    place = normalize_axis(axis, tensor.ndim)
    found = as_indices(indices, tensor.shape[place])
    if found.ndim != tensor.ndim:
        raise ShapeError(f"indices must have as many dimensions as {tensor.type}, got {found.type}")
    common = broadcast_shapes(without_axis(tensor.shape, place), without_axis(found.shape, place))
    tensor, found = (_with_shape(item, common, place) for item in (tensor, found))
    return ops.TakeAlongAxis(tensor, found, axis=place)


def _with_shape(tensor: Tensor, others: tuple[int, ...], axis: int) -> Tensor:
    """The tensor broadcast to the shape `others` in all dimensions but the axis."""
    return broadcast_to(tensor, (*others[:axis], tensor.shape[axis], *others[axis:]))


@public
def scatter_add(x: Any, indices: Any, updates: Any, axis: int = 0) -> Tensor:
    """x with `updates` (of the shape of take(x, indices, axis), or broadcast to it) added at `indices` along the axis.

    Repeated indices add up. An index outside of the axis is an IndexError.
    """
    mixed = strengthened(x, updates)
    dtype = common_dtype(*mixed)
    tensor, added = (as_tensor(value, dtype) for value in mixed)
    place = normalize_axis(axis, tensor.ndim)
    found = as_indices(indices, tensor.shape[place])
    shape = (*tensor.shape[:place], *found.shape, *tensor.shape[place + 1 :])
    return ops.ScatterAdd(tensor, found, broadcast_to(added, shape), axis=place)


def _starts(starts: Sequence[Any]) -> list[Tensor]:
    return [as_indices(start) for start in starts]


@public
def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Any) -> Tensor:
    """A window of `sizes` whose first element is at `starts` (an integer or 0-d tensor per dimension).

    A window that would reach outside is moved inside, as in XLA; negative starts mean 0.
    """
    return ops.DynamicSlice(as_tensor(x), _starts(starts), sizes=as_shape(sizes))


@public
def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Tensor:
    """x with the window at `starts` replaced by `update`, which is converted to x's dtype; windows move as above."""
    tensor = as_tensor(x)
    return ops.DynamicUpdateSlice(tensor, as_tensor(update, tensor.dtype), _starts(starts))


def _sortable(x: Any) -> Tensor:
    tensor = as_tensor(x)
    return converted(tensor, u8) if tensor.dtype == bool_ else tensor


def _ordered(op: type[Op], x: Any, axis: int | None, descending: bool) -> Tensor:
    """What an op that orders gives along an axis (None: for all elements in row-major order)."""
    tensor, axis = (flatten(_sortable(x)), 0) if axis is None else (_sortable(x), axis)
    return along(lambda whole, place: op(whole, axis=place, descending=descending), tensor, axis)


@method
def sort(x: Any, axis: int | None = -1, descending: bool = False) -> Tensor:
    """The elements in order along an axis (None: all of them): stable, NaN last in both directions."""
    return converted(_ordered(sorting.Sort, x, axis, descending), as_tensor(x).dtype)


@method
def argsort(x: Any, axis: int | None = -1, descending: bool = False) -> Tensor:
    """The positions (i64) of the elements in sorted order along an axis (None: in row-major order, of all elements).

    It is stable, and NaN come last in both directions.
    """
    return _ordered(sorting.Argsort, x, axis, descending)


@method
def top_k(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest elements along an axis, the largest first, and their positions (i64); or the k smallest.

    Of equal elements the lower position comes first; NaN comes last.
    """
    tensor = as_tensor(x)
    last = tensor.ndim - 1
    if largest and (not tensor.ndim or normalize_axis(axis, tensor.ndim) == last):
        return sorting.TopK(tensor, k=k)
    turned = moveaxis(tensor, axis, last)
    places = sorting.ArgTopK(turned, k=k, largest=bool(largest))
    values = ops.TakeAlongAxis(turned, places, axis=last)
    return moveaxis(values, last, axis), moveaxis(places, last, axis)


@method
def put_along_axis(x: Any, indices: Any, values: Any, axis: int = -1, how: str = "set") -> Tensor:
    """x with `values` at the indices along the axis: where `take_along_axis(x, indices, axis)` reads, this writes.

    `how` is set, add, subtract, multiply, divide, power, min or max, as of `x.at`. Of equal indices the last
    one's value is set.
    """
    tensor = as_tensor(x)
    check_way(how, tensor)
    normalize_axis(axis, tensor.ndim)
    numbers = creation.Iota(shape=(tensor.size,), axis=0, dtype=i64).reshape(tensor.shape)
    positions = take_along_axis(numbers, indices, axis)
    updates = flatten(fitted(as_tensor(values, tensor.dtype), positions.shape))
    return reshape(with_rows(flatten(tensor), flatten(positions), updates, how), tensor.shape)


@method
def masked_scatter(x: Any, mask: Any, values: Any) -> Tensor:
    """x with the first, second ... of `values` (row-major) at the first, second ... place where the mask is true.

    The mask broadcasts to x. Where it is true more often than there are values, the run stops with an IndexError.
    """
    tensor = as_tensor(x)
    flags = flatten(broadcast_to(as_bool(as_tensor(mask)), tensor.shape))
    source = flatten(as_tensor(values, tensor.dtype))
    if not tensor.size:
        return tensor
    number = cumsum(flags)
    reason = f"masked_scatter has {source.size} values, fewer than the mask has places"
    total = CheckedIndex([number[-1]], sizes=(source.size + 1,), from_end=False, reported_as=reason)
    source = source if source.size else broadcast_to(scalar_constant(0, tensor.dtype), (1,))
    # No number exceeds the total, of which the result must depend: what nothing uses is not checked.
    found = where(flags, take(source, minimum(number, total).clip(1, None) - 1), flatten(tensor))
    return reshape(found, tensor.shape)


@public
def one_hot(indices: Any, depth: int, dtype: Any = "f32") -> Tensor:
    """1 at the index and 0 elsewhere along a new last dimension of size `depth`; an index outside of it gives zeros."""
    return ops.OneHot(as_indices(indices), depth=depth, dtype=as_dtype(dtype))
