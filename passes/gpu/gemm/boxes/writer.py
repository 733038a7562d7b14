"""What the warps that multiply do with their boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.boxes.column_sums import ColumnTotals
from blu.passes.gpu.gemm.boxes.pairs import Bytes, Halves, Words
from blu.passes.gpu.gemm.boxes.plan import BOX_BYTES, PAIR, PLACES, ROWS, WARPS, BoxPlan
from blu.passes.gpu.gemm.boxes.row_totals import RowTotals
from blu.passes.gpu.gemm.output import aligned_accesses
from blu.passes.gpu.gemm.slabs import TilePosition
from blu.passes.gpu.isa import barrier, mbarrier, shfl, tma, wgmma
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import when
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import IndexedBuffer, Point
from blu.passes.kernels.epilogue import Dims, Known

_BLOCK = 16
"""Columns that one instruction takes to registers or to shared memory, 16 rows of them."""
_TOGETHER, _LONG = 2, 40
"""Such blocks that are evaluated at a time, and scalar operations of a body from which on it is one."""


@dataclass(frozen=True)
class Boxes:
    """The boxes of a block: addresses of places and barriers, and those of tensor maps, in the order of `plan.maps`."""

    plan: BoxPlan
    places: ir.Value
    barriers: ir.Value
    maps: Sequence[ir.Value]

    @property
    def keeps_more(self) -> bool:
        """Whether registers hold more than sums that are still to leave in boxes."""
        return bool(self.plan.row_sums)

    def begin(self) -> None:
        """Make the barriers, by one thread."""
        for number in range(WARPS * self.plan.ahead if self.plan.reads else 0):
            mbarrier.init(numbers.add(self.barriers, number * mbarrier.BYTES), 1)
        for map_ in self.maps:
            tma.prefetch_tensormap(map_)

    def wait_for_all(self) -> None:
        """Until all that are to use them see the barriers."""
        barrier.sync()

    def writer(self, group: ir.Value, thread: ir.Value) -> BoxWriter:
        """What writes the tiles of a thread of a multiplying group."""
        # Known to be the same in all threads of a warp: where a box goes needs no loop that makes it so.
        own = shfl.idx(numbers.divide(thread, WARP), 0)
        warp = numbers.add(numbers.multiply(group, wgmma.THREADS // WARP), own)
        places = numbers.add(self.places, numbers.multiply(warp, PLACES * BOX_BYTES))
        barriers = numbers.add(self.barriers, numbers.multiply(warp, self.plan.ahead * mbarrier.BYTES))
        return BoxWriter(self.plan, places, barriers, self.maps, thread, own)


@dataclass(frozen=True)
class BoxWriter:
    """Writes the tiles of a warp, for one of its threads."""

    plan: BoxPlan
    places: ir.Value
    barriers: ir.Value
    maps: Sequence[ir.Value]
    thread: ir.Value
    warp: ir.Value

    def ask(self, tile: TilePosition) -> None:
        """Let the first boxes come that the fused operations read, before there are sums."""
        if self.plan.reads:
            with when(self._is_first):
                tma.wait_group_read(0)
                for number in range(min(self.plan.ahead, self.plan.count)):
                    self._fill(number, tile)

    def write(self, sums: Sequence[ir.Value], tile: TilePosition, turn: ir.Value) -> None:
        """All elements of a tile that exist, the group's tile number `turn`."""
        if not self.plan.reads:
            with when(self._is_first):
                tma.wait_group_read(0)
            barrier.warp_sync()
        each, wide, down = self.plan.schedule.columns // 2, self.plan.columns, self.plan.down
        biases, sides = self._read_biases(tile, 0), self._read_all_sides(tile)
        rows = [RowTotals(self.plan, item.target, tile, self._lane, self.warp) for item in self.plan.row_sums]
        for number in range(self.plan.count):
            column, part = divmod(number, down)
            if part == 0:
                totals = [ColumnTotals(self._lane, wide // 8) for _ in self.plan.sums]
            following = biases
            if part == down - 1 and number + 1 < self.plan.count:  # they come while this box is worked on
                following = self._read_biases(tile, (column + 1) * wide)
            first = part * each + column * wide // 2
            self._wait(number, turn)
            own = sums[first : first + wide // 2]
            self._write_box(number, own, tile, (sides.get(part), biases), (totals, rows))
            if part == down - 1:
                self._write_totals(totals, tile, column * wide)
            biases = following
        for total in rows:
            total.write()

    def end(self) -> None:
        """Shared memory stays until all boxes have left it."""
        with when(self._is_first):
            tma.wait_group_read(0)

    # -- boxes that come and go --------------------------------------------------------------------------------------

    @property
    def _lane(self) -> ir.Value:
        return numbers.remainder(self.thread, WARP)

    @property
    def _is_first(self) -> ir.Value:
        return numbers.is_equal(self._lane, 0)

    def _place(self, number: int, operand: int) -> int:
        """Where a box is, from the warp's first place on."""
        return (number % self.plan.ahead * self.plan.each + operand) * BOX_BYTES

    def _full(self, number: int) -> ir.Value:
        return numbers.add(self.barriers, number % self.plan.ahead * mbarrier.BYTES)

    def _corner(self, number: int, tile: TilePosition) -> tuple[ir.Value, ir.Value]:
        """Row and column of the result where a box begins."""
        column, part = divmod(number, self.plan.down)
        own = numbers.multiply(self.warp, ROWS)
        row = numbers.add(numbers.add(tile.row, own), part * wgmma.ROWS)
        return row, numbers.add(tile.column, column * self.plan.columns)

    def _coordinates(self, number: int, tile: TilePosition, operand: IndexedBuffer) -> list[ir.Value]:
        row, column = self._corner(number, tile)
        outer = self.plan.product.outer_point(tile.outer)
        return [column, row, *(outer[dim] for dim in self.plan.outer_of(operand))]

    def _fill(self, number: int, tile: TilePosition) -> None:
        """Ask for what is read of a box, by one thread."""
        mbarrier.arrive_expect_tx(self._full(number), sum(map(self.plan.bytes_of, self.plan.operands)))
        for place, operand in enumerate(self.plan.operands):
            target = numbers.add(self.places, self._place(number, place))
            coordinates = self._coordinates(number, tile, operand)
            tma.cp_async_bulk_tensor(self.maps[place], coordinates, target, self._full(number))

    def _wait(self, number: int, turn: ir.Value) -> None:
        """Until what is read is there, or a place is free."""
        plan = self.plan
        if plan.reads:
            filled, place = divmod(number, plan.ahead)
            before = numbers.multiply(turn, plan.fillings(place) % 2)
            phase = arith.andi(numbers.add(before, filled), numbers.number(1))
            mbarrier.wait(self._full(number), phase)
        elif number >= plan.ahead:
            with when(self._is_first):
                tma.wait_group_read(plan.ahead - 1)
        else:
            return
        barrier.warp_sync()

    def _send(self, number: int, tile: TilePosition) -> None:
        """Let a box of each result go, and ask for what its place is for next."""
        plan = self.plan
        tma.show_writes()
        barrier.warp_sync()
        following = number - plan.lag + plan.ahead
        with when(self._is_first):
            for place, operand in enumerate(plan.outputs):
                source = numbers.add(self.places, self._place(number, place))
                map_ = self.maps[len(plan.reads) + place]
                tma.store_tensor(map_, self._coordinates(number, tile, operand), source)
            tma.commit_group()
            if plan.reads and plan.ahead <= following < plan.count:
                tma.wait_group_read(plan.lag)
                self._fill(following, tile)
        barrier.warp_sync()

    # -- what is done with a box -------------------------------------------------------------------------------------

    def _write_box(
        self,
        number: int,
        sums: Sequence[ir.Value],
        tile: TilePosition,
        around: tuple[Sequence[Known] | None, Sequence[Known]],
        totals: tuple[Sequence[ColumnTotals], Sequence[RowTotals]],
    ) -> list[list[list[ir.Value]]]:
        """Write a box of each result; of each block the pairs of each of them. `around` is what follows rows, unless it
        is still to be read, and columns."""
        blocks, together = list(range(self.plan.columns // _BLOCK)), self._together
        written: list[list[list[ir.Value]]] = []
        sides = around[0] or self._read_sides(number, tile)
        for first in range(0, len(blocks), together):
            chosen = blocks[first : first + together]
            taken: Iterable = (self._take(number, block) for block in chosen)
            if not self.plan.is_mixed:  # where they are, one after the other, for want of registers
                taken = list(taken)
            results = [
                self._evaluate(number, block, sums, tile, known, (sides, around[1]), totals[1])
                for block, known in zip(chosen, taken, strict=True)
            ]
            if self.plan.reads:
                barrier.warp_sync()  # all lanes have read what is written over
            for block, values in zip(chosen, results, strict=True):
                for place, (words, target) in enumerate(zip(values, self.plan.outputs, strict=True)):
                    self._pairs_of(target).put(self._place(number, place), block, words)
                self._add_up(totals[0], block, values)
            written += results
        self._send(number, tile)
        return written

    @property
    def _together(self) -> int:
        """How many blocks are evaluated before the first is written."""
        plan = self.plan
        if plan.is_mixed:  # a block of results lies over other blocks of operands, too
            return plan.columns // _BLOCK
        # Several results beside operands need the registers themselves.
        is_crowded = plan.each > 1 and bool(plan.reads)
        return 1 if is_crowded or plan.epilogue.operation_count > _LONG else _TOGETHER

    def _add_up(self, totals: Sequence[ColumnTotals], block: int, values: Sequence[Sequence[ir.Value]]) -> None:
        """Add the pairs of a block of results to the sums down their columns."""
        for total, item in zip(totals, self.plan.sums, strict=True):
            element = self.plan.outputs[item.output].element
            for number, word in enumerate(values[item.output]):
                if self.plan.is_wide:
                    total.add_pair(2 * block + number // 2, word)
                else:
                    total.add(2 * block + number // 2, word, element)

    def _write_totals(self, totals: Sequence[ColumnTotals], tile: TilePosition, first: int) -> None:
        """Write the sums of the columns of a box, as far as there are such columns."""
        product, schedule, index = self.plan.product, self.plan.schedule, ir.IndexType.get()
        dims = product.contraction
        for total, item in zip(totals, self.plan.sums, strict=True):
            column = numbers.add(numbers.add(tile.column, first), total.own_column)
            part, pair = numbers.add(numbers.divide(tile.row, item.length), self.warp), total.own_pair()
            point = {dims.rows: arith.index_castui(index, part), dims.columns: arith.index_castui(index, column)}
            inside = numbers.is_below(column, product.columns) if product.columns % schedule.columns else None
            if total.is_own is not None:
                inside = total.is_own if inside is None else arith.andi(inside, total.is_own)
            with when(inside) if inside is not None else nullcontext(), aligned_accesses():
                item.target.store(pair, point, dims.columns, PAIR)

    def _pairs_of(self, operand: IndexedBuffer) -> Bytes | Halves | Words:
        kind = {8: Bytes, 16: Halves, 32: Words}[operand.element.width]
        return kind(self.places, self._lane)

    def _take(self, number: int, block: int) -> list[list[ir.Value]]:
        """Of each operand the pairs of a block."""
        operands = enumerate(self.plan.operands)
        return [self._pairs_of(operand).take(self._place(number, place), block) for place, operand in operands]

    def _evaluate(
        self,
        number: int,
        block: int,
        sums: Sequence[ir.Value],
        tile: TilePosition,
        taken: Sequence[Sequence[ir.Value]],
        around: tuple[Sequence[Known], Sequence[Known]],
        totals: Sequence[RowTotals],
    ) -> list[list[ir.Value]]:
        """Of each result the pairs of a block."""
        plan, (sides, biases) = self.plan, around
        words: list[list[ir.Value]] = [[] for _ in plan.outputs]
        for place, (half, row) in enumerate((half, row) for half in range(2) for row in range(2)):
            eighth = 2 * block + half
            known = {**sides[row], **biases[eighth]}
            for key, operand, read in zip(plan.reads, plan.operands, taken, strict=True):
                element = ir.ShapedType(key[0].type).element_type
                known[key] = self._pairs_of(operand).numbers_of(read[place], element)
            own = sums[4 * eighth + 2 * row : 4 * eighth + 2 * row + 2]
            total = vector.from_elements(vectors.vector_type(PAIR, numbers.f32()), list(own))
            point = self._point(tile, *self._element(number, tile, eighth, row))
            values, terms = plan.epilogue.evaluate_terms(total, point, PAIR, PAIR, known)
            for own_total, term in zip(totals, terms, strict=False):
                column, part = divmod(number, plan.down)
                own_total.add(2 * part + row, column * plan.columns + eighth * 8, term)
            for found, value, target in zip(words, values, plan.outputs, strict=True):
                found.append(self._pairs_of(target).pair_of(vectors.splat(value, PAIR)))
        return words

    def _element(self, number: int, tile: TilePosition, eighth: int, row: int) -> tuple[ir.Value, ir.Value]:
        """Row and column of the first of a thread's pairs."""
        first, column = self._corner(number, tile)
        first = numbers.add(numbers.add(first, numbers.divide(self._lane, 4)), row * 8)
        return first, self._column(column, eighth)

    def _column(self, column: ir.Value, eighth: int) -> ir.Value:
        return numbers.add(numbers.add(column, numbers.multiply(numbers.remainder(self._lane, 4), 2)), eighth * 8)

    # -- what does not come in boxes ---------------------------------------------------------------------------------

    def _read_biases(self, tile: TilePosition, first: int) -> list[Known]:
        """What follows columns, or neither them nor rows, for each eight columns of a box."""
        contraction, found = self.plan.product.contraction, []
        keys = [key for key in self._small_reads() if contraction.rows not in key[1]]
        for eighth in range(self.plan.columns // 8):
            column = self._column(numbers.add(tile.column, first), eighth)
            found.append(self._read(keys, self._point(tile, tile.row, column)))
        return found

    def _read_sides(self, number: int, tile: TilePosition) -> list[Known]:
        """What follows rows, for both of a thread in a box."""
        contraction = self.plan.product.contraction
        keys = [key for key in self._small_reads() if contraction.rows in key[1]]
        return [self._read(keys, self._point(tile, *self._element(number, tile, 0, row))) for row in (0, 1)]

    def _read_all_sides(self, tile: TilePosition) -> dict[int, list[Known]]:
        """The same for a whole tile, by 64 rows, where it stays in registers: many boxes have the same rows."""
        return {part: self._read_sides(part, tile) for part in range(self.plan.down)} if self.plan.row_sums else {}

    def _small_reads(self) -> Iterator[tuple[ir.Value, Dims]]:
        return (key for key in self.plan.epilogue.reads if key not in self.plan.reads)

    def _read(self, keys: Sequence[tuple[ir.Value, Dims]], point: Point) -> Known:
        epilogue, columns = self.plan.epilogue, self.plan.product.contraction.columns
        with aligned_accesses():
            return {(tensor, dims): IndexedBuffer(epilogue.buffers[tensor], dims).load(point, columns, PAIR, PAIR)
                    for tensor, dims in keys}  # fmt: skip

    def _point(self, tile: TilePosition, row: ir.Value, column: ir.Value) -> Point:
        """The nearest point of the result that exists."""
        product, schedule = self.plan.product, self.plan.schedule
        contraction, index = product.contraction, ir.IndexType.get()
        if product.rows % schedule.rows:
            row = numbers.smaller(row, product.rows - 1)
        if product.columns % schedule.columns:
            column = numbers.smaller(column, product.columns - PAIR)
        known = {**product.outer_point(tile.outer), contraction.rows: row, contraction.columns: column}
        place = {dim: arith.index_castui(index, value) for dim, value in known.items() if dim is not None}
        for dim in (*contraction.outer_depth, contraction.depth):
            place[dim] = vectors.index(0)
        return place
