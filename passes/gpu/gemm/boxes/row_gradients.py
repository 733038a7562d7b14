"""Gradients of what was standardized, in the kernel of the product that finds those of the result, in halves.

Each block of a cluster has a tile of the same rows, as in row_sums.py. A warp does this:

    boxes of x           round the sums -> keep the pairs of both in registers, 16 bits each -> add up along rows
    two sums of rows     exchanged with the other blocks (exchange.py)
    units of two others  evaluate from what is in registers and a unit -> write two results over it -> add up columns

A unit is 8 rows of 128 bytes of both tensors that are read in the end, or both results, in the place of one box of 16
rows: one instruction takes or puts pairs of both.

Why it is so:

- The gradients of results are neither written nor read, and there is no launch for what becomes of them.
- What stays in registers takes as many as the sums did: these are rounded to halves first, as they are where they are
  stored, and x comes in the registers that are free then.
- Assemblers keep what a register of two halves is in f32, where they find it twice, and spill. So it is taken apart by
  another instruction in the end, with a zero that they do not know.
- The last box of x stays in shared memory, and its units are the first: 16 registers that would be spilled.
- Places go round: x comes while the products are under way, and each place that has been read is asked for what is read
  three places later, so that units come while sums are exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.boxes.column_sums import ColumnTotals
from blu.passes.gpu.gemm.boxes.exchange import FREE, ClusterBoxes, RowExchange
from blu.passes.gpu.gemm.boxes.gradient_plan import SIDES, UNIT_ROWS, GradientPlan
from blu.passes.gpu.gemm.boxes.pairs import Halves
from blu.passes.gpu.gemm.boxes.plan import BOX_BYTES, PAIR
from blu.passes.gpu.gemm.boxes.row_sums import both_of, pair_of
from blu.passes.gpu.gemm.boxes.row_totals import own_row
from blu.passes.gpu.gemm.boxes.writer import BoxWriter
from blu.passes.gpu.gemm.slabs import TilePosition
from blu.passes.gpu.isa import barrier, cvt, mbarrier, prmt, tma, wgmma
from blu.passes.gpu.kernel import when
from blu.passes.kernels.epilogue import Known

_EIGHTHS = 8
"""Of the 64 columns of a box."""
_SIDE_BYTES = UNIT_ROWS * wgmma.ROW_BYTES
"""Those of a unit's rows of one tensor."""
_LAST_PLACE = FREE - 1
"""Where the last box of x stays until its units have been made, for want of registers."""


@dataclass(frozen=True)
class GradientBoxes(ClusterBoxes):
    """The boxes of a tile of gradients: `plan` is that of x."""

    rows: GradientPlan

    @property
    def filled(self) -> int:
        return FREE

    def writer(self, group: ir.Value, thread: ir.Value) -> BoxWriter:
        own = ClusterBoxes.writer(self, group, thread)
        return GradientWriter(own.plan, own.places, own.barriers, own.maps, own.thread, own.warp, self.rows, self.rank)


Kept = dict[tuple[int, int, int], tuple[ir.Value, ir.Value]]
"""Pairs of a thread, of the product and of x, by 64 rows, by eight columns and by eight rows."""


@dataclass(frozen=True)
class GradientWriter(BoxWriter):
    """Writes the tiles of a warp, for one of its threads."""

    rows: GradientPlan
    rank: ir.Value

    def ask(self, tile: TilePosition) -> None:
        with when(self._is_first):
            tma.wait_group_read(0)
            for number in range(FREE):
                self._load(number, tile)

    def write(self, sums: Sequence[ir.Value], tile: TilePosition, turn: ir.Value) -> None:
        kept, totals = self._keep(sums, tile)
        known = self._known_of_own_row(totals, tile, turn)
        for number in range(self.rows.units):
            box, row = self._unit(number)
            column, part = divmod(box, self.plan.down)
            if (part, row) == (self.plan.down - 1, 0):
                columns = [ColumnTotals(self._lane, _EIGHTHS) for _ in self.rows.epilogue.sums]
            of_row = {key: self._blocks.of_row(value, 2 * part + row) for key, value in known.items()}
            self._write_unit(number, kept, of_row, columns, tile)
            if (part, row) == (0, SIDES - 1):
                self._write_totals(columns, tile, column * self.plan.columns)

    # -- what comes, and where it is ---------------------------------------------------------------------------------

    @property
    def _halves(self) -> Halves:
        return Halves(self.places, self._lane)

    @property
    def _zero(self) -> ir.Value:
        """A zero of which assemblers do not know that it is one."""
        return arith.shrui(self.warp, numbers.number(8))

    def _load(self, number: int, tile: TilePosition) -> None:
        """Ask for a box of x, or for one of the units that follow these, by one thread."""
        place, full = numbers.add(self.places, number % FREE * BOX_BYTES), self._full(number % FREE)
        mbarrier.arrive_expect_tx(full, BOX_BYTES)
        if number < self.plan.count:
            row, column = self._corner(self._box(number), tile)
            tma.cp_async_bulk_tensor(self.maps[0], [column, row], place, full)
            return
        row, column = self._corner_of_unit(number - self.plan.count, tile)
        for side in range(SIDES):
            tma.cp_async_bulk_tensor(self.maps[1 + side], [column, row], numbers.add(place, side * _SIDE_BYTES), full)

    def _full(self, number: int) -> ir.Value:
        return numbers.add(self.barriers, number * mbarrier.BYTES)

    def _unit(self, number: int) -> tuple[int, int]:
        """The box in which a unit is, and its half there: the last box comes first."""
        before, row = divmod(number, SIDES)
        return self.plan.count - 1 - before, row

    def _corner_of_unit(self, number: int, tile: TilePosition) -> tuple[ir.Value, ir.Value]:
        """Row and column of the result where a unit begins."""
        box, row = self._unit(number)
        first, column = self._corner(box, tile)
        return numbers.add(first, row * UNIT_ROWS), column

    def _wait_for(self, number: int) -> int:
        """Until a box or a unit is there; its place. All places are filled an even number of times for each tile."""
        filled, place = divmod(number, FREE)
        mbarrier.wait(self._full(place), numbers.number(filled % 2))
        barrier.warp_sync()
        return place * BOX_BYTES

    # -- sums of rows ------------------------------------------------------------------------------------------------

    def _box(self, number: int) -> int:
        """The box of x that is read in turn: all of the upper rows, then all of the lower ones."""
        part, column = divmod(number, self.plan.count // self.plan.down)
        return column * self.plan.down + part

    def _keep(self, sums: Sequence[ir.Value], tile: TilePosition) -> tuple[Kept, list[list[ir.Value]]]:
        """The pairs of the product and of x, and for both sums what a thread has of each of its rows."""
        kept: Kept = {}
        # At once: all that stays in registers has room in those of the sums from here on.
        own = [self._rounded(*pair) for pair in zip(sums[::2], sums[1::2], strict=True)]
        totals: list[list[ir.Value]] = [[] for _ in self.rows.sums]
        for number in range(self.plan.count):
            if number % (self.plan.count // self.plan.down) == 0:
                zero = numbers.real(0.0)
                pairs = [[pair_of(zero, zero) for _ in range(2)] for _ in self.rows.sums]
            self._keep_box(number, own, kept, pairs, tile)
            if (number + 1) % (self.plan.count // self.plan.down) == 0:
                for total, found in zip(totals, pairs, strict=True):
                    total += [arith.addf(*both_of(pair)) for pair in found]
        return kept, totals

    def _keep_box(
        self, number: int, own: Sequence[ir.Value], kept: Kept, pairs: Sequence[list[ir.Value]], tile: TilePosition
    ) -> None:
        """Keep the pairs of a box, and add them to the sums of its two rows of a thread."""
        column, part = divmod(self._box(number), self.plan.down)
        each, point = self.plan.schedule.columns // 2, self._point(tile, tile.row, tile.column)
        first, zero = (part * each + column * self.plan.columns // 2) // PAIR, numbers.real(0.0)
        place = self._wait_for(number)
        for block in range(_EIGHTHS // 2):
            for spot, x in enumerate(self._halves.take(place, block)):
                eighth, row = 2 * block + spot // 2, spot % 2
                words = kept[part, column * _EIGHTHS + eighth, row] = own[first + 2 * eighth + row], x
                known, total = self._known_of(words), pair_of(zero, zero)
                for tensor, sums in zip(self.rows.sums, pairs, strict=True):
                    sums[row] = self.rows.epilogue.accumulate(tensor, sums[row], total, point, known)
        if number + 1 < self.plan.count:
            barrier.warp_sync()
            with when(self._is_first):
                self._load(number + FREE, tile)

    def _rounded(self, low: ir.Value, high: ir.Value) -> ir.Value:
        assert self.rows.rounded is not None, "a product that is not rounded"
        return cvt.rn_x2(low, high, str(ir.ShapedType(self.rows.rounded.type).element_type))

    def _known_of(self, pairs: tuple[ir.Value, ir.Value], zero: ir.Value | None = None) -> Known:
        """What is known of two neighbours: their gradients and their x."""
        keys = [(self.rows.rounded, self.rows.whole_dims), *self.rows.standard]
        return {key: self._numbers_of(word, key[0], zero) for key, word in zip(keys, pairs, strict=True)}

    def _numbers_of(self, word: ir.Value, tensor: ir.Value, zero: ir.Value | None = None) -> ir.Value:
        """The two numbers of a register: those of bf16 as f32, so that no instruction takes the register apart."""
        element = ir.ShapedType(tensor.type).element_type
        if not isinstance(element, ir.BF16Type):
            return self._halves.numbers_of(word, element)
        low, high = cvt.unpack(word, "bf16") if zero is None else prmt.unpack_again(word, zero)
        return pair_of(low, high)

    @property
    def _blocks(self) -> RowExchange:
        return RowExchange(self.places, self._lane, self.rank, self.rows.cluster)

    def _known_of_own_row(self, totals: Sequence[list[ir.Value]], tile: TilePosition, turn: ir.Value) -> Known:
        """What is found of a row, and what is read of it: of a thread's four rows, each lane has another one."""
        plan, blocks = self.rows, self._blocks
        parts = [blocks.part(own) for own in totals]
        found = {
            tensor: blocks.total(part, number, turn)
            for number, (tensor, part) in enumerate(zip(plan.sums, parts, strict=True))
        }
        known = self._read_of_own_row(tile)
        point = self._point(tile, tile.row, tile.column)
        for tensor in plan.epilogue.row_numbers:
            made = found.get(tensor)
            if made is None:
                made = plan.epilogue.row_number(tensor, numbers.real(0.0), point, known)
            known[tensor, plan.row_dims] = made
        return known

    def _read_of_own_row(self, tile: TilePosition) -> Known:
        keys = [key for key in self.rows.last.reads if key not in self.rows.others]
        return dict(self._read(keys, self._point(tile, own_row(tile, self.warp, self._lane), tile.column)))

    # -- units -------------------------------------------------------------------------------------------------------

    def _write_unit(
        self, number: int, kept: Kept, known: Known, columns: Sequence[ColumnTotals], tile: TilePosition
    ) -> None:
        """Write what becomes of eight rows of a box, over what is read of them."""
        box, row = self._unit(number)
        column, part = divmod(box, self.plan.down)
        place, again = self._wait_for(self.plan.count + number), self._zero
        for block in range(_EIGHTHS // 2):
            taken, words = self._halves.take(place, block), []
            xs = self._halves.take(_LAST_PLACE * BOX_BYTES, block) if number < SIDES else None
            for half in range(2):
                eighth = 2 * block + half
                pairs = kept[part, column * _EIGHTHS + eighth, row]
                pairs = pairs if xs is None else (pairs[0], xs[2 * half + row])
                read = zip(self.rows.others, taken[SIDES * half :], strict=False)
                own = known | self._known_of(pairs, again) | {key: self._numbers_of(word, key[0]) for key, word in read}
                terms, made = self._evaluate_pair(own, tile)
                words += made
                for total, term in zip(columns, terms, strict=True):
                    total.add_pair(eighth, term)
            barrier.warp_sync()
            self._halves.put(place, block, words)
        self._send_unit(number, place, tile)

    def _evaluate_pair(self, known: Known, tile: TilePosition) -> tuple[list[ir.Value], list[ir.Value]]:
        """The terms of sums down columns, and the results, of two neighbours."""
        plan, point = self.rows, self._point(tile, tile.row, tile.column)
        zero, exact = numbers.real(0.0), replace(plan.last, outputs=plan.last.outputs[: len(plan.exact)])
        total = pair_of(zero, zero)
        found = dict(zip(plan.exact, exact.evaluate(total, point, PAIR, PAIR, known), strict=True))
        known = known | {(tensor, plan.whole_dims): value for tensor, value in found.items()}
        words = {tensor: self._rounded(*both_of(found[source])) for tensor, source in plan.roundings.items()}
        known |= {(tensor, plan.whole_dims): self._numbers_of(word, tensor) for tensor, word in words.items()}
        values = replace(plan.last, outputs=plan.results).evaluate(total, point, PAIR, PAIR, known)
        made = [words[tensor] if tensor in words else self._halves.pair_of(value)
                for (tensor, _), value in zip(plan.results, values, strict=True)]  # fmt: skip
        return [found[item.terms] for item in plan.epilogue.sums], made

    def _send_unit(self, number: int, place: int, tile: TilePosition) -> None:
        """Let a unit go, and ask for what the place of the one before it is for next."""
        tma.show_writes()
        barrier.warp_sync()
        row, column = self._corner_of_unit(number, tile)
        following = number - 1 + FREE
        with when(self._is_first):
            for side in range(SIDES):
                source = numbers.add(self.places, place + side * _SIDE_BYTES)
                tma.store_tensor(self.maps[1 + SIDES + side], [column, row], source)
            tma.commit_group()
            if number == SIDES - 1:
                self._load(self.plan.count + _LAST_PLACE, tile)
            if FREE <= following < self.rows.units:
                tma.wait_group_read(1)
                self._load(self.plan.count + following, tile)
        barrier.warp_sync()
