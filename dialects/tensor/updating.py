"""Tensors with some of their elements changed: `x.at[key].set(values)`.

Each is composed of sorting, `scatter_add` of whole numbers and `take`: elements are told which update is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from blu.dialects.core.dtypes import bool_, i64, product
from blu.dialects.ops.creation import Iota
from blu.dialects.ops.indexing import DynamicUpdateSlice, ScatterAdd, Take
from blu.dialects.ops.sorting import Argsort
from blu.dialects.tensor.arithmetic import (
    add,
    divide,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    subtract,
    where,
)
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, flatten, reshape
from blu.dialects.tensor.basic_indexing import as_key_entries, single_window
from blu.dialects.tensor.function import public_as
from blu.dialects.tensor.prefixes import prefixes
from blu.dialects.tensor.promotion import as_tensor, scalar_constant
from blu.dialects.tensor.tensor import METHODS, Tensor
from blu.errors import DTypeError, ShapeError, no_attribute

__all__ = ["at"]

Binary = Callable[[Any, Any], Tensor]
# What becomes of an element and its update, and of two updates of one element.
WAYS: dict[str, tuple[Binary, Binary]] = {
    "add": (add, add),
    "set": (lambda old, new: new, lambda old, new: new),
    "subtract": (subtract, add),
    "multiply": (multiply, multiply),
    "power": (power, multiply),
    "divide": (divide, multiply),
    "min": (minimum, minimum),
    "max": (maximum, maximum),
}


class AtKey:
    """Elements of a tensor or an array: `x.at[key]`. Its methods give new values; x stays as it is."""

    __slots__ = ("_key", "_x")

    def __init__(self, x: Any, key: Any):
        self._x, self._key = x, key

    def get(self) -> Any:
        """x[key]."""
        return at_get(self._x, self._key)

    def set(self, values: Any) -> Any:
        """x with `values` at the key, broadcast to the shape of x[key]; of equal indices, the last one's stays."""
        return at_update(self._x, self._key, values, "set")

    def add(self, values: Any) -> Any:
        """x with `values` added at the key. Equal indices add up."""
        return at_update(self._x, self._key, values, "add")

    def subtract(self, values: Any) -> Any:
        """x, of numbers, with `values` subtracted at the key. Equal indices add up."""
        return at_update(self._x, self._key, values, "subtract")

    def multiply(self, values: Any) -> Any:
        """x times `values` at the key. Of equal indices, all are multiplied."""
        return at_update(self._x, self._key, values, "multiply")

    def divide(self, values: Any) -> Any:
        """x, of floats, divided by `values` at the key: of equal indices, by the product of all, which may overflow."""
        return at_update(self._x, self._key, values, "divide")

    def power(self, values: Any) -> Any:
        """x, of numbers, to the power of `values` at the key. Of equal indices, to that of the product of all."""
        return at_update(self._x, self._key, values, "power")

    def min(self, values: Any) -> Any:
        """At the key the least of x's element and its `values`."""
        return at_update(self._x, self._key, values, "min")

    def max(self, values: Any) -> Any:
        """At the key the largest of x's element and its `values`."""
        return at_update(self._x, self._key, values, "max")

    def __getattr__(self, name: str) -> NoReturn:
        ways = [*WAYS, "get"]
        error = no_attribute("x.at[key]", name, lambda: ways)
        if not name.startswith("_"):
            error.add_note(f"It has {', '.join(ways)}.")
        raise error


class at:  # noqa: N801 (`x.at` and `blu.at(x)` are read as functions)
    """`at(x)[key].set(values)`: x with other elements; also add, subtract, multiply, divide, power, min, max, and get,
    which reads.

    Tensors and arrays have it as `x.at[key]`. A key is what `x[key]` takes, or one mask, with `values` for all that it
    selects. `values` are converted to x's dtype. An index outside of its axis is the IndexError that reading raises.
    """

    __slots__ = ("_x",)

    def __init__(self, x: Any):
        self._x = x

    def __getitem__(self, key: Any) -> AtKey:
        return AtKey(self._x, key)


METHODS["at"] = at


def _at_get(x: Any, key: Any) -> Tensor:
    return as_tensor(x)[key]


def _at_update(x: Any, key: Any, values: Any, how: str) -> Tensor:
    tensor = as_tensor(x)
    updates = as_tensor(values, tensor.dtype)
    check_way(how, tensor)
    if isinstance(key, Tensor) and key.dtype == bool_:
        return _where_masked(tensor, key, updates, how)
    entries = as_key_entries(key, tensor)
    window = single_window(entries, tensor)
    if window is None:
        return _at_positions(tensor, entries, updates, how)
    sizes, starts = window
    if not product(sizes):
        return tensor
    old = tensor[tuple(entries)]
    new = WAYS[how][0](old, fitted(updates, old.shape))
    first = [scalar_constant(start, i64) for start in starts]
    return DynamicUpdateSlice(tensor, reshape(new, sizes), first)


at_get, at_update = public_as("at")(_at_get), public_as("at")(_at_update)


def check_way(how: str, x: Tensor) -> None:
    """Raise ShapeError where there is no such way to update, DTypeError where x cannot be updated so."""
    if how not in WAYS:
        raise ShapeError(f"how must be one of {', '.join(WAYS)}, got {how!r}")
    if how in ("subtract", "power") and x.dtype == bool_:
        raise DTypeError(f"bools have no {how}", advice="Convert them with x.astype first.")
    if how == "divide" and not x.dtype.is_float:
        raise DTypeError(f"only floats can be divided, got {x.type}", advice="Convert it with x.astype first.")


def fitted(updates: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Updates broadcast to the shape of what they change."""
    lead = updates.ndim - len(shape)
    if lead > 0 and set(updates.shape[:lead]) == {1}:
        updates = reshape(updates, updates.shape[lead:])
    try:
        return broadcast_to(updates, shape)
    except ShapeError:
        raise ShapeError(f"values of {updates.type} do not broadcast to the selected shape {list(shape)}") from None


def _where_masked(x: Tensor, mask: Tensor, updates: Tensor, how: str) -> Tensor:
    if mask.shape != x.shape[: mask.ndim]:
        raise ShapeError(f"a mask {mask.type} does not fit the first dimensions of {x.type}")
    rest = x.shape[mask.ndim :]
    if updates.ndim > len(rest) and updates.size > product(rest):
        raise ShapeError(
            f"values of {updates.type} are not one for all places that the mask selects, of shape {list(rest)}",
            advice="blu.masked_scatter(x, mask, values) gives each place a value of its own.",
        )
    flags = broadcast_to(reshape(mask, (*mask.shape, *(1 for _ in rest))), x.shape)
    return where(flags, WAYS[how][0](x, broadcast_to(fitted(updates, rest), x.shape)), x)


def _at_positions(x: Tensor, entries: list[Any], updates: Tensor, how: str) -> Tensor:
    """Updates at the positions that the key reads: of elements, or of rows where it takes last dimensions whole."""
    whole = 0
    while whole < x.ndim and _is_whole(entries[-1 - whole]):
        whole += 1
    lead, rows = x.shape[: x.ndim - whole], x.shape[x.ndim - whole :]
    numbers = Iota(shape=(product(lead),), axis=0, dtype=i64).reshape(lead)
    positions = numbers[tuple(entries[: len(entries) - whole])]
    shape = (*positions.shape, *rows)
    places, changes = flatten(positions), reshape(fitted(updates, shape), (positions.size, *rows))
    is_repeated = not all(entry is None or isinstance(entry, slice | int | np.integer) for entry in entries)
    found = with_rows(reshape(x, (product(lead), *rows)), places, changes, how, is_repeated)
    return reshape(found, x.shape)


def _is_whole(entry: Any) -> bool:
    return isinstance(entry, slice) and entry == slice(None)


def with_rows(x: Tensor, places: Tensor, updates: Tensor, how: str, is_repeated: bool = True) -> Tensor:
    """Updates of the first dimension at `places`, which are from 0 and in order of their updates."""
    count, size = places.size, x.shape[0]
    if not count:
        return x
    if how in ("add", "subtract") and x.dtype != bool_:
        return ScatterAdd(x, places, updates if how == "add" else negative(updates), axis=0)
    number = Iota(shape=(count,), axis=0, dtype=i64) + 1
    if is_repeated:
        places, updates, is_last = _joined(places, updates, how)
        number = where(is_last, number, 0)
    none = broadcast_to(scalar_constant(0, i64), (size,))
    writer = ScatterAdd(none, places, number, axis=0)
    is_written = _beside_rows(writer > 0, x)
    # Elsewhere stands 1, so that no gradient is NaN there.
    new = where(is_written, Take(updates, (writer - 1).clip(0, count - 1), axis=0), scalar_constant(1, x.dtype))
    return where(is_written, WAYS[how][0](x, new), x)


def _joined(places: Tensor, updates: Tensor, how: str) -> tuple[Tensor, Tensor, Tensor]:
    """Places in order, what all updates up to each make at its place, and which are the last of their place."""
    order = Argsort(places, axis=0, descending=False)
    places, updates = Take(places, order, axis=0), Take(updates, order, axis=0)
    join = WAYS[how][1]

    def step(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
        is_same = _beside_rows(one[0] == other[0], other[1])
        earlier = where(is_same, one[1], scalar_constant(1, updates.dtype))
        return [other[0], where(is_same, join(earlier, other[1]), other[1])]

    if how != "set":
        places, updates = prefixes(step, [places, updates], [0, 0])
    return places, updates, concatenate([not_equal(places[1:], places[:-1]), as_tensor(np.ones(1, np.bool_))])


def _beside_rows(flags: Tensor, rows: Tensor) -> Tensor:
    return reshape(flags, (flags.size, *(1 for _ in rows.shape[1:])))
