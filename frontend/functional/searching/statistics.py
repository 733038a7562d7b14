"""What many numbers come to: how often each is, in which of several ranges, and which stand at which place in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dialects.core.dtypes import DType, as_dtype, computing_dtype, f64, i64
from blu.dialects.ops.creation import Iota
from blu.dialects.ops.index_check import CheckedIndex
from blu.dialects.ops.indexing import ScatterAdd, Take, TakeAlongAxis
from blu.dialects.ops.reduction import reduced_shape
from blu.dialects.tensor.arithmetic import ceil, equal, floor, isinf, isnan, minimum, where
from blu.dialects.tensor.arithmetic import round as rounded
from blu.dialects.tensor.arrangement import broadcast_to, flatten, moveaxis, reshape
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.folding import at_the_end, fold_axes
from blu.dialects.tensor.folding import max as largest
from blu.dialects.tensor.folding import min as smallest
from blu.dialects.tensor.folding import sum as summed
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import as_tensor, converted, scalar_constant
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, OutOfRangeError, ShapeError
from blu.frontend.functional.indexing import sort
from blu.frontend.functional.running import diff
from blu.frontend.functional.searching.searching import searchsorted
from blu.frontend.functional.searching.selecting import checked_size, sized

__all__ = ["bincount", "histogram", "median", "nanmedian", "nanquantile", "quantile"]


def _fractional(x: Any) -> Tensor:
    """A tensor of floats: integers as f64."""
    tensor = as_tensor(x)
    return tensor if tensor.dtype.is_float else converted(tensor, f64)


def _numpys_bincount(x: Any, weights: Any = None, minlength: int = 0) -> np.ndarray:
    numbers = np.asarray(x) if np.size(x) else np.asarray(x, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "biu":
        raise ArgumentError(
            f"bincount: counts integers in one dimension, got {numbers.dtype.name}{list(numbers.shape)}"
        )
    if numbers.size and numbers.min() < 0:
        raise OutOfRangeError(f"bincount: counts numbers from 0 up, and one is {numbers.min()}")
    found = np.bincount(numbers, weights, checked_size(minlength))
    return found if weights is None else found.astype(_weighing_dtype(as_dtype(np.asarray(weights).dtype)).numpy)


def _weighing_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_float else f64


@sized(_numpys_bincount)
def bincount(x: Any, weights: Any = None, minlength: int = 0, *, size: int | None = None) -> Any:
    """How often each of 0, 1, 2 ... is among the integers x [N], as i64; with weights [N], the sums of theirs.

    There are as many counts as the largest of x says, and at least `minlength`. In compiled functions there are `size`
    (or `minlength`, if that is more), and another integer than those counted is an IndexError. Sums are in the dtype of
    the weights (f64 of integers). ShapeError for an x of other dimensions, or weights that are not one for each.
    """
    numbers = as_indices(x)
    count = max(checked_size(size), checked_size(minlength))
    if numbers.ndim != 1:
        raise ShapeError(f"counts in one dimension, got {numbers.type}")
    given = None if weights is None else _fractional(weights)
    if given is not None and given.shape != numbers.shape:
        raise ShapeError(f"weights of {given.type} are not one for each of {numbers.type}")
    reason = f"bincount has size={count} counts, of 0 up to that"
    place = CheckedIndex([numbers], sizes=(count,), from_end=False, reported_as=reason) if numbers.size else numbers
    return _tallied(place, given, count)


def _tallied(place: Tensor, weights: Tensor | None, count: int) -> Tensor:
    """How often each place from 0 to count - 1 is there, or the sums of its weights, formed in at least f32."""
    dtype = i64 if weights is None else computing_dtype(weights.dtype)
    zeros = broadcast_to(scalar_constant(0, dtype), (count,))
    if not place.size:
        return zeros if weights is None else converted(zeros, weights.dtype)
    shares = broadcast_to(scalar_constant(1, i64), place.shape) if weights is None else converted(weights, dtype)
    found = ScatterAdd(zeros, converted(place, i64), shares, axis=0)
    return found if weights is None else converted(found, weights.dtype)


@public
def histogram(
    x: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """How many elements of x lie in each of several bins, as i64, and the edges of the bins: (counts, edges).

    `bins` is a number of equal ones within the `range` (low, high), which is that of x where it is None, or the edges
    [B + 1] themselves, from low to high. A bin has its lower edge, and the last one its upper edge as well. Elements
    outside, and NaN, are not counted. With weights, of x's shape, theirs are summed, in their dtype (f64 of integers).
    With `density`, counts are divided by their sum and the widths of the bins, in the dtype of the edges, which is x's
    (f64 of integers). ShapeError for weights of another shape, or no bins; ArgumentError for a range that is none, or
    edges that fall.
    """
    values = flatten(_fractional(x))
    given = None if weights is None else _fractional(weights)
    if given is not None and given.shape != as_tensor(x).shape:
        raise ShapeError(f"weights of {given.type} are not one for each of {as_tensor(x).type}")
    is_number = not isinstance(bins, Tensor) and np.ndim(bins) == 0
    edges = _equal_bins(values, bins, range) if is_number else _known_edges(bins, values.dtype)
    count = edges.shape[0] - 1
    is_inside = (values >= edges[0]) & (values <= edges[-1])
    place = (searchsorted(edges, values, side="right") - 1).clip(0, count - 1)
    found = _tallied(where(is_inside, place, count), None if given is None else flatten(given), count + 1)[:count]
    if not density:
        return found, edges
    shares = converted(found, edges.dtype)
    return shares / summed(shares) / diff(edges), edges


def _equal_bins(values: Tensor, bins: Any, range: Any) -> Tensor:
    """The edges of so many bins of one width. Where all values are equal, they lie around it, as in NumPy."""
    count, wide = checked_size(bins), computing_dtype(values.dtype)
    if not count:
        raise ShapeError("a histogram has at least one bin, got bins=0")
    if range is None:
        ends = [smallest(values), largest(values)] if values.size else [0.0, 1.0]
    else:
        ends = [float(end) for end in range]
        if not np.isfinite(ends).all() or ends[0] > ends[1]:
            raise ArgumentError(f"the range of a histogram is from a finite number to one as large, got {range}")
    low, high = (as_tensor(end, wide) for end in ends)
    apart = where(equal(low, high), scalar_constant(0.5, wide), 0)
    low, high = low - apart, high + apart
    number = Iota(shape=(count + 1,), axis=0, dtype=wide)
    return converted(where(number == count, high, low + number * ((high - low) / count)), values.dtype)


def _known_edges(bins: Any, dtype: DType) -> Tensor:
    edges = as_tensor(bins) if isinstance(bins, Tensor) else as_tensor(np.asarray(bins))
    if edges.ndim != 1 or edges.shape[0] < 2:
        raise ShapeError(f"edges of bins are two numbers or more in one dimension, got {edges.type}")
    if not isinstance(bins, Tensor) and (np.diff(np.asarray(bins, np.float64)) < 0).any():
        raise ArgumentError(f"edges of bins go from low to high, got {bins}")
    return converted(edges, dtype)


@method
def median(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle element over the axes named (None: all) in order, or the mean of the two; NaN if any is NaN.

    ShapeError where there are no elements.
    """
    return _quantiles(x, 0.5, axis, "midpoint", keepdims, skips_nan=False)


@method
def nanmedian(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The median of those elements that are not NaN; NaN where there are none.

    ShapeError where there are no elements.
    """
    return _quantiles(x, 0.5, axis, "midpoint", keepdims, skips_nan=True)


@method
def quantile(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """What a part `q` (of 0 to 1) of the elements over the axes named (None: all) is not above; NaN if any is NaN.

    It is the element at place q * (count - 1) in order. Between two elements, `method` says which: their "lower",
    "higher", "nearest" (the one at an even place, of two that are as near), their "midpoint", or what lies as far
    between them ("linear"). The result has the dimensions of q before those of x. Integers give f64. ShapeError where
    there are no elements, ArgumentError for a q outside of [0, 1] or another method.
    """
    return _quantiles(x, q, axis, method, keepdims, skips_nan=False)


@method
def nanquantile(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """The `quantile` of those elements that are not NaN; NaN where there are none.

    ShapeError and ArgumentError as there.
    """
    return _quantiles(x, q, axis, method, keepdims, skips_nan=True)


def _quantiles(x: Any, q: Any, axis: Any, method: str, keepdims: bool, skips_nan: bool) -> Tensor:
    tensor, parts = _fractional(x), _parts(q)
    axes = fold_axes(axis, tensor.ndim)
    ordered = sort(at_the_end(tensor, axes))
    if not ordered.shape[-1]:
        raise ShapeError(f"axes {list(axes)} of {tensor.type} have no elements, of which none is in the middle")
    wide, flat = computing_dtype(tensor.dtype), flatten(parts)
    last = ordered.shape[-1] - 1
    if skips_nan:
        last = converted(summed(isnan(ordered).logical_not(), -1, keepdims=True) - 1, f64)
    below, above, share = _neighbours(minimum(flat * last, last), method)
    lower, upper = (converted(_at(ordered, place), wide) for place in (below, above))
    found = lower / 2 + upper / 2 if method == "midpoint" else _between(lower, upper, converted(share, wide))
    is_wrong = (flat < 0) | (flat > 1) | isnan(flat)
    is_wrong = is_wrong if skips_nan else is_wrong | isnan(ordered[..., -1:])
    found = moveaxis(converted(where(is_wrong, float("nan"), found), tensor.dtype), -1, 0)
    return reshape(found, (*parts.shape, *reduced_shape(tensor.shape, axes, bool(keepdims))))


def _parts(q: Any) -> Tensor:
    """The parts that a user asks for, as f64. Raises ArgumentError for known ones that are none."""
    if not isinstance(q, Tensor):
        wrong = [part for part in np.ravel(np.asarray(q, np.float64)) if not 0 <= part <= 1]
        if wrong:
            raise ArgumentError(f"q must be from 0 to 1, got {wrong[0]}")
        q = np.asarray(q, np.float64)
    return as_tensor(q, f64)


def _neighbours(place: Tensor, method: str) -> tuple[Tensor, Tensor, Tensor]:
    """The places of the elements on both sides of `place`, and how far it is from the lower to the upper one."""
    place = where(place > 0, place, 0.0)
    below, above = floor(place), ceil(place)
    share = {
        "linear": lambda: place - below,
        "lower": lambda: below - below,
        "higher": lambda: above - below,
        "nearest": lambda: rounded(place) - below,
        "midpoint": lambda: (above - below) / 2,
    }
    if method not in share:
        raise ArgumentError(f"method must be one of {', '.join(share)}, got {method!r}")
    return converted(below, i64), converted(above, i64), share[method]()


def _at(ordered: Tensor, place: Tensor) -> Tensor:
    """The elements at places [Q] along the last dimension, or at places of their own in each row."""
    last = ordered.ndim - 1
    return Take(ordered, place, axis=last) if place.ndim == 1 else TakeAlongAxis(ordered, place, axis=last)


def _between(lower: Tensor, upper: Tensor, share: Tensor) -> Tensor:
    """What lies as far between two numbers, from the one that is nearer; an infinite one only where it is reached."""
    width = where(equal(lower, upper) & isinf(lower), 0.0, upper - lower)
    found = where(share < 0.5, lower + width * share, upper - width * (1 - share))
    found = where((share == 0) & isinf(upper), lower, found)
    return where((share == 1) & isinf(lower), upper, found)
