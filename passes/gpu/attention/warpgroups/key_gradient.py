"""The gradients of keys and values by Hopper's warpgroups: a block is one of them, has 64 keys, and walks over queries.

    of_value += weights^T @ g, of_key += slopes of scores^T @ queries    | of a tile
    scores^T = keys @ queries^T                                          | of the next, begun before they are there
    slopes of weights^T = values @ g^T                                   | of the next, while its weights are computed

Rows of the products are keys: weights and slopes come out in the registers that left factors are in. Of long rows,
whose sums are more than a group's registers, there is a launch for each of the gradients.

From one turn of the loop to the next, products of slopes alone are under way: were it scores, of which others wait for
some and not for all, ptxas would have each product wait for the one before (C7514).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.key_gradient import Queries
from blu.passes.gpu.attention.operands import pointer, split_head
from blu.passes.gpu.attention.output import write_tile
from blu.passes.gpu.attention.schedule import WarpgroupGradientSchedule
from blu.passes.gpu.attention.scores import STRIP, KeySpan, Mask, Sums, as_left, flatten, map_sums
from blu.passes.gpu.attention.slopes import (
    NUMBER_BYTES,
    REST,
    ROW_NUMBERS,
    ColumnNumbers,
    Gradient,
    Pairs,
    multiplied,
    slopes,
)
from blu.passes.gpu.attention.tiles import MatrixTile, tile_bytes
from blu.passes.gpu.attention.warpgroups import rests
from blu.passes.gpu.attention.warpgroups.own_rows import OwnRows
from blu.passes.gpu.attention.warpgroups.panels import PANEL, PanelTile, add_weighted, anew, as_sums, packed, scores_of
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS, MappedOperand, StageRange, Stages
from blu.passes.gpu.attention.warpgroups.turned import HeldRows, turned_bytes
from blu.passes.gpu.isa import barrier, tma, wgmma
from blu.passes.gpu.kernel import repeat
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory


@dataclass(frozen=True)
class KeyLayout:
    """The shared memory of a block: its keys and values, stages of queries and g, and these queries' numbers.

    Gradients of 16 bits are staged in the first two; queries and g of f32 are turned around where keys and values were.
    """

    memory: SharedMemory
    own: StageRange
    queries: StageRange
    row_numbers: int
    found_rests: int = 0

    @classmethod
    def of(cls, schedule: WarpgroupGradientSchedule, depth: int, width: int, size: int) -> KeyLayout:
        """That for keys of `depth` columns and values of `width`, of `size` bytes."""
        memory, rows, stages = SharedMemory(), schedule.queries, schedule.query_stages
        groups, staged = schedule.key_groups, [tile_bytes(ROWS, each, size) for each in (depth, width)]
        if size == 4:
            staged = [turned_bytes(rows, depth) + turned_bytes(rows, width), 0]
        own = StageRange.take(memory, groups, (ROWS, depth), (ROWS, width), size=size, least=staged[0])
        queries = StageRange.take(memory, stages, (rows, depth), (rows, width), size=size, least=staged[1])
        row_numbers = memory.take(stages * ROW_NUMBERS * rows * NUMBER_BYTES)
        readers = groups * THREADS if groups > 1 else 0  # each thread reads numbers of rows
        own, queries = own.with_barriers(memory), queries.with_barriers(memory, readers)
        return cls(memory, own, queries, row_numbers, memory.take(rests.BYTES, alignment=rests.BYTES))


class WarpgroupKeyGradient(OwnRows):
    """Emits the launch. `maps` are those of keys, values, queries and g; of keys and of values it `finds` gradients."""

    def __init__(
        self, gradient: Gradient, layout: KeyLayout, position: RowPosition, shared: ir.Value,
        maps: Sequence[MappedOperand], group: Number = 0, finds: Sequence[bool] = (True, True),
    ):  # fmt: skip
        self.finds_keys, self.finds_values = finds
        self.gradient, self.problem, self.layout, self.position = gradient, gradient.problem, layout, position
        self.shared, self.maps, self.rows, self.group = shared, maps, layout.queries.extents[0][0], group
        self.own, self.queries = layout.own.at(shared), layout.queries.at(shared)
        self.row_numbers = numbers.add(shared, layout.row_numbers)
        self.has_rests = True
        block_rows = ROWS * self.own.count
        block_first = numbers.multiply(position.part, block_rows)
        self.first = numbers.add(block_first, numbers.multiply(group, ROWS))
        self.key_head = split_head(position.head, self.problem.key_heads)
        self.own_row = numbers.multiply(position.own_warp, STRIP)
        self.span = KeySpan(position.lane, numbers.add(self.first, self.own_row), 1)
        self.mask = Mask(self.problem, None, self.span, turned=True)
        self.walk = Queries.seeing(gradient, block_rows, self.rows, block_first, self.key_head)

    @property
    def tiles(self) -> Stages:
        return self.queries

    @property
    def tile_count(self) -> Number:
        return self.walk.total

    @property
    def own_head(self) -> list[ir.Value]:
        return self.key_head

    def emit(self) -> None:
        """What one thread does. The first keys, which all queries see, come first."""
        problem, walk = self.problem, self.walk
        hidden = 0 if not problem.causal else walk.total if problem.groups > 1 else walk.hidden
        self.begin()
        self.own.wait(0, self.group)
        self.hold()
        sums = [numbers.real(0)] * (self._key_sums + self._value_sums)
        if self._begins_early:
            sums = self._walk_by_rests(sums, hidden)
        else:
            sums = repeat(0, hidden, 1, sums, partial(self._tile_alone, hides=True))
            sums = repeat(hidden, walk.total, 1, sums, partial(self._tile_alone, hides=False))
        of_key, of_value = self._unpack(sums)
        self.sync()  # gradients are staged where tiles were, which all warps read
        address = self.own.tile(0, self.group).address
        if self.finds_keys:
            self._write_keys(as_sums(of_key), address)
        if self.finds_values:
            self._write_values(as_sums(of_value), address)

    @property
    def _begins_early(self) -> bool:
        """Whether scores of a tile are begun before the sums of the one before it are there.

        Factors of f32 leave no registers for them; groups that share tiles fill each other's waits.
        """
        return self.problem.size == 2 and self.own.count == 1

    def _walk_by_rests(self, sums: list[ir.Value], hidden: Number) -> list[ir.Value]:
        """Sums of all tiles. No query may see the keys, and then there is no first tile."""
        is_there = numbers.smaller(self.walk.total, 1)
        place = numbers.number(numbers.add(self.shared, self.layout.found_rests))
        found = rests.any_of_block(self.walk, self.position.thread, place)
        branch = scf.IfOp(found, [item.type for item in sums], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            alone = partial(self._tile_alone, hides=self.problem.causal)  # rare: one loop, which needs fewer registers
            scf.yield_(repeat(0, self.walk.total, 1, sums, alone))
        with ir.InsertionPoint(branch.else_block):
            self.has_rests = False
            scf.yield_(repeat(0, is_there, 1, sums, partial(self._walk, hidden=hidden)))
            self.has_rests = True
        return list(branch.results)

    @property
    def _key_sums(self) -> int:
        return self.problem.depth // 2 if self.finds_keys else 0

    @property
    def _value_sums(self) -> int:
        return self.problem.width // 2 if self.finds_values else 0

    def _write_keys(self, sums: Sums, address: ir.Value) -> None:
        problem, factor = self.problem, numbers.real(self.problem.factor)
        scaled = map_sums(sums, lambda value, *_: arith.mulf(value, factor))
        stage = MatrixTile(address, ROWS, problem.depth, problem.size)
        write_tile(scaled, self.span, stage, self.own_row, self.gradient.of_key.matrix(self.key_head))
        self.add_up(1, scaled, stage, self.key_head)

    def _write_values(self, sums: Sums, address: ir.Value) -> None:
        """After the keys' gradient, which is staged at the same address."""
        problem = self.problem
        if self.own.count == 1:  # nobody waits for what was staged before to be read
            address = numbers.add(self.shared, self.layout.queries.tiles)
        elif self.finds_keys and (problem.width != problem.depth or 1 in self.gradient.sums):
            self.sync()  # rows of other warps' keys, or their sums, are in this warp's rows of values
        stage = MatrixTile(address, ROWS, problem.width, problem.size)
        write_tile(sums, self.span, stage, self.own_row, self.gradient.of_value.matrix(self.key_head))
        self.add_up(2, sums, stage, self.key_head)

    # What the copying thread does

    def load(self, number: Number, stage: Number) -> None:
        """Queries and g of a tile, and the numbers of its queries."""
        head, first = self.walk.locate(number)
        counts = self.queries.announce(stage, len(self._kinds) * self.rows * NUMBER_BYTES)
        for place in (0, 1):
            self.maps[2 + place].load(self.queries.tile(place, stage), first, head, counts)
        self._load_numbers(stage, head, first, counts)

    @property
    def _kinds(self) -> list[int]:
        """The numbers of each query that tiles have."""
        return [kind for kind in range(ROW_NUMBERS) if self.has_rests or kind != REST]

    def _load_numbers(self, stage: Number, head: Sequence[ir.Value], first: Number, counts: ir.Value) -> None:
        num_bytes, sources = self.rows * NUMBER_BYTES, self.gradient.left_at(self.walk.flat_head(head), first)
        for place in self._kinds:
            source = sources[place]
            target = numbers.number(numbers.add(self._numbers_at(stage), place * num_bytes))
            tma.cp_async_bulk(pointer(source), target, num_bytes, counts)

    def _numbers_at(self, stage: Number) -> ir.Value:
        """Where the numbers of all queries of a stage are."""
        before = numbers.multiply(stage, ROW_NUMBERS * self.rows * NUMBER_BYTES)
        return numbers.number(numbers.add(self.row_numbers, before))

    # What all threads do

    def _unpack(self, carried: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        """Gradients of keys and of values."""
        return carried[: self._key_sums], carried[self._key_sums :]

    def _walk(self, first: ir.Value, sums: list[ir.Value], hidden: Number) -> list[ir.Value]:
        """Sums of all tiles, the first of which is number 0, and so many of which have hidden queries."""
        last = numbers.number(numbers.subtract(self.walk.total, 1))
        begun = None
        if self._begins_early:  # with scores under way, ptxas would wait for these first
            self.queries.wait(first, self._stage(first))
            begun = self._begun(self._stage(first))
        carried = self._prepare(first, sums, self._begin_scores(first), self.problem.causal, begun)
        before = numbers.smaller(numbers.larger(numbers.subtract(hidden, 1), 0), last)
        carried = repeat(0, before, 1, carried, partial(self._tile, hides=True))
        carried = repeat(before, last, 1, carried, partial(self._tile, hides=False))
        return self._add_products(last, carried)[0]

    def _tile(self, number: ir.Value, carried: list[ir.Value], hides: bool) -> list[ir.Value]:
        """Add the products of a tile, and prepare the next, of which queries may be hidden."""
        following = numbers.number(numbers.add(number, 1))
        sums, scores = self._add_products(number, carried, following)
        wgmma.fence()  # slopes of weights come out where factors were
        return self._prepare(following, sums, scores, hides)

    def _tile_alone(self, number: ir.Value, sums: list[ir.Value], hides: bool) -> list[ir.Value]:
        """Prepare a tile, and add its products."""
        carried = self._prepare(number, sums, self._begin_scores(number), hides)
        return self._add_products(number, carried)[0]

    def _begin_scores(self, number: ir.Value) -> list[ir.Value]:
        """Begin the scores of a tile, once it is there."""
        stage = self._stage(number)
        self.queries.wait(number, stage)
        wgmma.fence()
        scores = scores_of(self._left(0), self.queries.tile(0, stage), self.problem.element)
        wgmma.commit_group()
        return scores

    def _left(self, place: int) -> PanelTile | HeldRows:
        """Keys, or values. There are not enough registers for descriptors that are made before the walk."""
        tile = self.left[place]
        return anew(tile) if isinstance(tile, PanelTile) and (place == 0 or tile.columns > PANEL) else tile

    def _prepare(
        self, number: ir.Value, sums: list[ir.Value], scores: list[ir.Value], hides: bool,
        begun: Sequence[ir.Value] | None = None,
    ) -> list[ir.Value]:  # fmt: skip
        """Sums, the weights of a tile, and the slopes of these, which are begun."""
        stage, of_weights = self._stage(number), list[ir.Value]()
        if self.finds_keys:
            begun = self._begun(stage) if begun is None else begun
            of_weights = scores_of(self._left(1), self.queries.tile(1, stage), self.problem.element, begun)
            wgmma.commit_group()
        self.turn(self._both(stage))
        shifts = self._numbers(stage).shifts()
        wgmma.wait_group(int(self.finds_keys))
        weights = self._weights(number, as_sums(wgmma.tie(scores)), stage, hides, shifts)
        return [*sums, *flatten(weights), *of_weights]

    def _begun(self, stage: Number) -> list[ir.Value]:
        """What sums of weights' slopes begin with: -inner, so that it is not subtracted of each."""
        if not self._begins_early:
            return []
        begun = wgmma.tie(flatten([self._numbers(stage).negated_inner()]))
        wgmma.fence()
        return begun

    def _add_products(
        self, number: ir.Value, carried: list[ir.Value], following: ir.Value | None = None
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Sums with the products of a tile, and the scores of a following one, begun before the sums are there."""
        element, stage = self.problem.element, self._stage(number)
        count, each = self._key_sums + self._value_sums, self.rows // 2
        sums, weights, of_weights = carried[:count], carried[count : count + each], carried[count + each :]
        left, of_scores = self._left_factors(as_sums(weights), of_weights, stage)
        tied = wgmma.tie([*sums, *left, *of_scores])
        of_key, of_value = self._unpack(tied[:count])
        left, of_scores = tied[count : count + len(left)], tied[count + len(left) :]
        of_queries, of_upstream = self.right(self._both(stage))
        wgmma.fence()
        if self.finds_values:
            of_value = add_weighted(of_value, left, of_upstream, element)
        if self.finds_keys:
            of_key = add_weighted(of_key, of_scores, of_queries, element)
        wgmma.commit_group()
        scores = [] if following is None else self._begin_scores(following)
        wgmma.wait_group(int(following is not None))
        sums = wgmma.tie([*of_key, *of_value])
        self._have_read_numbers(number, stage)
        return sums, scores

    def _have_read_numbers(self, number: ir.Value, stage: Number) -> None:
        """Let the stage be filled again, of which each thread has read the numbers of queries."""
        if self.own.count == 1:
            self.have_read(number, stage, barrier.sync)
        else:  # racecheck lets nobody arrive for others
            self.tiles.give_back(stage)

    def _stage(self, number: ir.Value) -> ir.Value:
        return numbers.number(numbers.remainder(number, self.queries.count))

    def _both(self, stage: ir.Value) -> list[PanelTile]:
        """The queries of a tile, and g."""
        return [self.queries.tile(place, stage) for place in (0, 1)]

    def _left_factors(
        self, weights: Sums, of_weights: list[ir.Value], stage: Number
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        """Weights, and slopes of scores, as left factors of the products that this launch has."""
        element = self.problem.element
        if not self.finds_keys:
            return packed(as_left(weights, element), self.rows), []
        inner = [] if self._begins_early else self._numbers(stage).inner()
        wgmma.wait_group(0)
        found = as_sums(wgmma.tie(of_weights))
        left = packed(as_left(weights, element), self.rows) if self.finds_values else []
        of_scores = slopes(weights, found, inner) if inner else multiplied(weights, found)
        return left, packed(as_left(of_scores, element), self.rows)

    def _finish(self, scores: Sums, first: Number, hides: bool) -> Sums:
        """Scores of the queries from `first` on, -inf where nobody may see."""
        return self.mask.finish(scores, first, hides)

    def _weights(self, number: ir.Value, scores: Sums, stage: Number, hides: bool, shifts: Pairs | None = None) -> Sums:
        """The weights of scores; `shifts` are those of their queries, if they have been read before."""
        _, first = self.walk.locate(number)
        scores = self._finish(scores, first, hides)
        columns, exponent = self._numbers(stage), self.mask.exponent
        shifts = shifts or columns.shifts()
        if self.has_rests:
            return columns.weights_with_rests(scores, exponent, shifts, self.span.lane)
        return columns.shifted_weights(scores, exponent, shifts)

    def _numbers(self, stage: Number) -> ColumnNumbers:
        return ColumnNumbers(self._numbers_at(stage), self.rows, self.span.column)
