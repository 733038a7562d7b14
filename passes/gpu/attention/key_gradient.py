"""The second launch of attention's gradient: that of keys and values, by a walk over the queries that see them.

Rows of the products are keys here, and columns queries: weights come out as the left factors that they have to be.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowTiles, TileBlock
from blu.passes.gpu.attention.fragments import Fragments, RightFragments
from blu.passes.gpu.attention.operands import split_head
from blu.passes.gpu.attention.output import write_tile
from blu.passes.gpu.attention.schedule import GradientTilesSchedule
from blu.passes.gpu.attention.scores import (
    STRIP,
    KeySpan,
    LeftLoads,
    Mask,
    Sums,
    add_product,
    as_left,
    flatten,
    kept,
    map_sums,
    unflatten,
    zeros,
)
from blu.passes.gpu.attention.slopes import NUMBER_BYTES, ROW_NUMBERS, ColumnNumbers, Gradient, slopes
from blu.passes.gpu.attention.tiles import MatrixTile, tile_bytes
from blu.passes.gpu.attention.walk import Advance, TileWalk
from blu.passes.gpu.isa import barrier, cp_async
from blu.passes.gpu.kernel import when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory


@dataclass(frozen=True)
class KeyTiles(RowTiles):
    """Rows are keys; tiles of `queries` queries. The rest says where tiles are in shared memory, what is computed."""

    queries: int
    keys: int
    values: int
    first_queries: int
    first_gradients: int
    row_numbers: int
    stage: int
    of_key: bool = True
    of_value: bool = True

    @classmethod
    def by(cls, schedule: GradientTilesSchedule, columns: tuple[int, int], size: int) -> KeyTiles:
        """Those of a schedule."""
        cut = schedule.key_warps, schedule.key_strips, schedule.queries, schedule.key_left
        return cls.of(*cut, columns, size)

    @classmethod
    def of(cls, warps: int, strips: int, queries: int, left: str, columns: tuple[int, int], size: int) -> KeyTiles:
        """Those of operands with so many columns, of `size` bytes."""
        memory, rows = SharedMemory(), warps * strips * STRIP
        of_keys, of_values = (memory.take(tile_bytes(rows, each, size)) for each in columns)
        of_queries, of_gradients = (memory.take(tile_bytes(queries, each, size)) for each in columns)
        row_numbers = memory.take(ROW_NUMBERS * queries * NUMBER_BYTES)
        stage = memory.bytes - of_queries
        memory.take(stage)
        places = of_keys, of_values, of_queries, of_gradients, row_numbers, stage
        return cls(warps, strips, left, memory, queries, *places)


@dataclass(frozen=True)
class KeyGradient:
    """Emits the launch."""

    gradient: Gradient
    schedule: KeyTiles
    block: TileBlock

    def emit(self) -> None:
        """What one thread does. The first keys, which all queries see, come first."""
        problem, schedule, position = self.gradient.problem, self.schedule, self.block.position
        first = numbers.multiply(position.part, schedule.rows)
        key_head = split_head(position.head, problem.key_heads)
        own_row = self.block.own_row()
        span = KeySpan(position.lane, numbers.add(first, own_row), schedule.strips)
        queries = Queries.seeing(self.gradient, schedule.rows, schedule.queries, first, key_head)
        walk = TileWalk(lambda number, stage: self._copy(queries, number, stage), queries.total, schedule.stage)
        left = self._prepare(walk, first, own_row, key_head)
        step = self._step(span, left, queries)
        carried = flatten(zeros(span.strips, step.carried_steps))
        if not problem.causal:
            carried = walk.run(0, queries.total, carried, step.advance(hides=False))
        elif problem.groups > 1:
            carried = walk.run(0, queries.total, carried, step.advance(hides=True))
        else:
            carried = walk.run(0, queries.hidden, carried, step.advance(hides=True))
            carried = walk.run(queries.hidden, queries.total, carried, step.advance(hides=False))
        of_key, of_value = step.unpack(carried)
        if not schedule.keeps:
            walk.end()
        if schedule.of_key:
            factor = numbers.real(problem.factor)
            of_key = map_sums(of_key, lambda value, *_: arith.mulf(value, factor))
            stage = self.block.tile(schedule.keys, schedule.rows, problem.depth)
            write_tile(of_key, span, stage, own_row, self.gradient.of_key.matrix(key_head))
        if schedule.of_value:
            stage = self.block.tile(schedule.values, schedule.rows, problem.width)
            write_tile(of_value, span, stage, own_row, self.gradient.of_value.matrix(key_head))

    @property
    def _query_tiles(self) -> tuple[MatrixTile, MatrixTile]:
        schedule, problem = self.schedule, self.gradient.problem
        queries = self.block.tile(schedule.first_queries, schedule.queries, problem.depth)
        return queries, self.block.tile(schedule.first_gradients, schedule.queries, problem.width)

    def _copy(self, queries: Queries, number: Number, stage: Number) -> None:
        """Begin to copy a tile of queries, of g, and the numbers of each query."""
        gradient, problem = self.gradient, self.gradient.problem
        head, first = queries.locate(number)
        for item, tile in zip((problem.query, gradient.g), self._query_tiles, strict=True):
            self.block.loader(item.matrix(head)).copy(tile.at(stage), first, problem.queries)
        count, thread = self.schedule.queries, self.block.position.thread
        query, target = (
            numbers.add(first, thread),
            numbers.add(numbers.add(self.block.shared, stage), self.schedule.row_numbers),
        )
        with when(numbers.is_below(thread, count)):
            present = numbers.is_below(query, problem.queries)
            size = arith.select(present, numbers.number(NUMBER_BYTES), numbers.number(0))
            own = numbers.number(numbers.add(target, numbers.multiply(thread, NUMBER_BYTES)))
            for place, source in enumerate(gradient.left_at(queries.flat_head(head), query)):
                cp_async.copy(own, place * count * NUMBER_BYTES, source, NUMBER_BYTES, size)

    def _prepare(
        self, walk: TileWalk, first: ir.Value, own_row: Number, key_head: Sequence[ir.Value]
    ) -> list[LeftLoads]:
        """Left factors of keys and values."""
        schedule, problem = self.schedule, self.gradient.problem
        keys = self.block.tile(schedule.keys, schedule.rows, problem.depth)
        values = self.block.tile(schedule.values, schedule.rows, problem.width)
        for item, tile in ((problem.key, keys), (problem.value, values)):
            self.block.loader(item.matrix(key_head)).copy(tile, first, problem.keys)
        walk.begin()
        left = [self.block.left(tile, own_row) for tile in (keys, values)]
        if schedule.keeps:
            cp_async.wait_all()
            barrier.sync()
            left = [kept(load, tile.steps) for load, tile in zip(left, (keys, values), strict=True)]
        return left

    def _step(self, span: KeySpan, left: list[LeftLoads], queries: Queries) -> KeyStep:
        tiles = self._query_tiles
        right = [Fragments(tile, span.lane).right() for tile in tiles]
        row_numbers = numbers.add(self.block.shared, self.schedule.row_numbers)
        return KeyStep(
            self.gradient, self.schedule, span, queries, left[0], left[1], right[0], right[1], row_numbers,
            tiles[0].steps, tiles[1].steps,
        )  # fmt: skip


@dataclass(frozen=True)
class Queries:
    """The tiles of `rows` queries that a block of keys walks over.

    For each head that shares the keys, there are `count` from `start`. The first `hidden` of a head are those where
    some query does not see some key.
    """

    gradient: Gradient
    rows: int
    key_head: Sequence[ir.Value]
    start: Number
    count: Number
    hidden: Number

    @classmethod
    def seeing(cls, gradient: Gradient, keys: int, rows: int, first: ir.Value, key_head: Sequence[ir.Value]) -> Queries:
        """Those that may see one of so many keys, from `first` on."""
        problem = gradient.problem
        tiles = -(-problem.queries // rows)
        if not problem.causal:
            return cls(gradient, rows, key_head, 0, tiles, 0)
        before = numbers.larger(numbers.subtract(first, problem.offset), 0)
        start = numbers.smaller(numbers.divide(before, rows), tiles)
        last = numbers.smaller(numbers.add(first, keys - 1), problem.keys - 1)
        all_see = numbers.larger(numbers.subtract(last, problem.offset), 0)
        end = numbers.smaller(numbers.divide(numbers.add(all_see, rows - 1), rows), tiles)
        hidden = numbers.larger(numbers.subtract(end, start), 0)
        return cls(gradient, rows, key_head, start, numbers.subtract(tiles, start), hidden)

    @property
    def total(self) -> Number:
        """Tiles of all heads."""
        return self.count * self._groups if isinstance(self.count, int) else numbers.multiply(self.count, self._groups)

    @property
    def _groups(self) -> int:
        return self.gradient.problem.groups

    def locate(self, number: Number) -> tuple[list[ir.Value], Number]:
        """The head of queries and the first query of a tile."""
        *batch, own = self.key_head
        group: Number = 0
        if self._groups > 1:
            count = numbers.larger(self.count, 1)
            group, number = (
                numbers.divide(numbers.number(number), count),
                numbers.remainder(numbers.number(number), count),
            )
        head = numbers.add(numbers.multiply(own, self._groups), group)
        return [*batch, head], numbers.multiply(numbers.add(self.start, number), self.rows)

    def flat_head(self, head: Sequence[ir.Value]) -> ir.Value:
        """The number of a head of queries among all."""
        flat = numbers.number(0)
        for place, size in zip(head, self.gradient.problem.heads, strict=True):
            flat = numbers.add(numbers.multiply(flat, size), place)
        return flat


@dataclass(frozen=True)
class KeyStep:
    """What a warp does with one tile of queries."""

    gradient: Gradient
    schedule: KeyTiles
    span: KeySpan
    tiles: Queries
    keys: LeftLoads
    values: LeftLoads
    queries: RightFragments
    upstream: RightFragments
    row_numbers: ir.Value
    depth_steps: int
    width_steps: int

    @property
    def carried_steps(self) -> int:
        """Multiples of 16 columns of all sums that are carried."""
        return self.schedule.of_key * self.depth_steps + self.schedule.of_value * self.width_steps

    def unpack(self, carried: list[ir.Value]) -> tuple[Sums, Sums]:
        """Gradients of keys and of values; no columns of those that are not computed."""
        sums = unflatten(carried, len(self.keys), self.carried_steps)
        of_key = 2 * self.depth_steps if self.schedule.of_key else 0
        return [strip[:of_key] for strip in sums], [strip[of_key:] for strip in sums]

    def advance(self, hides: bool) -> Advance:
        """The step as a walk's work."""

        def advance(carried: list[ir.Value], place: ir.Value, stage: ir.Value) -> list[ir.Value]:
            of_key, of_value = self._emit(*self.unpack(carried), place, stage, hides)
            return flatten([[*key, *value] for key, value in zip(of_key, of_value, strict=True)])

        return advance

    def _emit(self, of_key: Sums, of_value: Sums, place: ir.Value, stage: ir.Value, hides: bool) -> tuple[Sums, Sums]:
        problem, pairs = self.gradient.problem, self.schedule.queries // 16
        element, strips = problem.element, len(self.keys)
        head, first = self.tiles.locate(place)
        mask = Mask(problem, problem.mask and problem.mask.matrix(head), self.span, turned=True)
        queries, upstream = self.queries.at(stage), self.upstream.at(stage)
        scores = add_product(zeros(strips, pairs), self.keys, queries.as_columns, self.depth_steps, element)
        scores = mask.finish(scores, first, hides)
        known = ColumnNumbers(numbers.add(self.row_numbers, stage), self.schedule.queries, self.span.column)
        weights = known.weights(scores, mask.exponent)
        if self.schedule.of_value:
            of_value = add_product(of_value, as_left(weights, element), upstream.as_rows, pairs, element)
        if self.schedule.of_key:
            of_weights = add_product(zeros(strips, pairs), self.values, upstream.as_columns, self.width_steps, element)
            left = as_left(slopes(weights, of_weights, known.inner() * strips), element)
            of_key = add_product(of_key, left, queries.as_rows, pairs, element)
        return of_key, of_value
