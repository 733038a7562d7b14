"""The walk of a block over tiles in shared memory, each copied while the one before is worked on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, cp_async
from blu.passes.gpu.kernel import when
from blu.passes.gpu.numbers import Number

CopyTile = Callable[[Number, Number], None]
"""Begins to copy the tile of a number to shared memory, some bytes after the first stage."""

Advance = Callable[[list[ir.Value], ir.Value, ir.Value], Sequence[ir.Value]]
"""What is carried on, from what was, the number of a tile, and the bytes from the first stage to its own."""


@dataclass(frozen=True)
class TileWalk:
    """Tiles 0 to `count`, each in one of two stages of `stage` bytes."""

    copy: CopyTile
    count: Number
    stage: int

    def begin(self) -> None:
        """Begin to copy the first tile; where there is none, what is copied is never read, but see `end`."""
        self.copy(0, 0)

    def end(self) -> None:
        """Let shared memory be written again. Without a tile, copies begun before the walk would still be under way."""
        if isinstance(self.count, int) and self.count > 0:
            return
        with when(numbers.is_equal(self.count, 0)):
            cp_async.wait_all()
            barrier.sync()

    def run(self, begin: Number, end: Number, carried: list[ir.Value], advance: Advance) -> list[ir.Value]:
        """Work on the tiles from `begin` to `end`, after those before."""
        if isinstance(begin, int) and begin == end:
            return carried
        loop = scf.ForOp(numbers.number(begin), numbers.number(end), numbers.number(1), carried)
        with ir.InsertionPoint(loop.body):
            place = loop.induction_variable
            cp_async.wait_all()
            barrier.sync()
            following = numbers.add(place, 1)
            with when(numbers.is_below(following, self.count)):
                self.copy(following, self._stage(following))
            scf.yield_(advance(list(loop.inner_iter_args), place, self._stage(place)))
        return list(loop.results)

    def _stage(self, place: ir.Value) -> ir.Value:
        return numbers.multiply(numbers.remainder(place, 2), self.stage)


def tiles_of(limit: Number, rows: int) -> Number:
    """Tiles of `rows` rows that hold `limit` rows."""
    return -(-limit // rows) if isinstance(limit, int) else numbers.divide(numbers.add(limit, rows - 1), rows)
