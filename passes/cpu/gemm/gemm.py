"""Matrix multiplication with an elementwise epilogue, on the CPU.

A block of the grid is a group of panels of columns for one chunk of rows. Inside, k runs in blocks; panels of the right
operand are packed if that pays, and tiles of rows keep their sums in registers while k runs. The sums of each element
are one chain of multiply-adds in the order of k, so the bits do not depend on tiles, threads or the vector width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, scf, vector
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.gemm import gemv, gemv_rows
from blu.passes.cpu.gemm.ahead import Turn, choose_ahead
from blu.passes.cpu.gemm.merged import LeftPart, LeftRows, flattened, merged, run_of_rows
from blu.passes.cpu.gemm.pack import Depth, RightPanels
from blu.passes.cpu.gemm.schedule import PanelTilesSchedule, ReadColumnsSchedule, ReadRowsSchedule, is_long, schedule_of
from blu.passes.cpu.gemm.tile import RegisterTile, add, load_tile, scratch, store_tile
from blu.passes.cpu.kernel import KernelBody, for_range, open_kernel, scratch_scope
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.contraction import Contraction, Digit, Dim, Point, position, read_contraction
from blu.passes.kernels.epilogue import Epilogue, read_epilogue

INLINE_EPILOGUE = 4
"""Epilogues of up to so many scalar operations run on the sums in registers; longer ones as a loop over the tile."""


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Replace `kernel`, whose body is one linalg.contract with an elementwise epilogue, as its schedule says."""
    schedule = schedule_of(kernel)
    body, epilogue = read(kernel)
    lanes = target.lanes(epilogue.contraction.accumulator.width // 8)
    with epilogue.contraction.operation.location:
        if epilogue.contraction.is_empty:
            with body.grid(0):
                pass
        elif isinstance(schedule, ReadRowsSchedule):
            gemv_rows.emit(body, epilogue, schedule, lanes)
        elif isinstance(schedule, ReadColumnsSchedule):
            gemv.emit(body, epilogue, schedule, lanes)
        else:
            assert isinstance(schedule, PanelTilesSchedule), "there is no other kind"
            emit_with(body, epilogue, schedule)


def read(kernel: func.FuncOp) -> tuple[KernelBody, Epilogue]:
    """Open a kernel and find out what it multiplies and what follows."""
    body = open_kernel(kernel)
    with scratch_scope(body.replacement), product_of(kernel).location:
        contraction = flattened(_read_contraction(product_of(kernel), body))
    return body, read_epilogue(contraction, body.buffers, body.outputs)


def product_of(kernel: func.FuncOp) -> ir.Operation:
    """The linalg.contract of a kernel."""
    return next(op.operation for op in kernel.entry_block.operations if op.operation.name == "linalg.contract")


def contraction_of(kernel: func.FuncOp) -> Contraction:
    """What a kernel over buffers contracts, while no code is written for it."""
    return _read_contraction(product_of(kernel), Kernel.read(kernel))


def _read_contraction(product: ir.Operation, kernel: Kernel) -> Contraction:
    """With columns that lie side by side in memory, where results that walk the product's elements have any."""
    shape = ir.ShapedType(product.results[0].type).shape
    results = [buffer for tensor, buffer in kernel.outputs if ir.ShapedType(tensor.type).shape == shape]
    return merged(read_contraction(product, kernel.buffers, results))


def emit_with(body: KernelBody, epilogue: Epilogue, schedule: PanelTilesSchedule) -> None:
    """The kernel of tiles."""
    gemm = _Gemm(epilogue.contraction, epilogue, schedule, body.replacement)
    with body.grid(gemm.blocks, schedule.claim) as block:
        gemm.emit_block(block)


@dataclass(frozen=True)
class _Rows:
    """The chunk of rows of a block: its first row, and which chunk it is."""

    first: ir.Value
    chunk: ir.Value


@dataclass(frozen=True)
class _Set:
    """Panels that are packed together: which ones, and for which rows.

    `group_slot` is the first panel's place in its group.
    """

    point: Point
    rows: _Rows
    panels: tuple[ir.Value, ir.Value]
    group_slot: ir.Value


@dataclass(frozen=True)
class _TileAt:
    """Where a tile is: the point of its panel, that panel's slot in the packed set and in the group, and its row.

    `packs`: the tile is the first to use its panel, and packs it for the others.
    """

    point: Point
    slot: ir.Value
    rows: _Rows
    row: ir.Value
    group_slot: ir.Value
    packs: bool = False


@dataclass
class _Gemm:
    """One kernel while it is emitted."""

    contraction: Contraction
    epilogue: Epilogue
    schedule: PanelTilesSchedule
    function: func.FuncOp

    def __post_init__(self) -> None:
        contraction, schedule = self.contraction, self.schedule
        self.rows, self.columns = contraction.size(contraction.rows), contraction.size(contraction.columns)
        outer_steps = prod(contraction.size(dim) for dim in contraction.outer_depth)
        self.depth = contraction.size(contraction.depth) if outer_steps else 0
        self.chunks = -(-self.rows // schedule.chunk_rows)
        self.panels = -(-self.columns // schedule.columns)
        self.groups = -(-self.panels // schedule.group_panels)
        self.one_pass = outer_steps <= 1 and self.depth <= schedule.depth_block
        self.blocks = prod(contraction.size(dim) for dim in contraction.outer) * self.chunks * self.groups
        with scratch_scope(self.function):
            self.right = self.make_panels()
            self.totals = self.make_totals()
        self.ahead = choose_ahead(self.right, self.rows)
        self.left = LeftRows(contraction, even=run_of_rows(contraction) % schedule.rows == 0)

    def make_panels(self) -> RightPanels:
        """The right operand, with the buffer that its panels are packed in."""
        schedule = self.schedule
        rows = min(schedule.depth_block, max(self.depth, 1))
        shape = (schedule.packed_panels * rows, schedule.columns)
        buffer = scratch(shape, self.contraction.accumulator) if schedule.packed_panels else None
        return RightPanels(self.contraction, schedule, buffer, rows)

    def make_totals(self) -> ir.Value | None:
        """Where sums wait between blocks of k, or for a long epilogue; None if they stay in registers."""
        schedule = self.schedule
        if not self.one_pass:
            return scratch(
                (schedule.group_panels * schedule.chunk_rows, schedule.columns), self.contraction.accumulator
            )
        if self.epilogue.operation_count <= INLINE_EPILOGUE:
            return None
        return scratch((schedule.rows, schedule.columns), self.contraction.accumulator)

    def emit_block(self, block: ir.Value) -> None:
        """Find out which part of the result the block is, and emit it."""
        point, rows, group = self.locate(block)
        begin = arith.muli(group, vectors.index(self.schedule.group_panels))
        end = arith.minsi(vectors.offset(begin, self.schedule.group_panels), vectors.index(self.panels))
        if self.one_pass:
            depth = (vectors.index(0), vectors.index(self.depth))
            inner = {**point, **{dim: vectors.index(0) for dim in self.contraction.outer_depth}}
            self.emit_sets(inner, rows, (begin, end), depth)
            return

        self.each_depth(point, 0, lambda inner, depth: self.emit_sets(inner, rows, (begin, end), depth))

    def locate(self, block: ir.Value) -> tuple[Point, _Rows, ir.Value]:
        """The outer indices, chunk of rows and group of panels of a block: groups change fastest."""
        block, group = vectors.split(block, self.groups)
        block, chunk = vectors.split(block, self.chunks)
        point: dict[Dim, ir.Value] = {}
        for dim in reversed(self.contraction.outer):
            block, point[dim] = vectors.split(block, self.contraction.size(dim))
        return point, _Rows(arith.muli(chunk, vectors.index(self.schedule.chunk_rows)), chunk), group

    def each_depth(self, point: Point, level: int, emit_part: Callable) -> None:
        """Loops over the outer reduction dims and blocks of k; `emit_part(point, (begin, end))` in the innermost."""
        if level < len(self.contraction.outer_depth):
            dim = self.contraction.outer_depth[level]
            with for_range(0, self.contraction.size(dim)) as loop:
                self.each_depth({**point, dim: loop.induction_variable}, level + 1, emit_part)
            return
        with for_range(0, self.depth, self.schedule.depth_block) as loop:
            begin = loop.induction_variable
            end = arith.minsi(vectors.offset(begin, self.schedule.depth_block), vectors.index(self.depth))
            emit_part(point, (begin, end))

    def emit_sets(self, point: Point, rows: _Rows, panels: tuple[ir.Value, ir.Value], depth: Depth) -> None:
        """One block of k of all panels of the group, in sets that are packed together."""
        begin, end = panels
        size = max(1, self.schedule.packed_panels)
        with for_range(begin, end, size) as loop:
            first = loop.induction_variable
            last = arith.minsi(vectors.offset(first, size), end)
            self.emit_set(_Set(point, rows, (first, last), arith.subi(first, begin)), depth)

    def emit_set(self, set_: _Set, depth: Depth) -> None:
        """Run all tiles of rows over the panels of a set, which are packed before or by the first tile."""

        def pack_panel(place: Point, slot: ir.Value, counts: tuple[int, ...]) -> None:
            self.right.pack(place, slot, depth, counts)

        def emit_rows(row: ir.Value, tile_rows: int, packs: bool = False) -> None:
            def emit_tile(place: Point, slot: ir.Value, counts: tuple[int, ...]) -> None:
                tile = RegisterTile(tile_rows, counts, self.schedule.lanes, self.contraction.accumulator)
                group_slot = arith.addi(set_.group_slot, slot)
                self.emit_tile(_TileAt(place, slot, set_.rows, row, group_slot, packs), tile, depth)

            self.each_panel(set_.point, *set_.panels, emit_tile)

        first_packs = self.ahead is not None and self.ahead.first_packs
        if first_packs:
            emit_rows(set_.rows.first, self.schedule.rows, packs=True)
        elif self.right.buffer is not None:
            self.each_panel(set_.point, *set_.panels, pack_panel)
        self.each_row(set_.rows, emit_rows, 1 if first_packs else 0)

    def each_panel(self, point: Point, begin: ir.Value, end: ir.Value, emit_panel: Callable) -> None:
        """`emit_panel(point, slot, counts)` for each panel, counted from `begin`; `counts` are its vectors' lanes."""
        with for_range(begin, end) as loop:
            panel = loop.induction_variable
            slot = arith.subi(panel, begin)
            place = {**point, self.contraction.columns: arith.muli(panel, vectors.index(self.schedule.columns))}
            widths = self.panel_widths()
            if len(widths) == 1:
                emit_panel(place, slot, widths[0])
                return
            last = arith.cmpi(arith.CmpIPredicate.eq, panel, vectors.index(self.panels - 1))
            branch = scf.IfOp(last, has_else=True)
            for region, width in ((branch.else_block, widths[0]), (branch.then_block, widths[1])):
                with ir.InsertionPoint(region):
                    emit_panel(place, slot, width)
                    scf.yield_([])

    def panel_widths(self) -> list[tuple[int, ...]]:
        """The lanes of each vector of a full panel, and of the last panel where that one is narrower."""
        lanes, schedule = self.schedule.lanes, self.schedule
        rest = self.columns % schedule.columns
        widths = [(lanes,) * schedule.vectors] if self.columns >= schedule.columns else []
        if rest:
            widths.append((lanes,) * (rest // lanes) + ((rest % lanes,) if rest % lanes else ()))
        return widths or [(lanes,)]

    def each_row(self, rows: _Rows, emit_rows: Callable[[ir.Value, int], None], skip: int = 0) -> None:
        """`emit_rows(row, count)` for the full tiles of a chunk, in a loop, and for the rows left at the very end.

        The first `skip` tiles are left out.
        """
        schedule = self.schedule
        whole = self.rows // schedule.rows * schedule.rows
        if whole:
            end = arith.minsi(vectors.offset(rows.first, schedule.chunk_rows), vectors.index(whole))
            with for_range(vectors.offset(rows.first, skip * schedule.rows), end, schedule.rows) as loop:
                emit_rows(loop.induction_variable, schedule.rows)
        if whole == self.rows:
            return
        if self.chunks == 1:
            emit_rows(vectors.index(whole), self.rows - whole)
            return
        branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.eq, rows.chunk, vectors.index(self.chunks - 1)))
        with ir.InsertionPoint(branch.then_block):
            emit_rows(vectors.index(whole), self.rows - whole)
            scf.yield_([])

    def waiting(self, slot: ir.Value, row: ir.Value, rows: _Rows) -> ir.Value:
        """The row of the totals where the sums of a tile wait between blocks of k; `slot` is the panel in its group."""
        start = arith.muli(slot, vectors.index(self.schedule.chunk_rows))
        return arith.addi(start, arith.subi(row, rows.first))

    def emit_tile(self, at: _TileAt, tile: RegisterTile, depth: Depth) -> None:
        """One tile for one block of k: from zero to its outputs if that is all of k."""
        if self.one_pass:
            self.output(at, tile, self.run(at, tile, depth, tile.zeros()), vectors.index(0))
            return
        local = self.waiting(at.group_slot, at.row, at.rows)
        sums = self.resume(at, tile, depth, local)
        branch = scf.IfOp(self.is_at(at.point, depth[1], last=True), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            self.output(at, tile, sums, local)
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            store_tile(sums, self.totals, local, tile)
            scf.yield_([])

    def is_at(self, point: Point, depth: ir.Value, last: bool) -> ir.Value:
        """Whether a block of k that begins (or ends, for `last`) at `depth` is the first (the last) one of all."""
        places = [(depth, self.depth if last else 0)]
        for dim in self.contraction.outer_depth:
            places.append((point[dim], self.contraction.size(dim) - 1 if last else 0))
        found = [arith.cmpi(arith.CmpIPredicate.eq, place, vectors.index(limit)) for place, limit in places]
        return reduce(arith.andi, found)

    def resume(self, at: _TileAt, tile: RegisterTile, depth: Depth, local: ir.Value) -> list[ir.Value]:
        """The sums after one more block of k: the chain goes on, or a chain of its own is added."""
        first = self.is_at(at.point, depth[0], last=False)
        if not is_long(self.contraction):
            before = self.unless(first, tile, tile.zeros(), lambda: load_tile(self.totals, local, tile))
            return self.run(at, tile, depth, before)
        chain = self.run(at, tile, depth, tile.zeros())
        return self.unless(
            first,
            tile,
            chain,
            lambda: [add(*pair) for pair in zip(load_tile(self.totals, local, tile), chain, strict=True)],
        )

    def unless(
        self, condition: ir.Value, tile: RegisterTile, sums: list[ir.Value], otherwise: Callable[[], list[ir.Value]]
    ) -> list[ir.Value]:
        """The sums where the condition holds, else those that `otherwise` emits."""
        branch = scf.IfOp(condition, [tile.vector] * len(sums), has_else=True)
        for block, emit in ((branch.then_block, lambda: sums), (branch.else_block, otherwise)):
            with ir.InsertionPoint(block):
                scf.yield_(emit())
        return list(branch.results)

    def output(self, at: _TileAt, tile: RegisterTile, sums: list[ir.Value], local: ir.Value) -> None:
        """Hand the finished sums of a tile to the epilogue; a long one takes them from scratch memory, at `local`."""
        if self.epilogue.operation_count > INLINE_EPILOGUE:
            store_tile(sums, self.totals, local, tile)
            self.finish(at.point, at.row, local, tile)
            return
        for i in range(tile.rows):
            place = self.place_of(at.point, vectors.offset(at.row, i))
            for j in range(len(tile.counts)):
                self.store(place, j, sums[i * len(tile.counts) + j], tile)

    def run(self, at: _TileAt, tile: RegisterTile, depth: Depth, sums: list[ir.Value]) -> list[ir.Value]:
        """The k loop of a tile: over all k, or over each of the runs that the left operand has them in."""
        left, (begin, end) = self.left, depth
        points, run = left.points(at.point, at.row, tile.rows), left.run
        if not run:
            return self.run_part(at, tile, depth, sums, LeftPart(left, points, depth))
        first, last = arith.divui(begin, vectors.index(run)), arith.ceildivui(end, vectors.index(run))
        with for_range(first, last, carried=sums) as loop:
            start = arith.muli(loop.induction_variable, vectors.index(run))
            part = (arith.maxui(start, begin), arith.minui(vectors.offset(start, run), end))
            inner = list(loop.inner_iter_args)
            scf.yield_(self.run_part(at, tile, depth, inner, LeftPart(left, points, part, start)))
        return list(loop.results)

    def run_part(
        self, at: _TileAt, tile: RegisterTile, depth: Depth, sums: list[ir.Value], left: LeftPart
    ) -> list[ir.Value]:
        """The loop over a part of a block of k, which is at `depth`."""

        def right(j: int, k: ir.Value) -> ir.Value:
            if at.packs:
                return self.right.load_packing(at.point, at.slot, depth, k, j, tile.counts[j])
            return self.right.load(at.point, at.slot, depth, k, j, tile.counts[j])

        if not self.ahead or tile.rows < self.schedule.rows:
            return tile.accumulate(sums, left.depth, left.load, right)
        turn, ahead = self.turn(at, depth), self.ahead
        return tile.accumulate_ahead(sums, left.depth, left.load, right, ahead.steps, lambda k: ahead.emit(turn, k))

    def turn(self, at: _TileAt, depth: Depth) -> Turn:
        """What the tile needs to know in order to fetch its share of the next panel."""
        number = arith.divui(arith.subi(at.row, at.rows.first), vectors.index(self.schedule.rows))
        return Turn(at.point, number, depth)

    def finish(self, point: Point, row: ir.Value, local: ir.Value, tile: RegisterTile) -> None:
        """Run the epilogue over a tile of finished sums in the scratch buffer, row by row."""
        with for_range(0, tile.rows) as loop:
            i = loop.induction_variable
            place = self.place_of(point, arith.addi(row, i))
            for j in range(len(tile.counts)):
                waiting = [arith.addi(local, i), vectors.index(j * tile.lanes)]
                self.store(place, j, vector.load(tile.vector, self.totals, waiting), tile)

    def place_of(self, point: Point, row: ir.Value) -> Point:
        """Where a row of the result is."""
        contraction = self.contraction
        place = {**point, contraction.rows: row, **{dim: vectors.index(0) for dim in contraction.outer_depth}}
        digits = [dim for dim in contraction.result_dims if isinstance(dim, Digit)]
        return place | {digit: position(digit, place) for digit in digits}

    def store(self, row: Point, j: int, total: ir.Value, tile: RegisterTile) -> None:
        """Hand one vector of finished sums of a row to the epilogue."""
        columns = self.contraction.columns
        at = {columns: vectors.offset(row[columns], j * tile.lanes)} if columns is not None else {}
        self.epilogue.store(total, {**row, **at}, tile.lanes, tile.counts[j])
