"""A block of threads with some rows of a head, and its tiles in shared memory: what the launches of attention share."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.fragments import Fragments, RightFragments
from blu.passes.gpu.attention.operands import HeadMatrix, Problem
from blu.passes.gpu.attention.schedule import REGISTERS
from blu.passes.gpu.attention.scores import (
    STRIP,
    LeftLoads,
    Mask,
    RunningSoftmax,
    Sums,
    add_product,
    flatten,
    unflatten,
    zeros,
)
from blu.passes.gpu.attention.tiles import MatrixLoader, MatrixTile
from blu.passes.gpu.attention.walk import Advance, TileWalk, tiles_of
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import Thread
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory


@dataclass(frozen=True)
class RowPosition:
    """Where a thread is: its lane, its warp, and its block's part of the rows of a head."""

    thread: ir.Value
    lane: ir.Value
    own_warp: ir.Value
    block: ir.Value
    part: ir.Value
    parts: int
    together: int = 1

    @property
    def head(self) -> ir.Value:
        """The number of the head."""
        if self.together == 1:
            return numbers.divide(self.block, self.parts)
        first = numbers.multiply(numbers.divide(self.block, self.parts * self.together), self.together)
        return numbers.add(first, numbers.remainder(self.block, self.together))

    @classmethod
    def of(cls, here: Thread, parts: int, together: int = 1) -> RowPosition:
        """Blocks number the parts of each head, head after head; `together` heads take turns."""
        thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
        part = numbers.remainder(block if together == 1 else numbers.divide(block, together), parts)
        return cls(
            thread,
            numbers.remainder(thread, WARP),
            numbers.divide(thread, WARP),
            block,
            part,
            parts,
            together,
        )


@dataclass(frozen=True)
class RowTiles:
    """A block of `warps` warps with `strips` times 16 rows each; `left` says where these are as left factors.

    `memory` is the shared memory of its tiles.
    """

    warps: int
    strips: int
    left: str
    memory: SharedMemory

    @property
    def keeps(self) -> bool:
        """Whether left factors stay in registers."""
        return self.left == REGISTERS

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.warps * self.strips * STRIP


@dataclass(frozen=True)
class TileBlock:
    """A block of `warps` warps, of `strips` times 16 rows each; tiles are in shared memory, from `shared` on."""

    problem: Problem
    position: RowPosition
    warps: int
    strips: int
    shared: ir.Value

    def tile(self, offset: int, rows: int, columns: int) -> MatrixTile:
        """The tile that is so many bytes further."""
        return MatrixTile(numbers.add(self.shared, offset), rows, columns, self.problem.size)

    def loader(self, matrix: HeadMatrix) -> MatrixLoader:
        """What copies tiles of a matrix."""
        return MatrixLoader(matrix, self.position.thread, self.warps * WARP)

    def own_row(self) -> Number:
        """The first row of the thread's warp, of those of the block."""
        return numbers.multiply(self.position.own_warp, STRIP * self.strips)

    def left(self, tile: MatrixTile, own_row: Number) -> LeftLoads:
        """The warp's rows of a tile as left factors."""
        fragments = Fragments(tile, self.position.lane)
        return [fragments.left(numbers.add(own_row, STRIP * strip)).load for strip in range(self.strips)]


@dataclass(frozen=True)
class SeenKeys:
    """The tiles of `keys` keys, and of their values, that a block of `queries` queries walks over.

    `places` are those of the first tiles in shared memory, and `stage` bytes further are the second ones.
    """

    block: TileBlock
    queries: int
    keys: int
    places: tuple[int, int]
    stage: int

    @property
    def tiles(self) -> tuple[MatrixTile, MatrixTile]:
        """The first tiles of keys and values."""
        problem = self.block.problem
        keys = self.block.tile(self.places[0], self.keys, problem.depth)
        return keys, self.block.tile(self.places[1], self.keys, problem.width)

    def right(self, lane: ir.Value) -> tuple[RightFragments, RightFragments]:
        """The first tiles as right factors."""
        keys, values = (Fragments(tile, lane).right() for tile in self.tiles)
        return keys, values

    def walk(self, first: ir.Value, head: Sequence[ir.Value]) -> TileWalk:
        """Over the tiles that any query of the block sees; the first one is `first`."""
        problem = self.block.problem
        limit = problem.limit(numbers.smaller(numbers.add(first, self.queries - 1), problem.queries - 1))
        key_head = problem.key_head(head)
        loaders = [self.block.loader(item.matrix(key_head)) for item in (problem.key, problem.value)]

        def copy(number: Number, stage: Number) -> None:
            for loader, tile in zip(loaders, self.tiles, strict=True):
                loader.copy(tile.at(stage), numbers.multiply(number, self.keys), limit)

        return TileWalk(copy, tiles_of(limit, self.keys), self.stage)

    def run(self, walk: TileWalk, first: ir.Value, step: SoftmaxStep) -> tuple[RunningSoftmax, Sums]:
        """What all tiles give: first those that all queries see whole, then those where keys are hidden from some."""
        span = step.mask.span
        carried = [*RunningSoftmax.begin(span).values, *flatten(zeros(span.strips, step.sum_steps))]
        seen = self.block.problem.limit(first)
        full = seen // self.keys if isinstance(seen, int) else numbers.divide(seen, self.keys)
        carried = walk.run(0, full, carried, step.advance(self.keys, hides=False))
        carried = walk.run(full, walk.count, carried, step.advance(self.keys, hides=True))
        return step.unpack(carried)


@dataclass(frozen=True)
class SoftmaxStep:
    """What a warp does with a tile of keys and values, beside the running softmax of its rows of `queries`.

    Products run over `depth_steps` times 16 columns of keys and `width_steps` of values; a tile has `pairs` times 16
    rows.
    """

    mask: Mask
    queries: LeftLoads
    keys: RightFragments
    values: RightFragments
    depth_steps: int
    width_steps: int
    pairs: int

    @property
    def sum_steps(self) -> int:
        """Multiples of 16 columns of the sums that are carried."""
        raise AssertionError("each kind of step says it")

    def emit(
        self, softmax: RunningSoftmax, sums: Sums, first: Number, stage: ir.Value, hides: bool
    ) -> tuple[RunningSoftmax, Sums]:
        """Softmax and sums after the tile whose first key is `first`, `stage` bytes after the first tile."""
        raise AssertionError("each kind of step has its own")

    def unpack(self, carried: list[ir.Value]) -> tuple[RunningSoftmax, Sums]:
        """The softmax and the sums from what a loop carries."""
        count = 2 * len(self.mask.span.rows)
        sums = unflatten(carried[count:], len(self.queries), self.sum_steps)
        return RunningSoftmax.of_values(carried[:count]), sums

    def advance(self, rows: int, hides: bool) -> Advance:
        """The step as a walk's work on a tile of `rows` keys."""

        def advance(carried: list[ir.Value], place: ir.Value, stage: ir.Value) -> list[ir.Value]:
            softmax, sums = self.emit(*self.unpack(carried), numbers.multiply(place, rows), stage, hides)
            return [*softmax.values, *flatten(sums)]

        return advance

    def scores(self, keys: RightFragments, first: Number, hides: bool) -> Sums:
        """The scores of the keys of a tile, as far as they are seen."""
        sums, element = zeros(len(self.queries), self.pairs), self.mask.problem.element
        sums = add_product(sums, self.queries, keys.as_columns, self.depth_steps, element)
        return self.mask.finish(sums, first, hides)
