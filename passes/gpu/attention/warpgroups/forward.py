"""Attention by Hopper's warpgroups: a block is one of them, has 64 rows of queries, and walks over tiles of keys.

The copy engine brings tiles of keys and values to a ring of stages, as one thread of the block asks for them: as soon
as a product has read a tile, its stage is filled again, so that nobody waits for a stage to be empty. Scores are sums
in registers, and weights, rounded, are the left factor of their product with the values, which lie as they are (of f32,
see turned.py).

    scores of tile n = queries @ keys^T    | begun together; while the second one runs, weights of tile n are
    results += weights of n - 1 @ values   | computed from scores

The last keys come first: with a causal mask, only the first tiles have hidden keys then, and the others no mask. One
warpgroup alone leaves tensor cores idle while it computes weights; several blocks on a multiprocessor fill that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import (
    AttentionOperand,
    Problem,
    forward_in,
    forward_operands,
    operand_of,
    read_problem,
    size_of,
    split_head,
    sums_of,
)
from blu.passes.gpu.attention.output import write_sums, write_tile
from blu.passes.gpu.attention.schedule import PartsSchedule, SharedKeysSchedule, WarpgroupSchedule
from blu.passes.gpu.attention.scores import STRIP, KeySpan, Mask, RowNumbers, RunningSoftmax, as_left, flatten, scaled
from blu.passes.gpu.attention.tiles import MatrixTile, tile_bytes
from blu.passes.gpu.attention.walk import tiles_of
from blu.passes.gpu.attention.warpgroups.order import heads_together, is_one_round
from blu.passes.gpu.attention.warpgroups.panels import PanelTile, add_weighted, as_sums, packed, scores_of
from blu.passes.gpu.attention.warpgroups.parts import PartTile
from blu.passes.gpu.attention.warpgroups.stages import (
    ROWS,
    THREADS,
    MappedOperand,
    StageRange,
    Stages,
    begin,
    mapped,
    open_with_maps,
    refill,
)
from blu.passes.gpu.attention.warpgroups.turned import HeldRows, TurnedTile, turned_bytes
from blu.passes.gpu.isa import barrier, tma, wgmma
from blu.passes.gpu.kernel import repeat
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory, shared_address


def emit(kernel: func.FuncOp, schedule: WarpgroupSchedule) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention, or a piece, whose operands the copy engine reads."""
    operation, target = forward_in(kernel), GpuTarget.of(kernel.operation.parent)
    operands = forward_operands(operation)
    tiles = list(zip(operands[:3], (ROWS, schedule.keys, schedule.keys), strict=True))
    frame = open_with_maps(kernel, tiles)
    query, value = (ir.RankedTensorType(item.type).shape for item in (operands[0], operands[2]))
    layout = ForwardLayout.of(schedule, query[-1], value[-1], size_of(operands[0]))
    parts = -(-query[-2] // ROWS)
    grid, blocks = (prod(query[:-2]) * parts,), schedule.per_processor
    with operation.location, frame.launch(grid, THREADS, layout.memory.bytes, per_processor=blocks) as here:
        problem, maps = read_problem(operation, frame, operands), mapped(frame, operands[:3])
        output = operand_of(frame.outputs[0][1])
        shapes = [ir.RankedTensorType(item.type).shape for item in operands[:3]]
        takes_turns = problem.causal and is_one_round(grid[0], target)
        together = heads_together(shapes[0], shapes[1:], problem.size) if takes_turns else 1
        position = RowPosition.of(here, parts, together)
        outputs = output, sums_of(frame)
        WarpgroupForward(problem, schedule, layout, position, shared_address(frame), maps, *outputs).emit()
    return frame.finish()


def masked_tiles(problem: Problem, rows: int, columns: int) -> int:
    """Of the tiles of `columns` keys that `rows` queries see, the most that some query does not see whole."""
    if not problem.causal:
        return 1
    least = min(rows, columns)
    is_aligned = isinstance(problem.offset, int) and not any(size % least for size in (problem.offset, rows, columns))
    return -(-rows // columns) + (not is_aligned)


@dataclass(frozen=True)
class ForwardLayout:
    """The shared memory of a block: its queries, and stages of keys and values.

    Where queries were, results of 16 bits are staged, and values of f32 are turned around.
    """

    memory: SharedMemory
    queries: StageRange
    keys: StageRange
    values: StageRange

    @classmethod
    def of(cls, schedule: WarpgroupSchedule, depth: int, width: int, size: int) -> ForwardLayout:
        """That for queries of `depth` columns and values of `width`, of `size` bytes."""
        memory, stages = SharedMemory(), schedule.stages
        least = tile_bytes(ROWS, width, size) if size == 2 else turned_bytes(schedule.keys, width)
        ranges = (
            StageRange.take(memory, 1, (ROWS, depth), size=size, least=least),
            StageRange.take(memory, stages, (schedule.keys, depth), size=size),
            StageRange.take(memory, stages, (schedule.keys, width), size=size),
        )
        return cls(memory, *(item.with_barriers(memory) for item in ranges))


@dataclass(frozen=True)
class WarpgroupForward:
    """Emits one kernel."""

    problem: Problem
    schedule: WarpgroupSchedule | SharedKeysSchedule | PartsSchedule
    layout: ForwardLayout
    position: RowPosition
    shared: ir.Value
    maps: Sequence[MappedOperand]
    output: AttentionOperand
    sums: AttentionOperand | None = None

    def emit(self) -> None:
        """What one thread does. The last queries, which have most to do, are begun first."""
        problem, position = self.problem, self.position
        first = numbers.multiply(numbers.subtract(position.parts - 1, position.part), ROWS)
        head = split_head(position.head, problem.heads)
        own_row = numbers.multiply(position.own_warp, STRIP)
        span = KeySpan(position.lane, numbers.add(first, own_row), 1)
        last = numbers.smaller(numbers.add(first, ROWS - 1), problem.queries - 1)
        count = numbers.larger(tiles_of(problem.limit(last), self.schedule.keys), 1)
        walk = KeyWalk(self, span, head, first, count)
        results, inverses, found = walk.run()
        if self.sums is not None:
            write_sums(found, span, head, self.sums)
        barrier.sync()  # rows of other warps' queries are in this warp's rows of results
        stage = MatrixTile(numbers.add(self.shared, self.layout.queries.tiles), ROWS, problem.width, problem.size)
        write_tile(scaled(as_sums(results), inverses), span, stage, own_row, self.output.matrix(head))


class KeyWalk:
    """The walk of a warpgroup over the tiles of its keys, the last one first."""

    def __init__(
        self, emitter: WarpgroupForward, span: KeySpan, head: Sequence[ir.Value], first: Number, count: Number
    ):
        layout, shared = emitter.layout, emitter.shared
        self.problem, self.maps, self.thread = emitter.problem, emitter.maps, emitter.position.thread
        self.queries, self.keys, self.values = (
            item.at(shared) for item in (layout.queries, layout.keys, layout.values)
        )
        self.rows, self.span, self.head, self.first, self.count = emitter.schedule.keys, span, head, first, count
        self.key_head = self.problem.key_head(head)
        self.mask = Mask(self.problem, None, span)
        self.left: PanelTile | HeldRows = self.queries.tile(0)
        is_turned = self.problem.size == 4
        self.turned = TurnedTile(self.queries.address, self.rows, self.problem.width) if is_turned else None
        self.masked = masked_tiles(self.problem, ROWS, self.rows)

    @property
    def stages(self) -> int:
        return self.keys.count

    def run(self) -> tuple[list[ir.Value], list[ir.Value], RowNumbers]:
        """The sums of results, what to multiply these with, and the numbers of rows."""
        self._begin()
        carried = self._first_tile()
        hidden = numbers.smaller(self.count, self.masked)
        carried = repeat(1, hidden, 1, carried, partial(self._tile, hides=True))
        carried = repeat(self.masked, self.count, 1, carried, partial(self._tile, hides=False))
        self._have_read_queries()
        softmax, results, weights = self._unpack(carried)
        last = numbers.subtract(self.count, 1)
        stage = self._stage(last)
        self._turn(last, stage)
        values = self._right(last, stage)
        results, weights = wgmma.tie(results), wgmma.tie(weights)
        wgmma.fence()
        results = add_weighted(results, weights, values, self.problem.element)
        wgmma.commit_group()
        wgmma.wait_group(0)
        results = wgmma.tie(results)
        self._end(stage)
        return results, *softmax.finish(self.mask.exponent)

    # What tells and asks those who copy tiles

    def _begin(self) -> None:
        """Have the queries and the first tiles of keys and values copied."""
        begin(self.thread, (self.queries, self.keys, self.values), self._load_first)

    def _wait_queries(self) -> None:
        self.queries.wait()

    def _stage(self, number: Number) -> Number:
        """Where a tile is."""
        return number % self.stages if isinstance(number, int) else numbers.remainder(number, self.stages)

    def _wait_keys(self, number: Number, stage: Number) -> None:
        self.keys.wait(number, stage)

    def _wait_values(self, number: Number, stage: Number) -> None:
        self.values.wait(number, stage)

    def _have_read_queries(self) -> None:
        """After the last scores."""

    def _have_read_keys(self, number: Number, stage: Number) -> None:
        """Let the stage of a tile's keys be filled again."""
        following = numbers.add(number, self.stages)
        refill(self.thread, following, self.count, partial(self._load_keys, following, stage))

    def _have_read_values(self, number: Number, stage: Number) -> None:
        """After the product of a tile's values; those that were turned around have been read before."""
        if self.turned is None:
            self._refill_values(number, stage)

    def _refill_values(self, number: Number, stage: Number) -> None:
        """Let the stage of a tile's values be filled again."""
        following = numbers.add(number, self.stages)
        refill(self.thread, following, self.count, partial(self._load_values, following, stage))

    def _end(self, stage: Number) -> None:
        """After the last product, whose values are in a stage."""

    # What orders the products of warpgroups

    def _begin_products(self) -> None:
        """Before a tile's products are begun."""

    def _have_begun_products(self) -> None:
        """Once they are."""

    # What the copying thread does

    def _tile_in(self, stages: Stages, stage: Number = 0) -> PanelTile | PartTile:
        """What is copied to a stage."""
        return stages.tile(0, stage)

    def _load_first(self) -> None:
        self.maps[0].load(self._tile_in(self.queries), self.first, self.head, self.queries.announce())
        self._load_keys(0, 0)
        self._load_values(0, 0)
        for stage in range(1, self.stages):
            refill(self.thread, stage, self.count, partial(self._load_keys, stage, stage))
            refill(self.thread, stage, self.count, partial(self._load_values, stage, stage))

    def _load_keys(self, number: Number, stage: Number) -> None:
        tile = self._tile_in(self.keys, stage)
        self.maps[1].load(tile, self._first_key(number), self.key_head, self.keys.announce(stage))

    def _load_values(self, number: Number, stage: Number) -> None:
        tile = self._tile_in(self.values, stage)
        self.maps[2].load(tile, self._first_key(number), self.key_head, self.values.announce(stage))

    def _first_key(self, number: Number) -> Number:
        return numbers.multiply(numbers.subtract(numbers.subtract(self.count, 1), number), self.rows)

    # What all threads do

    def _left(self) -> PanelTile | HeldRows:
        """The queries, once they are there."""
        self._wait_queries()
        tile = self.queries.tile(0)
        if self.turned is None:
            return self.left
        held = HeldRows.read(tile, self.thread)
        barrier.sync()  # what is turned around is written where they are
        return held

    def _turn(self, number: Number, stage: Number) -> None:
        """Turn a tile's values of f32 around, before scores are begun: that leaves registers for another block."""
        if self.turned is None:
            return
        self._wait_values(number, stage)
        barrier.sync()  # all warps have ended their products with what was turned around before
        self.turned.fill(self.values.tile(0, stage), self.thread)
        tma.show_writes()
        barrier.sync()
        self._refill_values(number, stage)

    def _right(self, number: Number, stage: Number) -> PanelTile | TurnedTile:
        """A tile's values, once they are there."""
        if self.turned is not None:
            return self.turned
        self._wait_values(number, stage)
        return self.values.tile(0, stage)

    def _scores(self, stage: Number) -> list[ir.Value]:
        """Begin the scores of a tile."""
        scores = scores_of(self.left, self.keys.tile(0, stage), self.problem.element)
        wgmma.commit_group()
        return scores

    def _weights(
        self, softmax: RunningSoftmax, scores: list[ir.Value], number: Number, hides: bool
    ) -> tuple[RunningSoftmax, list[ir.Value], list[ir.Value]]:
        """The softmax with a tile's scores, its weights, and shares of what was summed before."""
        finished = self.mask.finish(as_sums(scores), self._first_key(number), hides)
        softmax, weights, shares = softmax.step(finished, self.mask.exponent)
        return softmax, flatten(weights), shares

    def _packed(self, weights: list[ir.Value]) -> list[ir.Value]:
        """Weights as left factors. Registers of those before may be the same: their product has ended."""
        return packed(as_left(as_sums(weights), self.problem.element), self.rows)

    def _first_tile(self) -> list[ir.Value]:
        self.left = self._left()
        stage = self._stage(0)
        self._wait_keys(0, stage)
        wgmma.fence()
        scores = self._scores(stage)
        wgmma.wait_group(0)
        scores = wgmma.tie(scores)
        self._have_read_keys(0, stage)
        softmax, weights, _ = self._weights(RunningSoftmax.begin(self.span), scores, 0, hides=True)
        results = [numbers.real(0)] * (self.problem.width // 2)
        return [*softmax.values, *results, *self._packed(weights)]

    def _unpack(self, carried: list[ir.Value]) -> tuple[RunningSoftmax, list[ir.Value], list[ir.Value]]:
        """The softmax, the results, and the weights that are not yet multiplied."""
        end = 4 + self.problem.width // 2
        return RunningSoftmax.of_values(carried[:4]), carried[4:end], carried[end:]

    def _tile(self, number: ir.Value, carried: list[ir.Value], hides: bool) -> list[ir.Value]:
        softmax, results, weights = self._unpack(carried)
        earlier = numbers.subtract(number, 1)
        stage, before = self._stage(number), self._stage(earlier)
        self._wait_keys(number, stage)
        self._begin_products()
        self._turn(earlier, before)
        results, weights = wgmma.tie(results), wgmma.tie(weights)
        wgmma.fence()
        scores = self._scores(stage)
        results = add_weighted(results, weights, self._right(earlier, before), self.problem.element)
        wgmma.commit_group()
        self._have_begun_products()
        wgmma.wait_group(1)
        scores = wgmma.tie(scores)
        self._have_read_keys(number, stage)
        softmax, weights, shares = self._weights(softmax, scores, number, hides)
        wgmma.wait_group(0)
        tied = wgmma.tie([*results, *weights])
        results, weights = tied[: len(results)], tied[len(results) :]
        self._have_read_values(earlier, before)
        results = flatten(scaled(as_sums(results), shares))
        return [*softmax.values, *results, *self._packed(weights)]
