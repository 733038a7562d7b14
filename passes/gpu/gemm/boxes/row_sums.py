"""Sums along rows of a result, by a cluster of blocks that have whole rows, and what is made of them before sums go.

Each block of a cluster has a tile of the same rows, so a row is in as many warps, one in each block. A warp does this:

    boxes of f32     as others (writer.py), and the results stay in registers
    a sum of rows    add up own columns -> lanes of a row add up -> send to all blocks -> wait for theirs -> add up
    what is left     evaluate from what is in registers -> boxes of halves

Why it is so:

- A row is neither read again nor written before it is known what becomes of it, and there is no launch for that.
- Sums are exchanged by warps alone: `st.async` counts bytes at the receiver's barrier, so that nobody waits for a
  block, and everyone adds up the same numbers in the same order.
- There are two places for what comes, used in turns. Who sends to one for the next tile has been sent what follows its
  last use, so that has been read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.boxes.exchange import CLUSTERS, FREE, ROWS, SUMS, ClusterBoxes, RowExchange
from blu.passes.gpu.gemm.boxes.plan import BOX_BYTES, PAIR, BoxPlan, ClusterPlan, is_in_boxes
from blu.passes.gpu.gemm.boxes.row_totals import own_of, own_row
from blu.passes.gpu.gemm.boxes.writer import BoxWriter
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.gpu.gemm.slabs import TilePosition
from blu.passes.gpu.isa import barrier, tma, wgmma
from blu.passes.gpu.isa.tma import TileMap
from blu.passes.gpu.kernel import when
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import IndexedBuffer
from blu.passes.kernels.epilogue import Epilogue, Known, is_row_sum


@dataclass(frozen=True)
class RowPlan(ClusterPlan):
    """What becomes of a tile of whole rows: `wide` has boxes of f32, each of `narrow` those of a result in halves."""

    @property
    def wide(self) -> BoxPlan:
        return BoxPlan(self.product, replace(self.epilogue, outputs=self._of_bits(32)), self.schedule, FREE)

    @property
    def narrow(self) -> list[BoxPlan]:
        made = [self.kept, *((tensor, self.row_dims) for tensor in self.epilogue.row_numbers)]
        own = [replace(self.epilogue, outputs=[output], made=made) for output in self._of_bits(16)]
        return [BoxPlan(self.product, epilogue, self.schedule, FREE) for epilogue in own]

    @property
    def kept(self) -> tuple[ir.Value, tuple[int | None, ...]]:
        """The result that stays in registers, and how it is asked for."""
        tensor, target = self._of_bits(32)[0]
        return tensor, target.dims

    def maps(self, arguments: Sequence[ir.Value]) -> list[TileMap]:
        """The tensor maps of what is read, then of the results: the wide one first."""
        return [map_ for plan in (self.wide, *self.narrow) for map_ in plan.maps(arguments)]

    @property
    def map_count(self) -> int:
        """How many tensors are read and written."""
        return sum(plan.map_count for plan in (self.wide, *self.narrow))

    def _of_bits(self, bits: int) -> list[tuple[ir.Value, IndexedBuffer]]:
        whole = [item for item in self.epilogue.outputs if len(item[1].dims) > 1]
        return [item for item in whole if item[1].element.width == bits]


def keeps_f32(epilogue: Epilogue) -> bool:
    """Whether rows that are summed are a result in f32."""
    return any(len(target.dims) > 1 and target.element.width == 32 for _, target in epilogue.outputs)


def misfit(product: Product, epilogue: Epilogue, schedule: WgmmaSchedule) -> str:
    """Why no cluster makes the sums of rows that follow a product; "" where one does."""
    plan = RowPlan(product, epilogue, schedule)
    whole = [target for _, target in epilogue.outputs if len(target.dims) > 1]
    is_cut = product.columns in [schedule.columns * size for size in CLUSTERS] and schedule.split == 1
    if (
        not is_cut
        or (schedule.rows, product.outer) != (ROWS // 2 * wgmma.ROWS, 1)
        or epilogue.sums
        or epilogue.row_sums
    ):
        return "a cluster of two or four blocks has 128 whole rows of one product"
    if sorted({target.element.width for target in whole}) != [16, 32] or len(whole) != 1 + len(plan.narrow):
        return "one result in f32 stays in registers, others are halves"
    if len(list(filter(is_row_sum, epilogue.row_numbers))) != SUMS:
        return f"rows have {SUMS} sums"
    if not all(is_in_boxes(product, item) for item in [*whole, *plan.wide.operands]):
        return "rows of all results begin at multiples of 16 bytes"
    reads = [operand.element.width for operand in plan.wide.operands]
    is_free = set(reads) <= {32} and not any(item.reads for item in plan.narrow)
    return "" if is_free and len(reads) <= 1 else "of operands, one has as many elements as the result, and is in f32"


@dataclass(frozen=True)
class RowBoxes(ClusterBoxes):
    """The boxes of a tile of whole rows: `plan` is the wide one."""

    rows: RowPlan

    def writer(self, group: ir.Value, thread: ir.Value) -> BoxWriter:
        own = ClusterBoxes.writer(self, group, thread)
        return RowWriter(own.plan, own.places, own.barriers, own.maps, own.thread, own.warp, self.rows, self.rank)


def pair_of(low: ir.Value, high: ir.Value) -> ir.Value:
    """Two f32 as a vector."""
    return vector.from_elements(vectors.vector_type(PAIR, numbers.f32()), [low, high])


def both_of(pair: ir.Value) -> list[ir.Value]:
    """The two f32 of a pair."""
    return [vector.extract(pair, [], [side]) for side in range(PAIR)]


Kept = dict[tuple[int, int, int], ir.Value]
"""Pairs of a thread, by 64 rows, by eight columns and by eight rows."""


@dataclass(frozen=True)
class RowWriter(BoxWriter):
    """Writes the tiles of a warp, for one of its threads."""

    rows: RowPlan
    rank: ir.Value

    def write(self, sums: Sequence[ir.Value], tile: TilePosition, turn: ir.Value) -> None:
        kept, known = self._write_wide(sums, tile, turn), [Known() for _ in range(ROWS)]
        exchanged = 0
        for tensor in self.rows.epilogue.row_numbers:
            if is_row_sum(tensor):
                found = self._blocks.totals(self._add_up_rows(tensor, kept, known, tile), exchanged, turn)
                exchanged += 1
            else:
                found = [self._of_row(tensor, own, tile) for own in known]
            for own, value in zip(known, found, strict=True):
                own[tensor, self.rows.row_dims] = value
        self._write_narrow(kept, known, tile)
        self._store_row_numbers(known, tile)

    def _write_wide(self, sums: Sequence[ir.Value], tile: TilePosition, turn: ir.Value) -> Kept:
        """Let the boxes of f32 go; what is in them stays."""
        kept: Kept = {}
        each, wide, down = self.plan.schedule.columns // 2, self.plan.columns, self.plan.down
        for number in range(self.plan.count):
            column, part = divmod(number, down)
            first = part * each + column * wide // 2
            self._wait(number, turn)
            if part == 0:
                biases = self._read_biases(tile, column * wide)
            blocks = self._write_box(number, sums[first : first + wide // 2], tile, (None, biases), ([], []))
            for block, (pairs,) in enumerate(blocks):
                for place, pair in enumerate(pairs):
                    half, row = divmod(place, 2)
                    kept[part, column * wide // 8 + 2 * block + half, row] = pair
        return kept

    def _add_up_rows(self, tensor: ir.Value, kept: Kept, known: Sequence[Known], tile: TilePosition) -> list[ir.Value]:
        """The sums of a thread's columns of each of its rows."""
        zero = numbers.real(0.0)
        totals = [pair_of(zero, zero)] * ROWS
        for (part, eighth, row), pair in kept.items():
            point = self._point(tile, tile.row, self._column(tile.column, eighth))
            own = known[2 * part + row] | {self.rows.kept: pair}
            before = totals[2 * part + row]
            totals[2 * part + row] = self.rows.epilogue.accumulate(tensor, before, pair, point, own)
        return [arith.addf(*both_of(total)) for total in totals]

    def _of_row(self, tensor: ir.Value, known: Known, tile: TilePosition) -> ir.Value:
        point = self._point(tile, tile.row, tile.column)
        return self.rows.epilogue.row_number(tensor, numbers.real(0.0), point, known)

    @property
    def _blocks(self) -> RowExchange:
        """What blocks tell each other."""
        return RowExchange(self.places, self._lane, self.rank, self.rows.cluster)

    def _store_row_numbers(self, known: Sequence[Known], tile: TilePosition) -> None:
        """Write what results have of each row, by the first block."""
        row = own_row(tile, self.warp, self._lane)
        exists = arith.andi(numbers.is_equal(self.rank, 0), numbers.is_below(row, self.plan.product.rows))
        with when(exists):
            index = arith.index_castui(ir.IndexType.get(), row)
            for tensor, target in self.rows.epilogue.outputs:
                if target.dims == self.rows.row_dims:
                    own = own_of([item[tensor, self.rows.row_dims] for item in known], self._lane)
                    memref.store(own, target.buffer, [index])

    # -- boxes of halves ---------------------------------------------------------------------------------------------

    def _write_narrow(self, kept: Kept, known: Sequence[Known], tile: TilePosition) -> None:
        """Evaluate what is stored in halves, and let it go, one box after the other."""
        first, used = len(self.plan.reads) + 1, self.plan.count
        plans = self.rows.narrow
        writers = [
            BoxWriter(plan, self.places, self.barriers, [self.maps[first + number]], self.thread, self.warp)
            for number, plan in enumerate(plans)
        ]
        for number in range(plans[0].count):
            for writer in writers:
                self._write_halves(writer, number, used % FREE * BOX_BYTES, (kept, known), tile)
                used += 1

    def _write_halves(
        self, writer: BoxWriter, number: int, place: int, made: tuple[Kept, Sequence[Known]], tile: TilePosition
    ) -> None:
        """Write one box."""
        with when(self._is_first):
            tma.wait_group_read(FREE - 1)
        barrier.warp_sync()
        (output,) = writer.plan.outputs
        for block in range(writer.plan.columns // 16):
            pairs: list[ir.Value] = []
            for half in range(2):
                pairs += self._pairs(writer, number, 2 * block + half, made, tile)
            writer._pairs_of(output).put(place, block, pairs)
        tma.show_writes()
        barrier.warp_sync()
        with when(self._is_first):
            source = numbers.add(self.places, place)
            tma.store_tensor(writer.maps[0], writer._coordinates(number, tile, output), source)
            tma.commit_group()

    def _pairs(
        self, writer: BoxWriter, number: int, eighth: int, made: tuple[Kept, Sequence[Known]], tile: TilePosition
    ) -> list[ir.Value]:
        """Those of eight columns of a box of halves."""
        (kept, known), plan = made, writer.plan
        column, part = divmod(number, plan.down)
        wide, pairs = column * plan.columns // 8 + eighth, []
        keys = list(writer._small_reads())
        biases = writer._read(keys, self._point(tile, tile.row, self._column(tile.column, wide)))
        for row in range(2):
            pair = kept[part, wide, row]
            own = known[2 * part + row] | biases | {self.rows.kept: pair}
            point = self._point(tile, *writer._element(number, tile, eighth, row))
            (value,) = plan.epilogue.evaluate(pair, point, PAIR, PAIR, own)
            pairs.append(writer._pairs_of(plan.outputs[0]).pair_of(value))
        return pairs
