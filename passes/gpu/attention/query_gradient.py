"""The first launch of attention's gradient: that of queries, and what the launch for keys and values reads."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, math
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowTiles, SeenKeys, SoftmaxStep, TileBlock
from blu.passes.gpu.attention.operands import split_head
from blu.passes.gpu.attention.output import write_tile
from blu.passes.gpu.attention.schedule import GradientTilesSchedule
from blu.passes.gpu.attention.scores import (
    STRIP,
    KeySpan,
    LeftLoads,
    Mask,
    RowNumbers,
    RunningSoftmax,
    Sums,
    add_product,
    as_left,
    kept,
    scaled,
    sum_quad,
    zeros,
)
from blu.passes.gpu.attention.slopes import Gradient, slopes
from blu.passes.gpu.attention.tiles import tile_bytes
from blu.passes.gpu.attention.walk import TileWalk
from blu.passes.gpu.isa import barrier, cp_async, cvt
from blu.passes.gpu.kernel import when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory


@dataclass(frozen=True)
class QueryTiles(RowTiles):
    """Rows are queries; tiles of `keys` keys. The rest says where tiles are in shared memory.

    The result is there only until the second keys come; or, where it lies over all keys, until the first do.
    """

    keys: int
    queries: int
    gradients: int
    first_keys: int
    first_values: int
    stage: int
    result: int

    @property
    def covers_first(self) -> bool:
        """Whether the result lies over the first keys."""
        return self.result == self.first_keys

    @classmethod
    def by(cls, schedule: GradientTilesSchedule, columns: tuple[int, int], size: int) -> QueryTiles:
        """Those of a schedule."""
        cut = schedule.query_warps, schedule.query_strips, schedule.keys, schedule.query_left
        return cls.of(*cut, columns, size)

    @classmethod
    def of(cls, warps: int, strips: int, keys: int, left: str, columns: tuple[int, int], size: int) -> QueryTiles:
        """Those of operands with so many columns, of `size` bytes."""
        memory, rows = SharedMemory(), warps * strips * STRIP
        of_queries, of_gradients = (memory.take(tile_bytes(rows, each, size)) for each in columns)
        of_keys, of_values = (memory.take(tile_bytes(keys, each, size)) for each in columns)
        stage, of_result = memory.bytes - of_keys, tile_bytes(rows, columns[1], size)
        # Of four bytes, tiles take so much that a processor would have one block instead of two.
        covers_first = size == 4 and of_result > stage
        result = of_keys if covers_first else of_keys + stage
        memory.take(max(stage, of_result - stage * covers_first))
        return cls(warps, strips, left, memory, keys, of_queries, of_gradients, of_keys, of_values, stage, result)


@dataclass(frozen=True)
class QueryGradient:
    """Emits the launch."""

    gradient: Gradient
    schedule: QueryTiles
    block: TileBlock

    def emit(self) -> None:
        """What one thread does."""
        problem, schedule, position = self.gradient.problem, self.schedule, self.block.position
        number = position.head
        first = numbers.multiply(numbers.subtract(position.parts - 1, position.part), schedule.rows)
        head = split_head(number, problem.heads)
        own_row, keys = self.block.own_row(), self._keys
        span = KeySpan(position.lane, numbers.add(first, own_row), schedule.strips)
        walk = keys.walk(first, head)
        left, inner = self._prepare(walk, first, own_row, head)
        step = self._step(keys, span, left, inner, head)
        softmax, sums = keys.run(walk, first, step)
        if schedule.covers_first:
            walk.end()
        inverses, found = softmax.finish(step.mask.exponent)
        factor = numbers.real(problem.factor)
        factors = [arith.mulf(inverse, factor) for inverse in inverses]
        stage = self.block.tile(schedule.queries, schedule.rows, problem.depth)
        write_tile(scaled(sums, factors), span, stage, own_row, self.gradient.of_query.matrix(head))
        self._write_numbers(span, number, found, inner)

    @property
    def _keys(self) -> SeenKeys:
        schedule = self.schedule
        places = schedule.first_keys, schedule.first_values
        return SeenKeys(self.block, schedule.rows, schedule.keys, places, schedule.stage)

    def _prepare(
        self, walk: TileWalk, first: ir.Value, own_row: Number, head: Sequence[ir.Value]
    ) -> tuple[list[LeftLoads], list[ir.Value]]:
        """Left factors of queries and of g, and `inner` of each of a thread's rows."""
        gradient, schedule, problem = self.gradient, self.schedule, self.gradient.problem
        queries = self.block.tile(schedule.queries, schedule.rows, problem.depth)
        upstream = self.block.tile(schedule.gradients, schedule.rows, problem.width)
        result = self.block.tile(schedule.result, schedule.rows, problem.width)
        for item, tile in ((problem.query, queries), (gradient.g, upstream), (gradient.result, result)):
            self.block.loader(item.matrix(head)).copy(tile, first, problem.queries)
        if not schedule.covers_first:
            walk.begin()
        cp_async.wait_all()
        barrier.sync()
        loads = [self.block.left(tile, own_row) for tile in (queries, upstream, result)]
        inner = _inner_products(loads[1], loads[2], upstream.steps, problem.element)
        if schedule.covers_first:
            barrier.sync()
            walk.begin()
        left = loads[:2]
        if schedule.keeps:
            left = [kept(load, tile.steps) for load, tile in zip(left, (queries, upstream), strict=True)]
        return left, inner

    def _step(
        self, keys: SeenKeys, span: KeySpan, left: list[LeftLoads], inner: list[ir.Value], head: Sequence[ir.Value]
    ) -> QueryStep:
        problem = self.gradient.problem
        mask = Mask(problem, problem.mask and problem.mask.matrix(head), span)
        steps, pairs = [tile.steps for tile in keys.tiles], self.schedule.keys // 16
        return QueryStep(mask, left[0], *keys.right(span.lane), *steps, pairs, left[1], inner)

    def _write_numbers(self, span: KeySpan, head: ir.Value, found: RowNumbers, inner: list[ir.Value]) -> None:
        """One thread of the four that hold a row writes its numbers."""
        with when(numbers.is_equal(numbers.remainder(span.lane, 4), 0)):
            for number, place in enumerate(span.rows):
                row = span.row(*place)
                with when(numbers.is_below(row, self.gradient.problem.queries)):
                    own = found.largest[number], found.logarithms[number], arith.negf(inner[number])
                    self.gradient.leave(head, row, own)


@dataclass(frozen=True)
class QueryStep(SoftmaxStep):
    """Weights, their slopes, and the product of these with the keys added to the gradient."""

    upstream: LeftLoads
    inner: list[ir.Value]

    @property
    def sum_steps(self) -> int:
        return self.depth_steps

    def emit(
        self, softmax: RunningSoftmax, sums: Sums, first: Number, stage: ir.Value, hides: bool
    ) -> tuple[RunningSoftmax, Sums]:
        element, strips = self.mask.problem.element, len(self.queries)
        keys, values = self.keys.at(stage), self.values.at(stage)
        softmax, weights, shares = softmax.step(self.scores(keys, first, hides), self.mask.exponent)
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
