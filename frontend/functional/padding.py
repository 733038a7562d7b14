"""Elements put around others: a constant, or those that are there once more, as NumPy has it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from blu.dialects.ops.shape import Pad
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, flip
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError

__all__ = ["pad"]


def _reflected(positions: np.ndarray, size: int) -> np.ndarray:
    period = max(2 * (size - 1), 1)
    return np.minimum(positions % period, period - positions % period) if size > 1 else np.zeros_like(positions)


def _mirrored(positions: np.ndarray, size: int) -> np.ndarray:
    return np.minimum(positions % (2 * size), 2 * size - 1 - positions % (2 * size))


# Which of `size` elements stands at positions, of which some are before 0 or behind the last.
SOURCES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "edge": lambda positions, size: np.clip(positions, 0, size - 1),
    "reflect": _reflected,
    "symmetric": _mirrored,
    "wrap": lambda positions, size: positions % size,
}


@public
def pad(x: Any, widths: Any, value: Any = 0, mode: str = "constant") -> Tensor:
    """x with elements around it. `widths` is one number, a pair (before, after), or a pair per dimension.

    They are `value`, or by `mode` x's own: its first and last ("edge"), those next to them, in reverse order
    ("reflect"), the first and last and those next to them ("symmetric"), or those at the other end ("wrap"), again and
    again where more are wanted than there are. A negative width takes elements away; "wrap" goes round what is left.
    ArgumentError for another mode; ShapeError for widths that are none of these or take away more than there is, and
    where a mode reads elements of which there are none.
    """
    tensor = as_tensor(x)
    pairs = _widths(widths, tensor.ndim)
    if mode == "constant":
        return _with_constant(tensor, pairs, value)
    if mode not in SOURCES:
        raise ArgumentError(f"mode={mode!r} is none of constant, {', '.join(SOURCES)}")
    for axis, pair in enumerate(pairs):
        tensor = _with_own(tensor, axis, pair, mode) if any(pair) else tensor
    return tensor


def _widths(widths: Any, ndim: int) -> list[tuple[int, int]]:
    if not isinstance(widths, Iterable):
        width = operator.index(widths)
        return [(width, width)] * ndim
    entries = list(widths)
    if entries and not isinstance(entries[0], Iterable):
        entries = [entries] * ndim
    if len(entries) != ndim or any(len(entry) != 2 for entry in entries):
        raise ShapeError(f"widths must be a number, a pair, or {ndim} pairs (before, after), got {widths!r}")
    return [(operator.index(before), operator.index(after)) for before, after in entries]


def _kept(size: int, pair: tuple[int, int]) -> tuple[int, int]:
    """From which element up to which (excluded) negative widths leave elements. Raises ShapeError for too many."""
    if size + sum(pair) < 0:
        raise ShapeError(f"widths {pair} take away more than the {size} elements that there are")
    start = min(max(-pair[0], 0), size)
    return start, max(min(size + pair[1], size), start)


def _with_constant(tensor: Tensor, pairs: list[tuple[int, int]], value: Any) -> Tensor:
    low, high = [], []
    for axis, pair in enumerate(pairs):
        size = tensor.shape[axis]
        start, stop = _kept(size, pair)
        tensor = _run(tensor, axis, np.arange(start, stop))
        # A width that takes away more than there is takes from the other side's as well.
        low.append(min(max(pair[0], 0), size + sum(pair)))
        high.append(size + sum(pair) - low[-1] - (stop - start))
    return Pad(tensor, as_tensor(value, tensor.dtype), low=tuple(low), high=tuple(high))


def _with_own(tensor: Tensor, axis: int, pair: tuple[int, int], mode: str) -> Tensor:
    start, stop = _kept(tensor.shape[axis], pair)
    if mode == "wrap":
        tensor, pair = _run(tensor, axis, np.arange(start, stop)), (max(pair[0], 0), max(pair[1], 0))
    size = tensor.shape[axis]
    positions = np.arange(-pair[0], size + pair[1])
    if positions.size and not size:
        raise ShapeError(f"mode={mode!r} needs elements along axis {axis}, of which {tensor.type} has none")
    runs = _runs(SOURCES[mode](positions, size)) if size else []
    return concatenate([_run(tensor, axis, run) for run in runs], axis) if runs else _run(tensor, axis, positions)


def _runs(sources: np.ndarray) -> list[np.ndarray]:
    """The positions cut into as few runs as there are, each of neighbours upwards or downwards, or of one again."""
    runs, start = [], 0
    steps = np.diff(sources)
    while start < len(sources):
        stop = start + 1
        if stop < len(sources) and abs(steps[start]) <= 1:
            others = np.flatnonzero(steps[start:] != steps[start])
            stop = start + 1 + int(others[0]) if others.size else len(sources)
        runs.append(sources[start:stop])
        start = stop
    return runs


def _run(tensor: Tensor, axis: int, sources: np.ndarray) -> Tensor:
    """The elements along an axis at positions that follow each other, upwards or downwards, or are all the same."""
    first, last = (int(sources[0]), int(sources[-1])) if sources.size else (0, -1)
    lead, low = (slice(None),) * axis, min(first, last)
    if first == last and len(sources) > 1:
        own = tensor[(*lead, slice(first, first + 1))]
        return broadcast_to(own, (*own.shape[:axis], len(sources), *own.shape[axis + 1 :]))
    part = tensor[(*lead, slice(low, low + len(sources)))]
    return flip(part, axis) if first > last and sources.size else part
