"""Loops of a row kernel over rows that are added up, as sums of sums of chains.

A chain of n additions of f32 loses up to n / 2^24 of a sum. So a chain has at most `chain` terms, as many of their sums
are a chain again, and so on: of 100,000 rows no number takes part in more than 3 `chain` additions. Sizes alone decide
what is added to what.
"""

from __future__ import annotations

from collections.abc import Callable

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.cpu.rows.sweep import Number
from blu.passes.kernels.cursor import Cursor, LoopBody
from blu.passes.kernels.rows.program import RowProgram
from blu.passes.kernels.rows.reductions import Fold

CHAIN = 64


def rounds(program: RowProgram, number: int) -> bool:
    """Whether a reduction is a sum that rounds, so that the length of its chains matters (not to a product, to whose
    relative error each factor adds alike)."""
    reduction = program.reductions[number]
    return isinstance(reduction, list) and any(fold.combiner.name == "arith.addf" for fold in reduction)


def is_folded(program: RowProgram, number: int) -> bool:
    """Whether what a reduction makes of some rows can be combined with what it makes of others."""
    return isinstance(program.reductions[number], list)


def folds_of(program: RowProgram, number: int) -> list[Fold]:
    """The folds of a reduction that is folded."""
    reduction = program.reductions[number]
    assert isinstance(reduction, list), "only folds have chains"
    return reduction


def steps_of(size: int, inner: int, chain: int) -> list[int]:
    """The steps of the loops that a dimension becomes, outermost first; each of its positions has `inner` terms.

    Without chains (0) it is a single loop.
    """
    steps, span = [1], max(1, chain // max(inner, 1))
    while chain and span < size:
        steps.insert(0, span)
        span *= chain
    return steps


@dataclass(frozen=True)
class ChainedLoop:
    """A loop over `size` positions, in `steps`; what an inner loop carries starts `fresh`, and is merged at its end."""

    number: Number
    size: int
    steps: list[int]
    fresh: list[ir.Value]
    merge: Callable[[Cursor, list[ir.Value], list[ir.Value]], list[ir.Value]]

    def emit(self, cursor: Cursor, carried: list[ir.Value], body: LoopBody) -> list[ir.Value]:
        """What is carried out of all of it; `body` does one position."""
        return self._level(cursor, (self.number(0), self.number(self.size)), 0, carried, body)

    def _level(
        self, cursor: Cursor, bounds: tuple[ir.Value, ir.Value], level: int, carried: list[ir.Value], body: LoopBody
    ) -> list[ir.Value]:
        step = self.steps[level]

        def chain(inner: Cursor, begin: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
            with inner.point:
                end = arith.addi(begin, self.number(step))
                end = arith.minui(end, bounds[1]) if self.size % step else end
            return self.merge(inner, totals, self._level(inner, (begin, end), level + 1, self.fresh, body))

        innermost = level + 1 == len(self.steps)
        return cursor.loop(*bounds, self.number(step), carried, body if innermost else chain)
