"""Attention of f32 by Hopper's warpgroups that share the parts of keys (parts.py).

As shared_keys.py, whose groups fill each other's waits. Three parts leave room for one stage of keys and one of values:
the next keys are copied while values are multiplied, and the next values while scores are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from blu.dialects.core.mlir import func, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import forward_in, forward_operands
from blu.passes.gpu.attention.schedule import PartsSchedule
from blu.passes.gpu.attention.scores import RowNumbers, RunningSoftmax, flatten, scaled
from blu.passes.gpu.attention.warpgroups import planes
from blu.passes.gpu.attention.warpgroups.panels import as_sums
from blu.passes.gpu.attention.warpgroups.parts import PartTile, added, scores_of_parts, split_left, weighted
from blu.passes.gpu.attention.warpgroups.shared_keys import SharedKeysLayout, SharedKeyWalk, emit_walk
from blu.passes.gpu.attention.warpgroups.stages import ROWS, StageRange, Stages
from blu.passes.gpu.isa import wgmma
from blu.passes.gpu.kernel import repeat, when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory

LARGEST_MASKED = 96
"""Columns of values up to which there are registers for a mask as well."""
PLANES = (-3, -2, -1)
"""The numbers of those of queries, keys and values among the scratch memory."""


def reserve(kernel: func.FuncOp, schedule: PartsSchedule) -> list[ir.MemRefType]:
    """Planes of queries, keys and values."""
    return [planes.planes_type(item, schedule.parts) for item in forward_operands(forward_in(kernel))[:3]]


def emit(kernel: func.FuncOp, schedule: PartsSchedule) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention, or a piece, of f32."""
    operation = forward_in(kernel)
    operands = forward_operands(operation)[:3]
    split = planes.emit(kernel, operation.location, operands)
    depth, width = (ir.RankedTensorType(operands[place].type).shape[-1] for place in (0, 2))
    frame = emit_walk(kernel, schedule, layout_of(schedule, depth, width), PartKeyWalk, PLANES)
    return [split, *frame.finish()]


def layout_of(schedule: PartsSchedule, depth: int, width: int) -> SharedKeysLayout:
    """The shared memory of a block, for queries of `depth` columns and values of `width`; results are not staged."""
    memory, parts, groups = SharedMemory(), schedule.parts, schedule.groups
    queries = StageRange.take(memory, groups, *[(ROWS, depth)] * parts)
    keys = StageRange.take(memory, 1, *[(schedule.keys, depth)] * parts)
    values = StageRange.take(memory, 1, *[(schedule.keys, width)] * parts)
    readers = (1, groups, groups)
    ranges = [item.with_barriers(memory, of) for item, of in zip((queries, keys, values), readers, strict=True)]
    return SharedKeysLayout(memory, *ranges, results=queries.tiles)


class PartKeyWalk(SharedKeyWalk):
    """The walk of one group of several over parts of keys and values."""

    def copy(self) -> None:
        """What the copying thread does for all groups."""
        self._copy_queries()
        self._copy_keys(0)
        repeat(0, self.count, 1, [], self._copy_tile)

    def _copy_tile(self, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        following = numbers.number(numbers.add(number, 1))
        with when(numbers.is_below(following, self.count)):
            self._copy_keys(following)
        self._copy_values(number)
        return carried

    def _tile_in(self, stages: Stages, stage: Number = 0) -> PartTile:
        return stages.part_tile(len(stages.range.extents), stage=stage)

    def run(self) -> tuple[list[ir.Value], list[ir.Value], RowNumbers]:
        """The sums of results, what to multiply these with, and the numbers of rows."""
        self._wait_queries()
        carried = [*RunningSoftmax.begin(self.span).values, *[numbers.real(0)] * (self.problem.width // 2)]
        hidden = numbers.smaller(self.count, self.masked)
        carried = repeat(0, hidden, 1, carried, partial(self._tile_alone, hides=True))
        if self._has_room:
            is_left = numbers.smaller(numbers.subtract(self.count, hidden), 1)
            carried = repeat(0, is_left, 1, carried, self._walk)
        else:
            carried = repeat(self.masked, self.count, 1, carried, partial(self._tile_alone, hides=False))
        self._have_read_queries()
        softmax, results, _ = self._unpack(carried)
        return results, *softmax.finish(self.mask.exponent)

    @property
    def _has_room(self) -> bool:
        """Whether registers are left for scores beside another tile's sums: a mask takes some."""
        return not self.problem.causal or self.problem.width <= LARGEST_MASKED

    def _tile_alone(self, number: ir.Value, carried: list[ir.Value], hides: bool) -> list[ir.Value]:
        """One product after the other."""
        softmax, results, _ = self._unpack(carried)
        scores = self._begin_scores(number)
        wgmma.wait_group(0)
        softmax, weights, shares = self._found(softmax, scores, number, hides)
        results = flatten(scaled(as_sums(results), shares))
        return [*softmax.values, *self._last_product(number, results, self._packed(weights))]

    def _walk(self, _: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """All tiles without a mask, of which there is one at least."""
        first, last = numbers.number(self.masked), numbers.number(numbers.subtract(self.count, 1))
        softmax, results, _ = self._unpack(carried)
        scores = self._begin_scores(first)
        wgmma.wait_group(0)
        softmax, weights, shares = self._found(softmax, scores, first, hides=False)
        results = flatten(scaled(as_sums(results), shares))
        carried = [*softmax.values, *results, *self._packed(weights)]
        carried = repeat(self.masked + 1, self.count, 1, carried, self._further_tile)
        softmax, results, left = self._unpack(carried)
        return [*softmax.values, *self._last_product(last, results, left)]

    def _further_tile(self, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """Scores of a tile, and the product of the weights of the one before, which runs while weights are computed."""
        softmax, results, left = self._unpack(carried)
        before = numbers.number(numbers.subtract(number, 1))
        left = wgmma.tie(left)
        scores = self._begin_scores(number, self._begin_products)
        product = self._begin_product(before, left)
        self._have_begun_products()
        wgmma.wait_group(1)
        softmax, weights, shares = self._found(softmax, scores, number, hides=False)
        wgmma.wait_group(0)
        tied = wgmma.tie([*product, *weights])
        product, weights = tied[: len(product)], tied[len(product) :]
        self._have_read_values(before, self._stage(before))
        results = flatten(scaled(as_sums(added(results, product)), shares))
        return [*softmax.values, *results, *self._packed(weights)]

    def _begin_scores(self, number: ir.Value, begin: Callable[[], None] = lambda: None) -> list[ir.Value]:
        """Begin the scores of a tile, once it is there."""
        stage = self._stage(number)
        self._wait_keys(number, stage)
        begin()
        wgmma.fence()
        scores = scores_of_parts(self._tile_in(self.queries, self.turn.group), self._tile_in(self.keys, stage))
        wgmma.commit_group()
        return scores

    def _found(
        self, softmax: RunningSoftmax, scores: list[ir.Value], number: ir.Value, hides: bool
    ) -> tuple[RunningSoftmax, list[ir.Value], list[ir.Value]]:
        """The softmax with scores that are there, weights, and shares of what was summed before."""
        scores = wgmma.tie(scores)
        self._have_read_keys(number, self._stage(number))
        return self._weights(softmax, scores, number, hides)

    def _packed(self, weights: list[ir.Value]) -> list[ir.Value]:
        return split_left(as_sums(weights), len(self.values.range.extents))

    def _begin_product(self, number: ir.Value, left: list[ir.Value]) -> list[ir.Value]:
        """Begin the product of a tile's weights and values, once these are there."""
        stage = self._stage(number)
        self._wait_values(number, stage)
        wgmma.fence()
        product = weighted(left, self._tile_in(self.values, stage))
        wgmma.commit_group()
        return product

    def _last_product(self, number: ir.Value, results: list[ir.Value], left: list[ir.Value]) -> list[ir.Value]:
        """Results with those of a tile, whose product nothing waits beside."""
        product = self._begin_product(number, wgmma.tie(left))
        wgmma.wait_group(0)
        product = wgmma.tie(product)
        self._have_read_values(number, self._stage(number))
        return added(results, product)
