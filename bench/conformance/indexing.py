"""What reads and writes at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import blu
from bench.conformance.spelling import along, spells


@spells("__getitem__", concrete=True)
def _getitem(x: Any, key: Any) -> Any:
    """PyTorch takes a list of slices, arrays and None for a tuple of them."""
    if isinstance(key, list):
        key = tuple(key) if any(not isinstance(item, int | bool) for item in key) else np.array(key)
    return x[key]


@spells("narrow", concrete=True)
def _narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    first = int(start) % max(x.shape[dim], 1) if int(start) < 0 else int(start)
    return along(x, dim, slice(first, first + length))


def _window(x: Any, indices: Any, axis: int) -> Any:
    """The part of x that indices speak of in PyTorch, where they may be shorter than x in other dimensions."""
    return x[tuple(slice(None) if at == axis % x.ndim else slice(0, size) for at, size in enumerate(indices.shape))]


@spells("gather")
def _gather(x: Any, dim: int, indices: Any, **_: Any) -> Any:
    if x.ndim == 0:
        return x.reshape(1)[indices.reshape(-1)].reshape(indices.shape)
    if indices.ndim != x.ndim:
        return blu.zeros(indices.shape, dtype=x.dtype)  # indices have no elements
    return blu.take_along_axis(_window(x, indices, dim), indices, axis=dim)


@spells("take_along_dim")
def _take_along_dim(x: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        return blu.take_along_axis(x.flatten(), indices.flatten(), axis=0)
    return blu.take_along_axis(x, indices, axis=dim)


@spells("scatter_add")
def _scatter_add(x: Any, dim: int, indices: Any, values: Any) -> Any:
    if indices.size == 0:
        return +x
    if x.ndim == 0:
        return x + values.reshape(-1)[: indices.size].sum()
    values = values[tuple(slice(0, size) for size in indices.shape)]
    places = [indices if at == dim % x.ndim else blu.iota(indices.shape, at) for at in range(x.ndim)]
    return blu.at(x)[tuple(places)].add(values)


@spells("index_add")
def _index_add(x: Any, dim: int, indices: Any, values: Any, alpha: Any = 1) -> Any:
    if x.ndim == 0:
        return x + alpha * values.sum()
    values = values if values.ndim else values.reshape(1)
    return blu.scatter_add(x, indices.reshape(-1), values * alpha, axis=dim)


@spells("index_select")
def _index_select(x: Any, dim: int, indices: Any) -> Any:
    if x.ndim == 0:
        return x.reshape(1)[indices.reshape(-1)].reshape(())
    return blu.take(x, indices.reshape(-1), axis=dim)


@spells("nn.functional.one_hot", "one_hot", concrete=True)
def _one_hot(x: Any, num_classes: int = -1) -> Any:
    return blu.one_hot(x, int(np.max(x)) + 1 if num_classes == -1 else num_classes, dtype="i64")


@spells("nn.functional.embedding")
def _embedding(weight: Any, indices: Any, **_: Any) -> Any:
    """A row that pads has a gradient here where the function is called; nn.Embedding(padding_idx) leaves it out."""
    return blu.take(weight, indices, axis=0)
