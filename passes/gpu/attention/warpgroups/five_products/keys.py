"""What a group does with its 64 keys of a block of 128, for all tiles of queries that see them (launch.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import COPY_BYTES
from blu.passes.gpu.attention.scores import STRIP, Sums, as_left, flatten, map_sums
from blu.passes.gpu.attention.slopes import Gradient, Pairs, slopes
from blu.passes.gpu.attention.warpgroups.five_products.layout import (
    BLOCK_ROWS,
    BOTH,
    GROUPS,
    SUM_BYTES,
    JointLayout,
    takes_shifts,
)
from blu.passes.gpu.attention.warpgroups.key_gradient import WarpgroupKeyGradient
from blu.passes.gpu.attention.warpgroups.panels import STEP_BYTES, add_weighted, anew, as_sums, packed, scores_of
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS, MappedOperand
from blu.passes.gpu.isa import barrier, mma, shared_memory, tma, wgmma
from blu.passes.gpu.isa.wgmma import ROW_BYTES, SharedTile
from blu.passes.gpu.kernel import repeat, when
from blu.passes.gpu.numbers import Number


class JointKeyGradient(WarpgroupKeyGradient):
    """Emits the work of a group, in whose layout there is room for slopes and for sums of queries' gradients."""

    layout: JointLayout

    def __init__(
        self, gradient: Gradient, layout: JointLayout, position: RowPosition, shared: ir.Value,
        maps: Sequence[MappedOperand], group: Number = 0,
    ):  # fmt: skip
        super().__init__(gradient, layout, position, shared, maps, group)
        self.results = layout.results.at(shared)

    def find(self) -> list[ir.Value]:
        """The sums of one thread."""
        problem, walk = self.problem, self.walk
        hidden = 0 if not problem.causal else walk.total if problem.groups > 1 else walk.hidden
        self.own.wait(0, self.group)
        self.hold()
        sums = [numbers.real(0)] * (self._key_sums + self._value_sums)
        return repeat(0, numbers.smaller(walk.total, 1), 1, sums, partial(self._walk, hidden=hidden))

    def write(self, sums: list[ir.Value]) -> None:
        """Write them."""
        of_key, of_value = self._unpack(sums)
        barrier.sync_named(BOTH, GROUPS * THREADS)  # gradients are staged where keys were, which both groups read
        self._write_keys(as_sums(of_key), self.own.tile(0, self.group).address)
        self._write_values(as_sums(of_value), self.own.tile(0, self.group).address)

    def _prepare(
        self, number: ir.Value, sums: list[ir.Value], scores: list[ir.Value], hides: bool,
        begun: Sequence[ir.Value] | None = None,
    ) -> list[ir.Value]:  # fmt: skip
        stage = self._stage(number)
        of_weights = scores_of(self._left(1), self.queries.tile(1, stage), self.problem.element)
        wgmma.commit_group()
        wgmma.wait_group(1)
        weights = self._weights(number, as_sums(wgmma.tie(scores)), stage, hides)
        return [*sums, *flatten(weights), *of_weights]

    def _weights(self, number: ir.Value, scores: Sums, stage: Number, hides: bool, shifts: Pairs | None = None) -> Sums:
        if takes_shifts(self.problem):
            return super()._weights(number, scores, stage, hides, shifts)
        _, first = self.walk.locate(number)
        return self._numbers(stage).weights(self._finish(scores, first, hides), self.mask.exponent)

    def _finish(self, scores: Sums, first: Number, hides: bool) -> Sums:
        """No weights for keys beyond the end, either: zeros, by which slopes are multiplied, are not enough for inf."""
        scores = super()._finish(scores, first, hides)
        if self.problem.keys % BLOCK_ROWS == 0:
            return scores
        is_there = {place: numbers.is_below(self.span.row(*place), self.problem.keys) for place in self.span.rows}
        none = numbers.real(-inf)
        return map_sums(scores, lambda value, strip, half, _: arith.select(is_there[strip, half], value, none))

    def _add_products(
        self, number: ir.Value, carried: list[ir.Value], following: ir.Value | None = None
    ) -> tuple[list[ir.Value], list[ir.Value]]:
        element, stage, place = self.problem.element, self._stage(number), numbers.remainder(number, 2)
        count, each = self._key_sums + self._value_sums, self.rows // 2
        sums, weights, of_weights = carried[:count], as_sums(carried[count : count + each]), carried[count + each :]
        queries, upstream = self._both(stage)
        wgmma.wait_group(0)
        of_weights = wgmma.tie(of_weights)
        tied = wgmma.tie([*sums, *packed(as_left(weights, element), self.rows)])
        of_key, of_value = self._unpack(tied[:count])
        wgmma.fence()
        of_value = add_weighted(of_value, tied[count:], upstream, element)
        wgmma.commit_group()
        found = slopes(weights, as_sums(of_weights), self._numbers(stage).inner())
        left = wgmma.tie(packed(as_left(found, element), self.rows))
        self._store_slopes(left, place)
        wgmma.fence()
        of_key = add_weighted(of_key, left, queries, element)
        wgmma.commit_group()
        barrier.sync_named(BOTH, GROUPS * THREADS)
        of_query = self._begin_queries(place)
        wgmma.commit_group()
        wgmma.wait_group(1)
        tied = wgmma.tie([*of_key, *of_value])
        of_key, of_value = self._unpack(tied)
        scores = [] if following is None else self._begin_scores(following)
        wgmma.wait_group(int(following is not None))
        done = wgmma.tie([*of_key, *of_value, *of_query])
        self._have_read_numbers(number, stage)
        self._hand_on(done[count:], number)
        return done[:count], scores

    # Gradients of queries

    def _slopes(self, place: ir.Value, group: Number) -> ir.Value:
        """Where slopes of a group's keys are, as rows [queries, keys]."""
        distance = numbers.add(numbers.multiply(place, GROUPS), group)
        start = numbers.add(self.shared, self.layout.slopes)
        return numbers.number(numbers.add(start, numbers.multiply(distance, ROWS * ROW_BYTES)))

    def _store_slopes(self, factors: Sequence[ir.Value], place: ir.Value) -> None:
        """Write left factors, four registers for 16 queries each, turned around, where both groups read them."""
        lane, warp = self.position.lane, self.position.own_warp
        row = numbers.add(numbers.remainder(lane, 8), numbers.multiply(numbers.divide(lane, 16), 8))
        piece = numbers.add(numbers.multiply(warp, 2), numbers.remainder(numbers.divide(lane, 8), 2))
        piece = arith.xori(numbers.number(piece), numbers.remainder(lane, 8))
        own = numbers.add(numbers.multiply(row, ROW_BYTES), numbers.multiply(piece, COPY_BYTES))
        address = numbers.number(numbers.add(self._slopes(place, self.group), own))
        for step in range(ROWS // STRIP):
            mma.stmatrix(address, step * STRIP * ROW_BYTES, factors[4 * step : 4 * step + 4], transposed=True)
        tma.show_writes()

    def _begin_queries(self, place: ir.Value) -> list[ir.Value]:
        """The slopes of a tile @ all 128 keys, of which each group finds 64 columns: begins it."""
        sums = list[ir.Value]()
        for group in range(GROUPS):
            left = SharedTile(self._slopes(place, group), True).low_word()
            keys = anew(self.own.tile(0, group))
            panel = numbers.number(numbers.add(keys.address, numbers.multiply(self.group, keys.panel_bytes)))
            right = SharedTile(panel, False, keys.panel_bytes).low_word()
            for step in range(ROWS // STRIP):
                factors = wgmma.described(left, step * STEP_BYTES), wgmma.described(right, step * STRIP * ROW_BYTES)
                if sums:
                    sums = wgmma.mma_async(sums, *factors, self.problem.element, (True, False))
                else:
                    sums = wgmma.mma_async_anew(ROWS, *factors, self.problem.element, (True, False))
        return sums

    def _hand_on(self, sums: Sequence[ir.Value], number: ir.Value) -> None:
        """Leave a tile's sums to the thread that adds them to those of other blocks, once it has read the last ones."""
        self.results.wait_empty(number)
        of_group = numbers.multiply(self.group, ROWS * ROWS * SUM_BYTES)
        place = numbers.add(of_group, numbers.multiply(self.position.thread, COPY_BYTES))
        address = numbers.number(numbers.add(self.results.address, place))
        for place in range(len(sums) // 4):
            shared_memory.st(address, place * THREADS * COPY_BYTES, sums[4 * place : 4 * place + 4])
        tma.show_writes()
        barrier.warp_sync()
        with when(numbers.is_equal(self.position.lane, 0)):
            self.results.say_there()
