"""The ring of stages in shared memory, the order in which blocks of warpgroups take tiles, and who fills the ring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.gpu.gemm.slabs import TilePosition
from blu.passes.gpu.gemm.split import REST_PARTS, RestRange, SharedRest
from blu.passes.gpu.gemm.tensor_map import FactorMap
from blu.passes.gpu.isa import mbarrier, tma, wgmma
from blu.passes.gpu.kernel import repeat
from blu.passes.gpu.shared import SharedMemory


@dataclass(frozen=True)
class Ring:
    """The stages in shared memory and their barriers, all as shared addresses."""

    schedule: WgmmaSchedule
    tiles: ir.Value
    barriers: ir.Value

    @classmethod
    def reserve(cls, shared: SharedMemory, schedule: WgmmaSchedule) -> tuple[int, int]:
        """Offsets of the tiles and of the barriers."""
        tiles = shared.take(schedule.stages * schedule.stage_bytes, alignment=1024)
        return tiles, shared.take(2 * schedule.stages * mbarrier.BYTES)

    def left(self, stage: ir.Value) -> ir.Value:
        return numbers.add(self.tiles, numbers.multiply(stage, self.schedule.stage_bytes))

    def right(self, stage: ir.Value) -> ir.Value:
        return numbers.add(self.left(stage), self.schedule.left_bytes)

    def full(self, stage: numbers.Number) -> ir.Value:
        return numbers.add(self.barriers, numbers.multiply(numbers.number(stage), mbarrier.BYTES))

    def empty(self, stage: numbers.Number) -> ir.Value:
        return numbers.add(self.full(stage), self.schedule.stages * mbarrier.BYTES)

    def begin(self) -> None:
        """Make the barriers, by one thread."""
        for stage in range(self.schedule.stages):
            mbarrier.init(self.full(stage), 1)
            mbarrier.init(self.empty(stage), self.schedule.readers)
        mbarrier.fence_init()

    def following(self, stage: ir.Value, phase: ir.Value) -> list[ir.Value]:
        """The stage after this one, and its phase."""
        after = numbers.add(stage, 1)
        wraps = numbers.is_equal(after, self.schedule.stages)
        flipped = arith.xori(phase, arith.extui(numbers.i32(), wraps))
        return [arith.select(wraps, numbers.number(0), after), flipped]

    def after(self, stage: ir.Value, phase: ir.Value, steps: numbers.Number) -> list[ir.Value]:
        """The stage so many steps on, and its phase."""
        place = numbers.add(stage, steps)
        turns = arith.andi(numbers.divide(place, self.schedule.stages), numbers.number(1))
        return [numbers.remainder(place, self.schedule.stages), arith.xori(phase, turns)]


@dataclass(frozen=True)
class Share:
    """The tiles of a block: from number `begin` on by `stride`, below `end`, of so many `steps` each, or the pieces of
    a `range` of what is left of all tiles."""

    begin: ir.Value
    end: ir.Value
    stride: int
    steps: ir.Value
    range: RestRange | None = None

    def steps_of(self, tile: ir.Value) -> ir.Value:
        """Steps of k of a tile."""
        return self.steps if self.range is None else self.range.steps_of(tile)


@dataclass(frozen=True)
class Walk:
    """The tiles of all products in the order in which blocks take them: `group` rows of tiles, column by column.

    Where what is left of a split k is shared out, that is the order of first parts only. The 16 blocks that follow each
    other are in one cluster of processors, which asks the L2 cache once for what several of them read at a time: so
    they have the fewest rows and columns of tiles by the shorter way. By the longer one each cluster read all of the
    longer factor, so that none waited for another, and halves of the chip came 50 steps of k apart: more than the cache
    holds. Rests begin elsewhere in k, and meet at equal steps by the longer way only.
    """

    product: Product
    schedule: WgmmaSchedule

    @property
    def down(self) -> int:
        return ceil(self.product.rows / self.schedule.rows)

    @property
    def across(self) -> int:
        return ceil(self.product.columns / self.schedule.columns)

    @property
    def results(self) -> int:
        """Tiles of results, of whatever part of k."""
        return self.down * self.across * self.product.outer

    @property
    def tiles(self) -> int:
        return self.results * self.schedule.split

    @property
    def steps(self) -> int:
        """Stages of k of a tile, of all parts but a longer first one. In the last some may lie beyond the end, where
        factors are read as zeros."""
        return ceil(self.all_steps / (self.schedule.split - 1 + self.schedule.lead))

    @property
    def all_steps(self) -> int:
        """Stages of k of all parts."""
        return self.product.runs * self._steps_of_run

    def share(self, block: ir.Value, blocks: int) -> Share:
        """What one of so many blocks computes. With a longer first part, each block has tiles of one length only."""
        lead, first = self.schedule.lead, self.results
        if lead == 0:
            rest = SharedRest(first, self.all_steps, blocks)
            assert rest.fits(), f"{rest} has more than {REST_PARTS} parts"
            own = rest.range_of(block)
            return Share(own.first, numbers.add(own.last, 1), 1, numbers.number(rest.first), own)
        if lead == 1:
            return Share(block, numbers.number(self.tiles), blocks, numbers.number(self.steps))
        is_long = numbers.is_below(block, first)
        end = arith.select(is_long, numbers.add(block, 1), numbers.number(self.tiles))
        steps = arith.select(is_long, numbers.number(lead * self.steps), numbers.number(self.steps))
        return Share(block, end, blocks - first, steps)

    @property
    def _steps_of_run(self) -> int:
        return ceil(self.product.depth / self.schedule.depth)

    def depth_of(self, place: TilePosition, step: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        """The k of a step of a tile, and the indices of its run. What is beyond the last run is beyond its k."""
        number = numbers.add(place.step, step)
        if not self.product.contraction.outer_depth:
            return numbers.multiply(number, self.schedule.depth), []
        run = numbers.smaller(numbers.divide(number, self._steps_of_run), self.product.runs - 1)
        inside = numbers.subtract(number, numbers.multiply(run, self._steps_of_run))
        return numbers.multiply(inside, self.schedule.depth), self.product.run_indices(run)

    def _begin_of(self, part: ir.Value) -> ir.Value:
        """Where a part of k begins, in short ones."""
        more = self.schedule.lead - 1
        if not more:
            return part
        is_first = numbers.is_equal(part, 0)
        return numbers.add(part, arith.select(is_first, numbers.number(0), numbers.number(more)))

    def place(self, tile: ir.Value, share: Share) -> TilePosition:
        """Where a tile of a share is: the parts of k change slowest, then the products."""
        each, outer, own = self.down * self.across, self.product.outer, share.range
        number = tile if own is None else own.tile_of(tile)
        rest, inside = numbers.divide(number, each), numbers.remainder(number, each)
        outer_number = numbers.remainder(rest, outer) if outer > 1 else numbers.number(0)
        row, column = self._corner(inside, self.schedule.group)
        if own is not None:
            is_first, others = own.is_first(tile), self._corner(inside, self.longer_way)
            row, column = (arith.select(is_first, *pair) for pair in zip((row, column), others, strict=True))
            return TilePosition(own.part_of(tile), own.step_of(tile), outer_number, row, column)
        part = numbers.divide(rest, outer)
        return TilePosition(part, numbers.multiply(self._begin_of(part), self.steps), outer_number, row, column)

    @property
    def longer_way(self) -> int:
        """How many rows are walked together, all or one, so that most tiles after another read one tile of a factor."""
        return self.down if self.down >= self.across else 1

    @property
    def shorter_way(self) -> int:
        """The same, so that as few tiles as there are one way read one tile of a factor, then as many the next."""
        return 1 if self.down >= self.across else self.down

    def _corner(self, tile: ir.Value, group: int) -> tuple[ir.Value, ir.Value]:
        """The first row and column of a tile of a product, of which so many rows of tiles are walked together."""
        wide = min(group, self.down)
        band, inside = numbers.divide(tile, wide * self.across), numbers.remainder(tile, wide * self.across)
        first = numbers.multiply(band, wide)
        height = numbers.smaller(numbers.subtract(self.down, first), wide)
        row, column = numbers.add(first, arith.remui(inside, height)), arith.divui(inside, height)
        return numbers.multiply(row, self.schedule.rows), numbers.multiply(column, self.schedule.columns)


@dataclass(frozen=True)
class Copies:
    """What the copying thread of block number `block` does: `maps` are the tensor maps of the left and right factor."""

    walk: Walk
    ring: Ring
    maps: Sequence[ir.Value]
    block: ir.Value
    blocks: int

    def emit(self) -> None:
        """Copy all tiles of the block."""
        share = self.walk.share(self.block, self.blocks)

        def tile(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            return repeat(0, share.steps_of(number), 1, carried, partial(self._fill, self.walk.place(number, share)))

        repeat(share.begin, share.end, share.stride, [numbers.number(0), numbers.number(0)], tile)

    def _fill(self, place: TilePosition, step: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """Copy one stage when it is empty."""
        stage, phase = carried
        mbarrier.wait(self.ring.empty(stage), arith.xori(phase, numbers.number(1)))
        full = self.ring.full(stage)
        mbarrier.arrive_expect_tx(full, self.walk.schedule.stage_bytes)
        where = self._where(place, step)
        for side, target in enumerate((self.ring.left(stage), self.ring.right(stage))):
            for number, corner in enumerate(self._corners(side, place, *where)):
                panel = numbers.add(target, number * self.walk.schedule.panel_bytes)
                tma.cp_async_bulk_tensor(self.maps[side], corner, panel, full)
        return self.ring.following(stage, phase)

    def _where(self, place: TilePosition, step: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
        """The k of a step, and the indices of its product and its run."""
        depth, runs = self.walk.depth_of(place, step)
        return depth, [*self.walk.product.outer_point(place.outer).values(), *runs]

    def _corners(
        self, side: int, place: TilePosition, depth: ir.Value, indices: Sequence[ir.Value]
    ) -> Iterator[Sequence[ir.Value]]:
        """Where the boxes begin of which a factor's tile is made in a step: one, or panels of what lies across k."""
        product, schedule = self.walk.product, self.walk.schedule
        sides = ((product.left, place.row, schedule.rows), (product.right, place.column, schedule.columns))
        factor, first, extent = sides[side]
        shown = FactorMap(factor, product.contraction)
        if factor.is_deep:
            yield shown.place(depth, first, indices)
            return
        wide = wgmma.ROW_BYTES // schedule.element_bytes
        for panel in range(extent // wide):
            yield shown.place(numbers.add(first, panel * wide), depth, indices)
