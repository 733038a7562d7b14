"""Functions that make, move and choose complex numbers: what they do to one part, they do to the other."""

from __future__ import annotations

import inspect
from typing import Any

from blu.dialects.core.dtypes import bool_, complex_dtype, part_dtype
from blu.dialects.tensor import arrangement, updating
from blu.dialects.tensor.arithmetic import astype, not_equal, where
from blu.dialects.tensor.basic_indexing import getitem
from blu.dialects.tensor.complex_tensor import Complex, is_complex
from blu.errors import DTypeError
from blu.frontend.complexes.arithmetic import truth_of
from blu.frontend.complexes.folding import to_dtype
from blu.frontend.complexes.parts import as_complex
from blu.frontend.complexes.rules import by_parts, complex_of, each
from blu.frontend.functional import collective, creation, indexing, linear, padding, resizing, running, sampling
from blu.frontend.functional.searching import segments, selecting

BY_PARTS = (
    ("x", (getitem, updating.at_get, selecting.repeated, indexing.take, indexing.take_along_axis)),
    ("x", (indexing.dynamic_slice, linear.trace, creation.diagonal, creation.tril, creation.triu)),
    ("x", (resizing.unfold, resizing.fold, sampling.pixel_shuffle, sampling.pixel_unshuffle)),
    ("x", (arrangement.reshape, arrangement.flatten, arrangement.transpose, arrangement.swapaxes)),
    ("x", (arrangement.moveaxis, arrangement.broadcast_to, arrangement.matrix_transpose, arrangement.expand_dims)),
    ("x", (arrangement.squeeze, arrangement.split, arrangement.unstack, arrangement.flip, arrangement.roll)),
    ("x", (arrangement.tile, collective.all_gather, collective.broadcast, collective.all_to_all, collective.permute)),
    ("tensors", (arrangement.concatenate, arrangement.stack)),
    ("x value", (padding.pad,)),
    ("x prepend append", (running.diff,)),
    ("x updates", (indexing.scatter_add,)),
    ("x update", (indexing.dynamic_update_slice,)),
    ("x values", (indexing.masked_scatter,)),
    ("x", (segments.segment_sum, segments.segment_mean)),
)
each(BY_PARTS, by_parts)
# The ways of `.at[]` and `put_along_axis` that do to one part what they do to the other.
WAYS = ("set", "add")


def _updating(function: Any, place: int) -> None:
    """Of a function of x, positions, values and how: x stays complex, or real, as it is."""
    parts = by_parts_of(function, "x values")

    def rule(x: Any, key: Any, values: Any, *others: Any, **named: Any) -> Any:
        how = named.get("how", others[place] if len(others) > place else "set")
        if how not in WAYS:
            raise DTypeError(f"{how} does not take complex numbers", advice="Compute the values, and set them.")
        if not is_complex(x):
            raise DTypeError(f"complex values do not become {x.dtype}", advice="Convert x first, or take blu.real.")
        return parts(x, key, values, *others, **named)

    complex_of(function)(rule)


def by_parts_of(function: Any, names: str) -> Any:
    """What the rule by parts of a function is."""
    from blu.dialects.tensor.function import COMPLEX_RULES

    by_parts(names, function)
    return COMPLEX_RULES[function]


_updating(updating.at_update, 0)
_updating(indexing.put_along_axis, 1)
_chosen = by_parts_of(where, "x y")


def _of_each(function: Any) -> None:
    """Of a function that gives something for each of its tensors, of real ones something real."""
    parts = by_parts_of(function, "tensors")

    def rule(*tensors: Any, **options: Any) -> list[Any]:
        found = zip(tensors, parts(*tensors, **options), strict=True)
        return [whole if is_complex(given) else whole.real for given, whole in found]

    complex_of(function)(rule)


def _adding_up(function: Any) -> None:
    """Of what ranks reduce: complex numbers have no order."""
    parts = by_parts_of(function, "x")

    def rule(*arguments: Any, **named: Any) -> Any:
        reduction = inspect.signature(function).bind(*arguments, **named).arguments.get("reduction", "sum")
        if reduction in ("max", "min"):
            raise DTypeError(f"complex numbers have no order: there is no {reduction} of them")
        return parts(*arguments, **named)

    complex_of(function)(rule)


_adding_up(collective.all_reduce)
_adding_up(collective.reduce_scatter)
_of_each(arrangement.meshgrid)
_of_each(arrangement.broadcast_arrays)


@complex_of(where)
def _where(condition: Any, x: Any, y: Any) -> Any:
    flags = truth_of(condition)
    return _chosen(flags, x, y) if is_complex(x) or is_complex(y) else where(flags, x, y)


@complex_of(astype)
def _astype(x: Any, dtype: Any) -> Any:
    """Of complex numbers, a bool says which are not 0."""
    if complex_dtype(dtype) is None and dtype in (bool, bool_, "bool"):
        return not_equal(x, 0)
    return to_dtype(x, dtype)


@complex_of(creation.asarray)
def _asarray(value: Any, dtype: Any = None) -> Any:
    return as_complex(value) if dtype is None else astype(value, dtype)


@complex_of(creation.full)
def _full(shape: Any, value: Any, dtype: Any = None) -> Any:
    return arrangement.broadcast_to(creation.asarray(value, dtype), shape)


@complex_of(creation.zeros)
def _zeros(shape: Any, dtype: Any) -> Any:
    return creation.full(shape, 0, dtype)


@complex_of(creation.ones)
def _ones(shape: Any, dtype: Any) -> Any:
    return creation.full(shape, 1, dtype)


@complex_of(creation.eye)
def _eye(rows: int, columns: int | None = None, offset: int = 0, dtype: Any = None) -> Any:
    wanted = complex_dtype(dtype)
    assert wanted is not None, "the other arguments are integers"
    return as_complex(creation.eye(rows, columns, offset, part_dtype(wanted)))


@complex_of(creation.linspace)
def _linspace(start: Any, stop: Any, count: int, dtype: Any, endpoint: bool = True) -> Any:
    """Of the parts of both ends, each evenly spaced."""
    wanted = complex_dtype(dtype)
    if wanted is None:
        raise DTypeError(f"complex numbers do not become {dtype}", advice="Give a complex dtype.")
    ends = [(complex(start).real, complex(stop).real), (complex(start).imag, complex(stop).imag)]
    return Complex(*(creation.linspace(*pair, count, part_dtype(wanted), endpoint) for pair in ends))


@complex_of(creation.full_like)
def _full_like(x: Any, value: Any, dtype: Any = None) -> Any:
    return creation.full(x.shape, value, x.dtype if dtype is None else dtype)


@complex_of(creation.zeros_like)
def _zeros_like(x: Any, dtype: Any = None) -> Any:
    return creation.full_like(x, 0, dtype)


@complex_of(creation.ones_like)
def _ones_like(x: Any, dtype: Any = None) -> Any:
    return creation.full_like(x, 1, dtype)
