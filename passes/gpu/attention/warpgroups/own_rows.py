"""What the launches of the gradient have in common: rows of a group's own, and tiles that it walks over.

A block has one group, of which one thread copies, or several that share tiles, and another one that copies them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from blu.dialects.core.mlir import ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import Problem
from blu.passes.gpu.attention.row_sums.ranges import add_up_warps, write_warp_sums
from blu.passes.gpu.attention.scores import Sums
from blu.passes.gpu.attention.slopes import Gradient
from blu.passes.gpu.attention.tiles import MatrixTile
from blu.passes.gpu.attention.warpgroups.panels import PanelTile
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS, MappedOperand, Stages, begin, refill
from blu.passes.gpu.attention.warpgroups.turned import HeldRows, TurnedTile, turned_bytes
from blu.passes.gpu.isa import barrier, tma
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import repeat, when
from blu.passes.gpu.numbers import Number

_OWN = 1
"""The named barrier of the first group; the others' follow."""


def readers_of(groups: int) -> int:
    """Who gives a stage back: each warp, or nobody where one group fills it again."""
    return groups * (THREADS // WARP) if groups > 1 else 0


class OwnRows(ABC):
    """Emits what copies and waits. `own` has a stage for each group, and `first` is the first row of this one's."""

    gradient: Gradient
    problem: Problem
    left: Sequence[PanelTile | HeldRows]
    position: RowPosition
    own_row: ir.Value
    own: Stages
    group: Number
    first: Number
    maps: Sequence[MappedOperand]

    @property
    @abstractmethod
    def tiles(self) -> Stages:
        """The stages of the tiles that the block walks over."""

    @property
    @abstractmethod
    def tile_count(self) -> Number:
        """How many these tiles are."""

    @property
    @abstractmethod
    def own_head(self) -> list[ir.Value]:
        """The head of the own rows."""

    @abstractmethod
    def load(self, number: Number, stage: Number) -> None:
        """Begin to copy a tile, by one thread."""

    def begin(self) -> None:
        """Have the own rows and the first tiles copied; where there are several groups, another one does it."""
        if self.own.count == 1:
            begin(self.position.thread, (self.own, self.tiles), self._load_first)

    def hold(self) -> None:
        """Take the own rows as left factors, once they are there: of f32 into registers."""
        tiles = [self.own.tile(place, self.group) for place in (0, 1)]
        self.left = tiles
        if self.problem.size == 4:
            self.left = [HeldRows.read(tile, self.position.thread) for tile in tiles]
            barrier.sync()  # what is turned around is written where they are

    def right(self, tiles: Sequence[PanelTile]) -> list[PanelTile | TurnedTile]:
        """Tiles, of f32 those that `turn` leaves, as right factors of products that sum over their rows."""
        if self.problem.size == 2:
            return list(tiles)
        place, turned = self.own.address, list[PanelTile | TurnedTile]()
        for tile in tiles:
            turned.append(TurnedTile(place, tile.rows, tile.columns))
            place = numbers.number(numbers.add(place, turned_bytes(tile.rows, tile.columns)))
        return turned

    def turn(self, tiles: Sequence[PanelTile], sync: Callable[[], None] = lambda: None) -> None:
        """Turn tiles of f32 around, into the group's own shared memory.

        `sync` waits for all warps to have ended their products with what was there.
        """
        if self.problem.size == 2:
            return
        sync()
        for tile, turned in zip(tiles, self.right(tiles), strict=True):
            if isinstance(turned, TurnedTile):
                turned.fill(tile, self.position.thread)
        tma.show_writes()
        barrier.sync()

    def have_read(self, number: Number, stage: Number, sync: Callable[[], None] = lambda: None) -> None:
        """Let the stage of a tile be filled again; `sync` waits for what warps of a group read by themselves."""
        if self.own.count == 1:
            following = numbers.add(number, self.tiles.count)
            sync()
            refill(self.position.thread, following, self.tile_count, partial(self.load, following, stage))
            return
        barrier.warp_sync()  # the other lanes have ended their products, too
        with when(numbers.is_equal(self.position.lane, 0)):
            self.tiles.give_back(stage)

    def sync(self) -> None:
        """Wait for all threads of the group."""
        if self.own.count == 1:
            barrier.sync()
        else:
            barrier.sync_named(numbers.add(self.group, _OWN), THREADS)

    def add_up(self, number: int, rows: Sums, stage: MatrixTile, head: Sequence[Number]) -> None:
        """Write the sums of the group's rows, where somebody reads those of this gradient.

        Each warp leaves its own where it has staged its rows; a thread for each column puts these together, in order.
        """
        if (target := self.gradient.sums.get(number)) is None:
            return
        own = numbers.add(stage.address, numbers.multiply(self.own_row, stage.pitch))
        element = self.gradient.outputs[number].element
        write_warp_sums(rows, self.position.lane, own, element)
        self.sync()
        matrix, part = target.matrix(head), numbers.divide(numbers.number(self.first), ROWS)
        if self.own.count == 1:
            add_up_warps(stage, matrix, part, self.position.thread)
            return
        with when(numbers.is_below(part, matrix.shape[0])):  # all of a group's rows may be beyond the end
            add_up_warps(stage, matrix, part, self.position.thread)

    def copy(self) -> None:
        """All that the copying thread does for several groups, as if it were in the first."""
        for group in range(self.own.count):
            self._load_own(group)
        repeat(0, self.tile_count, 1, [], self._fill)

    def _fill(self, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        stage = numbers.remainder(number, self.tiles.count)
        self.tiles.wait_empty(number, stage)
        self.load(number, stage)
        return carried

    def _load_first(self) -> None:
        self._load_own(0)
        for stage in range(self.tiles.count):
            refill(self.position.thread, stage, self.tile_count, partial(self.load, stage, stage))

    def _load_own(self, group: int) -> None:
        counts, first = self.own.announce(group), numbers.add(self.first, group * ROWS)
        for place in (0, 1):
            self.maps[place].load(self.own.tile(place, group), first, self.own_head, counts)
