"""Ranks whose compiled program exchanges unsigned integers, some of which would be others as signed ones, and complex
numbers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import blu
from blu.runtime.ranks.team import join_team

DTYPES = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "complex64": np.complex64}
REDUCTIONS = {**dict.fromkeys(("u8", "u32", "u64"), ("sum", "max", "min")), "complex64": ("sum", "mean")}
NUMPY = {"sum": np.add, "max": np.maximum, "min": np.minimum, "mean": lambda a, b: (a + b) / np.complex64(2)}


def exchanged(*arrays: Any) -> list[Any]:
    """What is moved, and then what is added up, or compared."""
    moves = (blu.all_gather, blu.broadcast, blu.all_to_all, blu.permute)
    moved = [move(x, "dp") for x in arrays for move in moves]
    return moved + [
        reduce(x, "dp", reduction=name)
        for x in arrays
        for name in REDUCTIONS.get(x.dtype.name, ())
        for reduce in (blu.all_reduce, blu.reduce_scatter)
    ]


def expected(rank: int) -> list[np.ndarray]:
    """The same of both ranks' arrays."""
    pairs = {name: [given(dtype, other) for other in range(2)] for name, dtype in DTYPES.items()}
    moved = [
        item
        for first, second in pairs.values()
        for item in (np.append(first, second), first, np.array([first[rank], second[rank]]), (second, first)[rank])
    ]
    totals = [NUMPY[how](first, second) for name, (first, second) in pairs.items() for how in REDUCTIONS.get(name, ())]
    return moved + [item for total in totals for item in (total, total[rank : rank + 1])]


def given(dtype: Any, rank: int) -> np.ndarray:
    if dtype is np.complex64:
        return np.array([1 + 2j, -3j], dtype) * (rank + 1)
    return np.array([1, np.iinfo(dtype).max - 7], dtype) + dtype(rank) * dtype(np.iinfo(dtype).max // 2)


def main() -> int:
    """Run by each of two ranks."""
    with join_team() as team:
        arrays = [given(dtype, team.world.rank) for dtype in DTYPES.values()]
        specs = [blu.spec((2,), name) for name in DTYPES]
        compiled = blu.jit(exchanged, mesh=blu.Mesh(dp=2)).trace(*specs).compile("cpu")
        found = [np.asarray(item) for item in compiled(*arrays)]
        for item, right in zip(found, expected(team.world.rank), strict=True):
            assert item.dtype == right.dtype and np.array_equal(item, right), (item, right)
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
