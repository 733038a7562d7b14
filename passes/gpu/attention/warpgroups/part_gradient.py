"""The gradient of attention of f32 by Hopper's warpgroups, of parts (parts.py): a block has 64 queries, or keys.

    scores = queries @ keys^T, slopes of weights = g @ values^T        | begun together
    of_query += slopes of scores @ keys                                | once both are there

and the same with keys and queries, values and g exchanged. Three parts of a block's own rows leave room for two tiles:
what is read once, values or g, makes room for what comes next of the others, as soon as it has been read. So keys, or
queries, are in one and in the other in turns. Gradients of values have their own blocks, where nothing takes turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.schedule import PartsGradientSchedule
from blu.passes.gpu.attention.scores import Sums, flatten, scaled
from blu.passes.gpu.attention.slopes import NUMBER_BYTES, ROW_NUMBERS, Gradient, slopes
from blu.passes.gpu.attention.warpgroups import planes
from blu.passes.gpu.attention.warpgroups.gradient import emit_launch
from blu.passes.gpu.attention.warpgroups.key_gradient import KeyLayout, WarpgroupKeyGradient
from blu.passes.gpu.attention.warpgroups.own_rows import OwnRows
from blu.passes.gpu.attention.warpgroups.panels import PanelTile, as_sums
from blu.passes.gpu.attention.warpgroups.parts import SIZE, PartTile, added, scores_of_parts, split_left, weighted
from blu.passes.gpu.attention.warpgroups.query_gradient import (
    QueryLayout,
    Softmax,
    WarpgroupQueryGradient,
    split_carried,
)
from blu.passes.gpu.attention.warpgroups.stages import ROWS, MappedOperand, StageRange, refill
from blu.passes.gpu.isa import barrier, mbarrier, wgmma
from blu.passes.gpu.kernel import when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory
from blu.passes.kernels.updates import find_operation

QUERY, UPSTREAM, KEY, VALUE = -4, -3, -2, -1
"""The numbers of their planes among the scratch memory."""
SLOTS = 2


def reserve(kernel: func.FuncOp, schedule: PartsGradientSchedule) -> list[ir.MemRefType]:
    """Planes of queries, g, keys and values."""
    g, query, key, value, *_ = operands_of(find_operation(kernel, "blu.attention_gradient"))
    return [planes.planes_type(item, schedule.parts) for item in (query, g, key, value)]


def emit(kernel: func.FuncOp, schedule: PartsGradientSchedule) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention_gradient of f32 by its launches."""
    operation = find_operation(kernel, "blu.attention_gradient")
    g, query, key, value, *_ = operands_of(operation)
    columns, rows = [ir.RankedTensorType(item.type).shape[-1] for item in (query, value)], schedule.rows
    of_query = [(query, ROWS), (g, ROWS), (key, rows), (value, rows)]
    of_keys = [(key, ROWS), (value, ROWS), (query, rows), (g, rows)]
    layouts = query_layout(schedule, *columns), key_layout(schedule, *columns)
    launches = [planes.emit(kernel, operation.location, [query, g, key, value])]
    for_query = [partial(PartQueryGradient, parts=schedule.parts)]
    launches.append(emit_launch(kernel, "_query", of_query, layouts[0], 1, for_query, (QUERY, UPSTREAM, KEY, VALUE)))
    # Blocks for keys take longer than those for values.
    for_keys = [partial(PartKeyGradient, finds=found, parts=schedule.parts) for found in ((True, False), (False, True))]
    launches.append(emit_launch(kernel, "_key", of_keys, layouts[1], 1, for_keys, (KEY, VALUE, QUERY, UPSTREAM)))
    kernel.operation.erase()
    return launches


def query_layout(schedule: PartsGradientSchedule, depth: int, width: int) -> QueryLayout:
    """The shared memory of a block: its queries and g, and two tiles of keys or values."""
    memory = SharedMemory()
    own, slots = _take(memory, schedule, depth, width)
    return QueryLayout(memory, own.with_barriers(memory), slots.with_barriers(memory))


def key_layout(schedule: PartsGradientSchedule, depth: int, width: int) -> KeyLayout:
    """The same: its keys and values, two tiles of queries or g, and the numbers of two tiles of queries."""
    memory = SharedMemory()
    own, slots = _take(memory, schedule, depth, width)
    row_numbers = memory.take(SLOTS * ROW_NUMBERS * schedule.rows * NUMBER_BYTES)
    return KeyLayout(memory, own.with_barriers(memory), slots.with_barriers(memory), row_numbers)


def _take(
    memory: SharedMemory, schedule: PartsGradientSchedule, depth: int, width: int
) -> tuple[StageRange, StageRange]:
    parts = schedule.parts
    own = StageRange.take(memory, 1, *[(ROWS, depth)] * parts, *[(ROWS, width)] * parts)
    return own, StageRange.take(memory, SLOTS, *[(schedule.rows, max(depth, width))] * parts)


class PartRows(OwnRows):
    """What the launches share: own rows, and two tiles at a time of what is walked over, all as parts."""

    parts: int
    rows: int

    def hold(self) -> None:
        """Own rows are read where they are."""

    def _own(self, place: int) -> PartTile:
        return self.own.part_tile(self.parts, place)

    def _slot(self, number: Number, columns: int) -> PartTile:
        """What is in one of the two places, rows of so many columns."""
        first = PanelTile(self.tiles.tile(0, number).address, self.rows, columns, SIZE)
        return PartTile.beginning(first, self.parts)

    def _wait(self, number: Number, slot: Number) -> None:
        """Wait for what a tile of a number has in a place."""
        mbarrier.wait(self.tiles.barrier(slot), numbers.remainder(numbers.number(number), 2))

    def _load_own(self, group: int) -> None:
        counts = self.own.announce(group)
        for place in (0, 1):
            self.maps[place].load(self._own(place), self.first, self.own_head, counts)

    def _fill_slot(
        self, slot: Number, place: int, columns: int, row: Number, head: Sequence[ir.Value], more_bytes: int = 0
    ) -> ir.Value:
        """Begin to copy a tile of the first or second operand that is walked over; the barrier that counts."""
        tile, counts = self._slot(slot, columns), self.tiles.barrier(slot)
        mbarrier.arrive_expect_tx(counts, tile.bytes + more_bytes)
        self.maps[2 + place].load(tile, row, head, counts)
        return counts

    def _refill(self, number: ir.Value, load: Callable[[ir.Value], None]) -> None:
        """Begin to copy what comes after a tile, once all threads have read what was there."""
        barrier.sync()
        following = numbers.number(numbers.add(number, 1))
        refill(self.position.thread, following, self.tile_count, partial(load, following))

    def _begin_scores(self, place: int, right: PartTile) -> list[ir.Value]:
        """Begin the product of own rows with a tile."""
        wgmma.fence()
        scores = scores_of_parts(self._own(place), right)
        wgmma.commit_group()
        return scores

    def _product(self, left: Sums, right: PartTile) -> list[ir.Value]:
        factors = wgmma.tie(split_left(left, self.parts))
        wgmma.fence()
        found = weighted(factors, right)
        wgmma.commit_group()
        wgmma.wait_group(0)
        return wgmma.tie(found)


class PartQueryGradient(PartRows, WarpgroupQueryGradient):
    """Emits the launch for queries."""

    def __init__(
        self, gradient: Gradient, layout: QueryLayout, position: RowPosition, shared: ir.Value,
        maps: Sequence[MappedOperand], parts: int,
    ):  # fmt: skip
        WarpgroupQueryGradient.__init__(self, gradient, layout, position, shared, maps)
        self.parts = parts

    def _load_first(self) -> None:
        self._load_own(0)
        self._load_keys(numbers.number(0))
        self._load_values(numbers.number(0))

    def _load_keys(self, number: ir.Value) -> None:
        self._fill_slot(_turn(number), 0, self.problem.depth, self._first_key(number), self.key_head)

    def _load_values(self, number: ir.Value) -> None:
        self._fill_slot(_other(number), 1, self.problem.width, self._first_key(number), self.key_head)

    def _tile(
        self, number: ir.Value, carried: list[ir.Value], softmax: Softmax, inner: list[ir.Value], hides: bool
    ) -> list[ir.Value]:
        softmax, sums = split_carried(softmax, carried)
        keys, values = self._slot(_turn(number), self.problem.depth), self._slot(_other(number), self.problem.width)
        self._wait(number, _turn(number))
        scores = self._begin_scores(0, keys)
        self._wait(number, _other(number))
        of_weights = self._begin_scores(1, values)
        wgmma.wait_group(1)
        finished = self.mask.finish(as_sums(wgmma.tie(scores)), self._first_key(number), hides)
        softmax, weights, shares = softmax.step(finished, self.mask.exponent)
        wgmma.wait_group(0)
        of_scores = self._slopes(weights, as_sums(wgmma.tie(of_weights)), inner)
        self._refill(number, self._load_keys)
        sums = sums if shares is None else flatten(scaled(as_sums(sums), shares))
        found = self._product(of_scores, keys)
        self._refill(number, self._load_values)
        return [*softmax.values, *added(sums, found)]


class PartKeyGradient(PartRows, WarpgroupKeyGradient):
    """Emits the blocks for keys, or those for values."""

    def __init__(
        self, gradient: Gradient, layout: KeyLayout, position: RowPosition, shared: ir.Value,
        maps: Sequence[MappedOperand], finds: Sequence[bool], parts: int,
    ):  # fmt: skip
        WarpgroupKeyGradient.__init__(self, gradient, layout, position, shared, maps, finds=finds)
        self.parts = parts

    def _load_first(self) -> None:
        self._load_own(0)
        with when(numbers.is_below(0, self.tile_count)):  # no query may see the keys
            self._load_queries(numbers.number(0))
            self._load_upstream(numbers.number(0))

    def _query_slot(self, number: ir.Value) -> Number:
        return _turn(number) if self.finds_keys else 0

    def _upstream_slot(self, number: ir.Value) -> Number:
        return _other(number) if self.finds_keys else 1

    def _load_queries(self, number: ir.Value) -> None:
        """Those of a tile, and their numbers."""
        head, first = self.walk.locate(number)
        counts = self._fill_slot(
            self._query_slot(number), 0, self.problem.depth, first, head, ROW_NUMBERS * self.rows * NUMBER_BYTES
        )
        self._load_numbers(_turn(number), head, first, counts)

    def _load_upstream(self, number: ir.Value) -> None:
        head, first = self.walk.locate(number)
        self._fill_slot(self._upstream_slot(number), 1, self.problem.width, first, head)

    def _tile_alone(self, number: ir.Value, sums: list[ir.Value], hides: bool) -> list[ir.Value]:
        queries = self._slot(self._query_slot(number), self.problem.depth)
        self._wait(number, self._query_slot(number))
        scores = self._begin_scores(0, queries)
        if not self.finds_keys:
            return self._add_values(number, sums, scores, hides)
        return self._add_keys(number, sums, scores, queries, hides)

    def _add_keys(
        self, number: ir.Value, sums: list[ir.Value], scores: list[ir.Value], queries: PartTile, hides: bool
    ) -> list[ir.Value]:
        self._wait(number, self._upstream_slot(number))
        of_weights = self._begin_scores(1, self._slot(self._upstream_slot(number), self.problem.width))
        wgmma.wait_group(1)
        weights = self._weights(number, as_sums(wgmma.tie(scores)), _turn(number), hides)
        wgmma.wait_group(0)
        of_scores = slopes(weights, as_sums(wgmma.tie(of_weights)), self._numbers(_turn(number)).inner())
        self._refill(number, self._load_queries)
        found = self._product(of_scores, queries)
        self._refill(number, self._load_upstream)
        return added(sums, found)

    def _add_values(
        self, number: ir.Value, sums: list[ir.Value], scores: list[ir.Value], hides: bool
    ) -> list[ir.Value]:
        wgmma.wait_group(0)
        scores = wgmma.tie(scores)
        self._refill(number, self._load_queries)
        weights = self._weights(number, as_sums(scores), _turn(number), hides)
        self._wait(number, self._upstream_slot(number))
        found = self._product(weights, self._slot(self._upstream_slot(number), self.problem.width))
        self._refill(number, self._load_upstream)
        return added(sums, found)


def _turn(number: ir.Value) -> ir.Value:
    return numbers.number(numbers.remainder(number, SLOTS))


def _other(number: ir.Value) -> ir.Value:
    return numbers.number(numbers.subtract(1, _turn(number)))
