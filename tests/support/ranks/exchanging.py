"""Ranks whose compiled program exchanges unsigned integers, some of which would be others as signed ones."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import blu
from blu.runtime.ranks.team import join_team

DTYPES = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
ADDED = ("u8", "u32", "u64")


def exchanged(*arrays: Any) -> list[Any]:
    """What is moved, and then what is added up."""
    moves = (blu.all_gather, blu.broadcast, blu.all_to_all, blu.permute)
    moved = [move(x, "dp") for x in arrays for move in moves]
    return moved + [
        add(x, "dp") for x in arrays if x.dtype.name in ADDED for add in (blu.all_reduce, blu.reduce_scatter)
    ]


def expected(rank: int) -> list[np.ndarray]:
    """The same of both ranks' arrays."""
    pairs = {name: [given(dtype, other) for other in range(2)] for name, dtype in DTYPES.items()}
    moved = [
        item
        for first, second in pairs.values()
        for item in (np.append(first, second), first, np.array([first[rank], second[rank]]), (second, first)[rank])
    ]
    sums = [first + second for name, (first, second) in pairs.items() if name in ADDED]
    return moved + [item for total in sums for item in (total, total[rank : rank + 1])]


def given(dtype: Any, rank: int) -> np.ndarray:
    return np.array([1, np.iinfo(dtype).max - 7], dtype) + dtype(rank)


def main() -> int:
    """Run by each of two ranks."""
    with join_team() as team:
        arrays = [given(dtype, team.world.rank) for dtype in DTYPES.values()]
        specs = [blu.spec((2,), name) for name in DTYPES]
        program = blu.jit(exchanged, mesh=blu.Mesh(dp=2)).trace(*specs).compile("cpu").program
        found = [np.asarray(item) for item in program.run(arrays)]
        for item, right in zip(found, expected(team.world.rank), strict=True):
            assert item.dtype == right.dtype and np.array_equal(item, right), (item, right)
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
