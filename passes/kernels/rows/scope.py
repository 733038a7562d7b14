"""Where code of a row kernel goes: cursors into blocks, scopes that remember what has been emitted, and loops.

A value is emitted in the outermost scope that knows the indices it depends on, so what is the same for a whole row is
computed once, before the loop over its columns.
"""

from __future__ import annotations

from collections.abc import Callable

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir
from blu.passes.kernels.cursor import Cursor

ROW = -1  # A dimension that only stands for "inside of the row loop": a reduction's result depends on it.


@dataclass(frozen=True)
class LanePosition:
    """The elements base + offset ... + count - 1 along the vector dimension, held in `lanes` lanes."""

    base: ir.Value
    offset: int
    lanes: int
    count: int

    @property
    def full(self) -> bool:
        return self.count == self.lanes


@dataclass
class Scope:
    """A region of code in which the indices of the dimensions `bound` are known.

    `indices` are those that this scope adds (the vector dimension's is in `position`), `memo` what it has emitted.
    """

    bound: frozenset[int]
    cursor: Cursor
    indices: dict[int, ir.Value] = field(default_factory=dict)
    position: LanePosition | None = None
    memo: dict[object, object] = field(default_factory=dict)

    def find(self, key: object, make: Callable[[], object]) -> object:
        """What was made for `key` in this scope, made now at its cursor if it was not."""
        if key not in self.memo:
            with self.cursor.point:
                self.memo[key] = make()
        return self.memo[key]
