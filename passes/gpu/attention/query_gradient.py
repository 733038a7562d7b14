"""The first launch of attention's gradient: that of queries, and what the launch for keys and values reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blu.dialects.core.mlir import arith, ir, math
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.fragments import Fragments, RightFragments
from blu.passes.gpu.attention.operands import HeadMatrix, split_head
from blu.passes.gpu.attention.output import write_tile
from blu.passes.gpu.attention.schedule import REGISTERS, GradientSchedule
from blu.passes.gpu.attention.scores import (
    STRIP,
    KeySpan,
    LeftLoads,
    Mask,
    RunningSoftmax,
    Sums,
    add_product,
    as_left,
    flatten,
    kept,
    scaled,
    sum_quad,
    unflatten,
    zeros,
)
from blu.passes.gpu.attention.slopes import Gradient, SlopePosition, slopes
from blu.passes.gpu.attention.tiles import MatrixLoader, MatrixTile, tile_bytes
from blu.passes.gpu.attention.walk import Advance, TileWalk, tiles_of
from blu.passes.gpu.isa import barrier, cp_async, cvt
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory


@dataclass(frozen=True)
class QueryTiles:
    """A block of `warps` warps of `strips` times 16 queries; tiles of `keys` keys; where left factors are.

    The rest says where tiles are in shared memory. The result is there only until the second keys come.
    """

    warps: int
    strips: int
    keys: int
    left: str
    memory: SharedMemory
    queries: int
    gradients: int
    first_keys: int
    first_values: int
    stage: int

    @classmethod
    def by(cls, schedule: GradientSchedule, columns: tuple[int, int], size: int) -> QueryTiles:
        """Those of a schedule."""
        cut = schedule.query_warps, schedule.query_strips, schedule.keys, schedule.query_left
        return cls.of(*cut, columns, size)

    @classmethod
    def of(cls, warps: int, strips: int, keys: int, left: str, columns: tuple[int, int], size: int) -> QueryTiles:
        """Those of operands with so many columns, of `size` bytes."""
        memory, rows = SharedMemory(), warps * strips * STRIP
        of_queries, of_gradients = (memory.take(tile_bytes(rows, each, size)) for each in columns)
        of_keys, of_values = (memory.take(tile_bytes(keys, each, size)) for each in columns)
        stage = memory.bytes - of_keys
        memory.take(max(stage, tile_bytes(rows, columns[1], size)))
        return cls(warps, strips, keys, left, memory, of_queries, of_gradients, of_keys, of_values, stage)

    @property
    def keeps(self) -> bool:
        """Whether left factors stay in registers."""
        return self.left == REGISTERS

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return self.warps * self.strips * STRIP


@dataclass(frozen=True)
class QueryGradient:
    """Emits the launch."""

    gradient: Gradient
    schedule: QueryTiles
    place: SlopePosition
    shared: ir.Value

    def emit(self) -> None:
        """What one thread does."""
        problem, schedule, place = self.gradient.problem, self.schedule, self.place
        first = numbers.multiply(numbers.subtract(place.parts - 1, place.part), schedule.rows)
        head = split_head(place.head, problem.heads)
        own_row = numbers.multiply(place.own_warp, STRIP * schedule.strips)
        span = KeySpan(place.lane, numbers.add(first, own_row), schedule.strips)
        walk = self._walk(first, head)
        left, inner = self._prepare(walk, first, own_row, head)
        step = self._step(span, left, inner, head)
        carried = [*RunningSoftmax.begin(span).values, *flatten(zeros(span.strips, step.depth_steps))]
        seen = problem.limit(first)
        full = seen // schedule.keys if isinstance(seen, int) else numbers.divide(seen, schedule.keys)
        carried = walk.run(0, full, carried, step.advance(schedule.keys, hides=False))
        carried = walk.run(full, walk.count, carried, step.advance(schedule.keys, hides=True))
        softmax, sums = step.unpack(carried)
        inverses, logarithms = softmax.finish(step.mask.factor)
        factor = numbers.real(problem.factor)
        factors = [arith.mulf(inverse, factor) for inverse in inverses]
        stage = self._tile(schedule.queries, schedule.rows, problem.depth)
        write_tile(scaled(sums, factors), span, stage, own_row, self.gradient.of_query.matrix(head))
        self._write_numbers(span, logarithms, inner)

    def _tile(self, offset: int, rows: int, columns: int) -> MatrixTile:
        return MatrixTile(numbers.add(self.shared, offset), rows, columns, self.gradient.problem.size)

    @property
    def _key_tiles(self) -> tuple[MatrixTile, MatrixTile]:
        schedule, problem = self.schedule, self.gradient.problem
        keys = self._tile(schedule.first_keys, schedule.keys, problem.depth)
        return keys, self._tile(schedule.first_values, schedule.keys, problem.width)

    def _loader(self, matrix: HeadMatrix) -> MatrixLoader:
        return MatrixLoader(matrix, self.place.thread, self.schedule.warps * WARP)

    def _walk(self, first: ir.Value, head: Sequence[ir.Value]) -> TileWalk:
        problem, schedule = self.gradient.problem, self.schedule
        limit = problem.limit(numbers.smaller(numbers.add(first, schedule.rows - 1), problem.queries - 1))
        key_head = problem.key_head(head)
        loaders = [self._loader(item.matrix(key_head)) for item in (problem.key, problem.value)]

        def copy(number: Number, stage: Number) -> None:
            for loader, tile in zip(loaders, self._key_tiles, strict=True):
                loader.copy(tile.at(stage), numbers.multiply(number, schedule.keys), limit)

        return TileWalk(copy, tiles_of(limit, schedule.keys), schedule.stage)

    def _prepare(
        self, walk: TileWalk, first: ir.Value, own_row: ir.Value, head: Sequence[ir.Value]
    ) -> tuple[list[LeftLoads], list[ir.Value]]:
        """Left factors of queries and of g, and `inner` of each of a thread's rows."""
        gradient, schedule, problem = self.gradient, self.schedule, self.gradient.problem
        queries = self._tile(schedule.queries, schedule.rows, problem.depth)
        upstream = self._tile(schedule.gradients, schedule.rows, problem.width)
        result = self._tile(schedule.first_keys + schedule.stage, schedule.rows, problem.width)
        for item, tile in ((problem.query, queries), (gradient.g, upstream), (gradient.result, result)):
            self._loader(item.matrix(head)).copy(tile, first, problem.queries)
        walk.begin()
        cp_async.wait_all()
        barrier.sync()
        loads = []
        for tile in (queries, upstream, result):
            fragments = Fragments(tile, self.place.lane)
            rows = [numbers.add(own_row, STRIP * strip) for strip in range(schedule.strips)]
            loads.append([fragments.left(row).load for row in rows])
        inner = _inner_products(loads[1], loads[2], upstream.steps, problem.element)
        left = loads[:2]
        if schedule.keeps:
            left = [kept(load, tile.steps) for load, tile in zip(left, (queries, upstream), strict=True)]
        return left, inner

    def _step(self, span: KeySpan, left: list[LeftLoads], inner: list[ir.Value], head: Sequence[ir.Value]) -> QueryStep:
        problem = self.gradient.problem
        mask = Mask(problem, problem.mask and problem.mask.matrix(head), span)
        keys, values = self._key_tiles
        right = [Fragments(tile, span.lane).right() for tile in (keys, values)]
        return QueryStep(
            mask, left[0], left[1], right[0], right[1], keys.steps, values.steps, self.schedule.keys // 16, inner
        )

    def _write_numbers(self, span: KeySpan, logarithms: list[ir.Value], inner: list[ir.Value]) -> None:
        """One thread of the four that hold a row writes its numbers."""
        matrices = [item.matrix([]) for item in (self.gradient.logarithms, self.gradient.inner)]
        with when(numbers.is_equal(numbers.remainder(span.lane, 4), 0)):
            for number, place in enumerate(span.rows):
                row = span.row(*place)
                with when(numbers.is_below(row, self.gradient.problem.queries)):
                    for matrix, values in zip(matrices, (logarithms, inner), strict=True):
                        matrix.store(values[number], self.place.head, row)


@dataclass(frozen=True)
class QueryStep:
    """What a warp does with one tile of keys and values."""

    mask: Mask
    queries: LeftLoads
    upstream: LeftLoads
    keys: RightFragments
    values: RightFragments
    depth_steps: int
    width_steps: int
    pairs: int
    inner: list[ir.Value]

    def unpack(self, carried: list[ir.Value]) -> tuple[RunningSoftmax, Sums]:
        """The softmax and the sums from what a loop carries."""
        count = 2 * len(self.mask.span.rows)
        return RunningSoftmax.of_values(carried[:count]), unflatten(
            carried[count:], len(self.queries), self.depth_steps
        )

    def advance(self, rows: int, hides: bool) -> Advance:
        """The step as a walk's work on a tile of `rows` keys."""

        def advance(carried: list[ir.Value], place: ir.Value, stage: ir.Value) -> list[ir.Value]:
            softmax, sums = self._emit(*self.unpack(carried), numbers.multiply(place, rows), stage, hides)
            return [*softmax.values, *flatten(sums)]

        return advance

    def _emit(
        self, softmax: RunningSoftmax, sums: Sums, first: ir.Value, stage: ir.Value, hides: bool
    ) -> tuple[RunningSoftmax, Sums]:
        element, strips = self.mask.problem.element, len(self.queries)
        keys, values = self.keys.at(stage), self.values.at(stage)
        scores = add_product(zeros(strips, self.pairs), self.queries, keys.as_columns, self.depth_steps, element)
        softmax, weights, shares = softmax.step(self.mask.finish(scores, first, hides), self.mask.factor)
        of_weights = zeros(strips, self.pairs)
        of_weights = add_product(of_weights, self.upstream, values.as_columns, self.width_steps, element)
        inner = [[self.inner[2 * strip + at // 2] for at in range(4)]
                 for strip in range(strips) for _ in range(2 * self.pairs)]  # fmt: skip
        left = as_left(slopes(weights, of_weights, inner), element)
        return softmax, add_product(scaled(sums, shares), left, keys.as_rows, self.pairs, element)


def _inner_products(left: LeftLoads, right: LeftLoads, steps: int, element: str) -> list[ir.Value]:
    """The sum of the products of two matrices' elements, for each of a thread's rows."""
    sums = []
    for loads in zip(left, right, strict=True):
        own = [numbers.real(0), numbers.real(0)]
        for step in range(steps):
            for place, pair in enumerate(zip(*(load(step) for load in loads), strict=True)):
                for one, other in zip(*(cvt.unpack(item, element) for item in pair), strict=True):
                    own[place % 2] = math.fma(one, other, own[place % 2])
        sums.extend(sum_quad(value) for value in own)
    return sums
