"""What scatter_add gives on a GPU to the last bit: rows with updates added in the order that pieces of runs give."""

from __future__ import annotations

import ml_dtypes
import numpy as np

WARP, WARPS = 32, 4


def scatter_in_pieces(table: np.ndarray, indices: np.ndarray, updates: np.ndarray, piece: int) -> np.ndarray:
    """`table` [rows, columns] with `updates` [count, columns], whose sorted places are cut into pieces."""
    wide = np.float32 if table.dtype in (np.float16, ml_dtypes.bfloat16) else table.dtype
    rows = indices % len(table)
    order = np.argsort(rows, kind="stable")
    result = table.copy()
    for row in np.unique(rows):
        places = np.flatnonzero(rows[order] == row)
        terms, old = updates[order[places]].astype(wide), table[row].astype(wide)
        parts = [terms[places // piece == number] for number in np.unique(places // piece)]
        if len(parts) == 1:
            result[row] = one_by_one([old, *terms]).astype(table.dtype)
        else:
            result[row] = (old + joined([one_by_one(part) for part in parts])).astype(table.dtype)
    return result


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """The beginning of a run, and what warps have found of its continuations, 32 neighbouring ones each in turn."""
    beginning, *others = parts
    numbers = np.arange(len(others))
    shares = [[others[number] for number in numbers[numbers // WARP % WARPS == warp]] for warp in range(WARPS)]
    return one_by_one([beginning, *(one_by_one(share) for share in shares if share)])


def one_by_one(terms: list[np.ndarray] | np.ndarray) -> np.ndarray:
    """Their sum, from the first on."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
