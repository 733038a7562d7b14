"""Transposing a square of vectors in registers."""

from __future__ import annotations

from blu.dialects.core.mlir import ir, vector


def transpose(rows: list[ir.Value]) -> list[ir.Value]:
    """Transpose a square of n vectors of n lanes (n a power of two) in log2(n) rounds of two-operand shuffles."""
    size = len(rows)
    distance = size // 2
    while distance:
        rows = _exchange(rows, distance)
        distance //= 2
    return rows


def _exchange(rows: list[ir.Value], distance: int) -> list[ir.Value]:
    """Swap the off-diagonal halves of all 2 x 2 squares of blocks that are `distance` wide."""
    size = len(rows)
    low = [lane if not lane & distance else size + lane - distance for lane in range(size)]
    high = [lane + distance if not lane & distance else size + lane for lane in range(size)]
    result = list(rows)
    for i in range(size):
        if not i & distance:
            result[i] = vector.shuffle(rows[i], rows[i + distance], low)
            result[i + distance] = vector.shuffle(rows[i], rows[i + distance], high)
    return result
