"""Attention of f32 by Hopper's warpgroups that share the parts of keys (parts.py).

As shared_keys.py. Three parts leave room for one stage of keys and one of values: the next keys are copied while values
are multiplied, and the next values while scores are.
"""

from __future__ import annotations

from functools import partial

from blu.dialects.core.mlir import func, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import forward_in, forward_operands
from blu.passes.gpu.attention.schedule import PartsSchedule
from blu.passes.gpu.attention.scores import RunningSoftmax, flatten, scaled
from blu.passes.gpu.attention.warpgroups import planes
from blu.passes.gpu.attention.warpgroups.panels import as_sums
from blu.passes.gpu.attention.warpgroups.parts import PartTile, added, scores_of_parts, split_left, weighted
from blu.passes.gpu.attention.warpgroups.shared_keys import SharedKeysLayout, SharedKeyWalk, emit_walk
from blu.passes.gpu.attention.warpgroups.stages import ROWS, StageRange, Stages
from blu.passes.gpu.isa import wgmma
from blu.passes.gpu.kernel import repeat, when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory

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

    def run(self) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        """The sums of results, what to multiply these with, and the logarithms of sums of weights."""
        self._wait_queries()
        carried = [*RunningSoftmax.begin(self.span).values, *[numbers.real(0)] * (self.problem.width // 2)]
        hidden = numbers.smaller(self.count, self.masked)
        carried = repeat(0, hidden, 1, carried, partial(self._tile, hides=True))
        carried = repeat(self.masked, self.count, 1, carried, partial(self._tile, hides=False))
        self._have_read_queries()
        softmax, results, _ = self._unpack(carried)
        return results, *softmax.finish(self.mask.factor)

    def _tile(self, number: ir.Value, carried: list[ir.Value], hides: bool) -> list[ir.Value]:
        """One product after the other: sums of the tile alone leave no registers for the next scores."""
        softmax, results, _ = self._unpack(carried)
        softmax, weights, shares = self._weights(softmax, self._found_scores(number), number, hides)
        results = flatten(scaled(as_sums(results), shares))
        return [*softmax.values, *added(results, self._product(number, weights))]

    def _found_scores(self, number: ir.Value) -> list[ir.Value]:
        stage = self._stage(number)
        self._wait_keys(number, stage)
        wgmma.fence()
        scores = scores_of_parts(self._tile_in(self.queries, self.turn.group), self._tile_in(self.keys, stage))
        wgmma.commit_group()
        wgmma.wait_group(0)
        self._have_read_keys(number, stage)
        return wgmma.tie(scores)

    def _product(self, number: ir.Value, weights: list[ir.Value]) -> list[ir.Value]:
        """That of a tile's weights and values."""
        stage = self._stage(number)
        values = self._tile_in(self.values, stage)
        left = wgmma.tie(split_left(as_sums(weights), len(values.parts)))
        self._wait_values(number, stage)
        wgmma.fence()
        found = weighted(left, values)
        wgmma.commit_group()
        wgmma.wait_group(0)
        self._have_read_values(number, stage)
        return wgmma.tie(found)
