"""Where code of a kernel goes: cursors into blocks, and the loops they emit."""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.core.mlir import arith, ir, scf

LoopBody = Callable[["Cursor", ir.Value, list[ir.Value]], list[ir.Value]]


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
