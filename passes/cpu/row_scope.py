"""Where code of a row kernel goes: cursors into blocks, scopes that remember what has been emitted, and loops.

A value is emitted in the outermost scope that knows the indices it depends on, so what is the same for a whole row is
computed once, before the loop over its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from blu.dialects.mlir import arith, ir, scf

LoopBody = Callable[["Cursor", ir.Value, list[ir.Value]], list[ir.Value]]
ROW = -1  # A dimension that only stands for "inside of the row loop": a reduction's result depends on it.


class Cursor:
    """The place in a block where code is added: its end, or before the loop that is being filled."""

    def __init__(self, block: ir.Block):
        self.block = block
        self.point = ir.InsertionPoint(block)

    def stand_before(self, operation: ir.Operation) -> None:
        self.point = ir.InsertionPoint(operation)

    def loop(
        self, lower: ir.Value, upper: ir.Value, step: ir.Value, carried: list[ir.Value], body: LoopBody
    ) -> list[ir.Value]:
        """Emit an scf.for; while `body(cursor, index, carried)` fills it, this cursor stands before it."""
        with self.point:
            loop = scf.ForOp(lower, upper, step, carried)
        inner = Cursor(loop.body)
        self.stand_before(loop.operation)
        results = body(inner, loop.induction_variable, list(loop.inner_iter_args))
        with inner.point:
            scf.YieldOp(results)
        self.point = ir.InsertionPoint(self.block)
        return list(loop.results)


@dataclass(frozen=True)
class Position:
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
    position: Position | None = None
    memo: dict[object, object] = field(default_factory=dict)

    def find(self, key: object, make: Callable[[], object]) -> object:
        """What was made for `key` in this scope, made now at its cursor if it was not."""
        if key not in self.memo:
            with self.cursor.point:
                self.memo[key] = make()
        return self.memo[key]


def split_index(
    cursor: Cursor, index: ir.Value, sizes: dict[int, int], constant: Callable[[int], ir.Value]
) -> dict[int, ir.Value]:
    """The indices of several dimensions (in walking order) behind one linear index."""
    indices: dict[int, ir.Value] = {}
    left = list(sizes.items())
    with cursor.point:
        while len(left) > 1:
            dim, size = left.pop()
            indices[dim] = arith.remui(index, constant(max(size, 1)))
            index = arith.divui(index, constant(max(size, 1)))
    if left:
        indices[left[0][0]] = index
    return indices
