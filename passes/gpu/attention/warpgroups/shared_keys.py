"""Attention by Hopper's warpgroups that share keys: a block has two or three with 64 queries each, and one that copies.

    copying group      for each tile: wait for "empty" of a stage of keys -> copy them; the same for its values
    multiplying group  forward.py's walk: where that fills a stage again, it is given back

Why it is so:

- Of long rows, shared memory is what is short: a product of 64 queries with 64 keys reads as many bytes of either, and
  each tile must also be written there. Groups that share tiles have them written once, and a product with 128 keys
  reads queries half as often.
- Groups take turns: each begins its two products once the one before has begun its own, so that tensor cores work for
  one while another computes weights. Named barriers hand the turn on. Without them, products of 128 columns took 12 %
  longer on an H200.
- The copying group hands its registers on, as in gemm/pingpong.py.
- With a causal mask, blocks that stay go through their items to and fro: who has long ones in one round has short ones
  in the next.
- Blocks that stay copy the next queries and keys while results are written, which have a place of their own. Blocks
  that come once are begun as others end, which shares out what causal masks leave more evenly; their results are staged
  where queries were, which leaves rows of 256 columns two stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import (
    forward_in,
    forward_operands,
    operand_of,
    read_problem,
    split_head,
    sums_of,
)
from blu.passes.gpu.attention.output import write_sums, write_tile
from blu.passes.gpu.attention.schedule import ONCE, STAY, PartsSchedule, SharedKeysSchedule
from blu.passes.gpu.attention.scores import STRIP, KeySpan, scaled
from blu.passes.gpu.attention.tiles import MatrixTile, tile_bytes
from blu.passes.gpu.attention.walk import tiles_of
from blu.passes.gpu.attention.warpgroups import roles
from blu.passes.gpu.attention.warpgroups.forward import ForwardLayout, KeyWalk, WarpgroupForward, masked_tiles
from blu.passes.gpu.attention.warpgroups.panels import as_sums
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS, StageRange, mapped, open_with_maps
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, repeat, when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory, shared_address

SIZE = 2
"""Bytes of an element."""
_RESULTS, _TURN = 1, 2
"""Named barriers: of all groups' results, and of the first group's turn; the others' follow."""


def emit(kernel: func.FuncOp, schedule: SharedKeysSchedule) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention, or a piece, whose operands the copy engine reads."""
    query, _, value, *_ = forward_operands(forward_in(kernel))
    depth, width = (ir.RankedTensorType(item.type).shape[-1] for item in (query, value))
    return emit_walk(kernel, schedule, SharedKeysLayout.by(schedule, depth, width), SharedKeyWalk).finish()


def emit_walk(
    kernel: func.FuncOp,
    schedule: SharedKeysSchedule | PartsSchedule,
    layout: SharedKeysLayout,
    walk: type[SharedKeyWalk],
    planes: Sequence[int] = (),
) -> GpuKernel:
    """The launch, of operands or of their planes."""
    operation, target = forward_in(kernel), GpuTarget.of(kernel.operation.parent)
    operands = forward_operands(operation)
    tiles = list(zip(operands[:3], (ROWS, schedule.keys, schedule.keys), strict=True))
    frame = open_with_maps(kernel, tiles, planes=planes)
    query = ir.RankedTensorType(operands[0].type).shape
    parts = -(-query[-2] // (ROWS * schedule.groups))
    items = prod(query[:-2]) * parts
    blocks = min(items, target.processors) if schedule.blocks == STAY else items
    threads = (schedule.groups + 1) * THREADS
    # Where parts are multiplied, ptxas would not know with how many registers groups begin that hand on some.
    is_said = bool(planes)
    with operation.location, frame.launch((blocks,), threads, layout.memory.bytes, is_small=is_said) as here:
        problem, maps = read_problem(operation, frame, operands), mapped(frame, operands[:3])
        outputs = operand_of(frame.outputs[0][1]), sums_of(frame)
        position = RowPosition.of(here, parts)
        forward = WarpgroupForward(problem, schedule, layout, position, shared_address(frame), maps, *outputs)
        SharedKeys(forward, schedule, layout, items, blocks, walk).emit()
    return frame


@dataclass(frozen=True)
class SharedKeysLayout(ForwardLayout):
    """The same of a block of several groups: each has its queries, and a place for its results."""

    results: int

    @classmethod
    def by(cls, schedule: SharedKeysSchedule, depth: int, width: int) -> SharedKeysLayout:
        """That for queries of `depth` columns and values of `width`, of 16 bits."""
        memory, stages, groups = SharedMemory(), schedule.stages, schedule.groups
        staged = groups * tile_bytes(ROWS, width, SIZE)
        queries = StageRange.take(memory, groups, (ROWS, depth), least=0 if schedule.blocks == STAY else staged)
        keys = StageRange.take(memory, stages, (schedule.keys, depth))
        values = StageRange.take(memory, stages, (schedule.keys, width))
        results = memory.take(staged) if schedule.blocks == STAY else queries.tiles
        readers = (1, groups, groups)
        ranges = [item.with_barriers(memory, of) for item, of in zip((queries, keys, values), readers, strict=True)]
        return cls(memory, *ranges, results)


@dataclass(frozen=True)
class SharedKeys:
    """Emits one kernel, of so many items (queries of all groups of a block) in so many blocks."""

    forward: WarpgroupForward
    schedule: SharedKeysSchedule | PartsSchedule
    layout: SharedKeysLayout
    items: int
    blocks: int
    walk: type[SharedKeyWalk]

    def emit(self) -> None:
        """All groups."""
        forward, layout, groups = self.forward, self.layout, self.schedule.groups
        stages = [item.at(forward.shared) for item in (layout.queries, layout.keys, layout.values)]
        copy = partial(self._each, self.walk.copy, numbers.number(0))
        roles.share(forward.position, groups, stages, forward.maps, copy, self._multiply_all)

    def _multiply_all(self, group: ir.Value) -> None:
        """All items of a group; the turn that the last one leaves is taken, so that barriers end as they began."""
        with when(numbers.is_equal(group, self.schedule.groups - 1)):  # the first turn is group 0's
            barrier.arrive_named(_TURN, 2 * THREADS)
        self._each(self._multiply, group)
        with when(numbers.is_equal(group, 0)):
            barrier.sync_named(_TURN, 2 * THREADS)

    def _each(self, work: Callable[[SharedKeyWalk], None], group: ir.Value) -> None:
        """Emit the work of a group on each item of the block."""

        def item(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            tiles, done = carried
            walk = self._walk(number, group, tiles, done)
            work(walk)
            return [numbers.add(tiles, walk.count), numbers.add(done, 1)]

        if isinstance(self.schedule, PartsSchedule) and self.blocks == self.items:  # all registers are needed
            item(self.forward.position.block, [numbers.number(0)] * 2)
        else:
            repeat(self.forward.position.block, self.items, self.blocks, [numbers.number(0)] * 2, item)

    def _walk(self, item: ir.Value, group: ir.Value, tiles: ir.Value, done: ir.Value) -> SharedKeyWalk:
        """The walk of a group over the keys of an item, after so many tiles of so many items."""
        forward, problem, position = self.forward, self.forward.problem, self.forward.position
        item = self._to_and_fro(item, done) if problem.causal and self.schedule.blocks == STAY else item
        rows = ROWS * self.schedule.groups
        part = numbers.remainder(item, position.parts)
        own = replace(roles.in_group(position), block=item, part=part)
        first = numbers.multiply(numbers.subtract(position.parts - 1, part), rows)
        last = numbers.smaller(numbers.add(first, rows - 1), problem.queries - 1)
        count = numbers.number(numbers.larger(tiles_of(problem.limit(last), self.schedule.keys), 1))
        head = split_head(own.head, problem.heads)
        own_first = numbers.add(first, numbers.multiply(group, ROWS))
        span = KeySpan(position.lane, numbers.add(own_first, numbers.multiply(own.own_warp, STRIP)), 1)
        turn = ProductTurn(group, self.schedule.groups, tiles, done)
        return self.walk(replace(forward, position=own), span, head, first, count, turn)

    def _to_and_fro(self, item: ir.Value, done: ir.Value) -> ir.Value:
        """The item in place of a block's: every other round in which all blocks have one is gone through backwards."""
        ends = numbers.multiply(numbers.add(done, 1), self.blocks)
        mirrored = numbers.subtract(numbers.subtract(numbers.add(ends, numbers.multiply(done, self.blocks)), 1), item)
        is_second = numbers.is_equal(numbers.remainder(done, 2), 1)
        is_full = numbers.is_below(numbers.subtract(ends, 1), self.items)
        return arith.select(arith.andi(is_second, is_full), mirrored, item)

    def _multiply(self, walk: SharedKeyWalk) -> None:
        forward, span = self.forward, walk.span
        results, inverses, found = walk.run()
        if forward.sums is not None:
            write_sums(found, span, walk.head, forward.sums)
        if self.schedule.blocks == ONCE:  # results are staged where other groups' queries are, too
            barrier.sync_named(_RESULTS, self.schedule.groups * THREADS)
        before = numbers.multiply(walk.turn.group, tile_bytes(ROWS, forward.problem.width, SIZE))
        address = numbers.number(numbers.add(numbers.add(forward.shared, self.layout.results), before))
        stage = MatrixTile(address, ROWS, forward.problem.width, SIZE)
        own_row = numbers.multiply(numbers.divide(walk.thread, WARP), STRIP)
        write_tile(scaled(as_sums(results), inverses), span, stage, own_row, forward.output.matrix(walk.head))


@dataclass(frozen=True)
class ProductTurn:
    """One group's, of so many, after so many items with so many tiles in all."""

    group: ir.Value
    groups: int
    tiles: ir.Value
    done: ir.Value

    def number(self, group: Number) -> Number:
        """The number of a group's queries among those of all items."""
        return numbers.add(numbers.multiply(self.done, self.groups), group)


class SharedKeyWalk(KeyWalk):
    """The walk of one group of several, for which another one copies."""

    def __init__(
        self, emitter: WarpgroupForward, span: KeySpan, head: Sequence[ir.Value], first: Number, count: Number,
        turn: ProductTurn,
    ):  # fmt: skip
        super().__init__(emitter, span, head, first, count)
        self.turn, self.left = turn, self.queries.tile(0, turn.group)
        self.masked = masked_tiles(self.problem, ROWS * turn.groups, self.rows)

    def copy(self) -> None:
        """What the copying thread does for all groups."""
        self._copy_queries()
        repeat(0, self.count, 1, [], self._copy_tile)

    def _copy_queries(self) -> None:
        for group in range(self.turn.groups):
            self.queries.wait_empty(self.turn.number(group), group)
            first = numbers.add(self.first, group * ROWS)
            tile = self._tile_in(self.queries, group)
            self.maps[0].load(tile, first, self.head, self.queries.announce(group))

    def _copy_tile(self, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        self._copy_keys(number)
        self._copy_values(number)
        return carried

    def _copy_keys(self, number: Number) -> None:
        stage = self._stage(number)
        self.keys.wait_empty(numbers.add(self.turn.tiles, number), stage)
        self._load_keys(number, stage)

    def _copy_values(self, number: Number) -> None:
        stage = self._stage(number)
        self.values.wait_empty(numbers.add(self.turn.tiles, number), stage)
        self._load_values(number, stage)

    def _begin(self) -> None:
        """The copying group has begun."""

    def _wait_queries(self) -> None:
        self.queries.wait(self.turn.number(self.turn.group), self.turn.group)

    def _stage(self, number: Number) -> Number:
        return super()._stage(numbers.add(self.turn.tiles, number))

    def _wait_keys(self, number: Number, stage: Number) -> None:
        super()._wait_keys(numbers.add(self.turn.tiles, number), stage)

    def _wait_values(self, number: Number, stage: Number) -> None:
        super()._wait_values(numbers.add(self.turn.tiles, number), stage)

    def _have_read_queries(self) -> None:
        with when(numbers.is_equal(self.thread, 0)):
            self.queries.give_back(self.turn.group)

    def _have_read_keys(self, number: Number, stage: Number) -> None:
        with when(numbers.is_equal(self.thread, 0)):
            self.keys.give_back(stage)

    def _have_read_values(self, number: Number, stage: Number) -> None:
        with when(numbers.is_equal(self.thread, 0)):
            self.values.give_back(stage)

    def _begin_products(self) -> None:
        barrier.sync_named(numbers.add(self.turn.group, _TURN), 2 * THREADS)

    def _have_begun_products(self) -> None:
        after = numbers.remainder(numbers.number(numbers.add(self.turn.group, 1)), self.turn.groups)
        barrier.arrive_named(numbers.add(after, _TURN), 2 * THREADS)

    def _end(self, stage: Number) -> None:
        with when(numbers.is_equal(self.thread, 0)):
            self.values.give_back(stage)
