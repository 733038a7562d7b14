"""Matrix multiplication with an elementwise epilogue, on the CPU.

A block of the grid is one panel of columns for one chunk of rows. Inside, k runs in blocks; the panel of the right
operand is packed if that pays, and tiles of rows keep their sums in registers while k runs. The sums of each element
are one chain of multiply-adds in the order of k, so the bits do not depend on tiles, threads or the vector width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from blu.dialects.mlir import arith, func, ir, scf, vector
from blu.dialects.target import CpuTarget
from blu.passes.cpu import lanes as vectors
from blu.passes.cpu.contraction import Contraction, Point, read_contraction
from blu.passes.cpu.epilogue import Epilogue, read_epilogue
from blu.passes.cpu.gemm_schedule import Schedule, choose_schedule
from blu.passes.cpu.gemm_tile import Tile, load_tile, scratch, store_tile, transpose, widen
from blu.passes.cpu.kernel import KernelBody, for_range, open_kernel, scratch_scope

INLINE_EPILOGUE = 4
"""Epilogues of up to so many scalar operations run on the sums in registers; longer ones as a loop over the tile."""


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Replace `kernel`, whose body is one linalg.contract with an elementwise epilogue, by machine-near loops."""
    body = open_kernel(kernel)
    operation = next(op for op in body.operations if op.name == "linalg.contract")
    with operation.location:
        contraction = read_contraction(operation, body.buffers)
        epilogue = read_epilogue(contraction, body.buffers, body.outputs)
        emit_with(body, epilogue, choose_schedule(contraction, target))


def emit_with(body: KernelBody, epilogue: Epilogue, schedule: Schedule) -> None:
    """The same with a given schedule."""
    contraction = epilogue.contraction
    gemm = _Gemm(contraction, epilogue, schedule, body.replacement)
    with body.grid(gemm.blocks, schedule.claim) as block:
        gemm.emit_block(block)


@dataclass
class _Gemm:
    """One kernel while it is emitted. Points hold the outer dims, `rows` and `columns` hold begins of tiles."""

    contraction: Contraction
    epilogue: Epilogue
    schedule: Schedule
    function: func.FuncOp

    def __post_init__(self) -> None:
        contraction, schedule = self.contraction, self.schedule
        self.rows, self.columns = contraction.size(contraction.rows), contraction.size(contraction.columns)
        self.depth = contraction.size(contraction.depth)
        self.chunks = -(-self.rows // schedule.chunk_rows)
        self.panels = -(-self.columns // schedule.columns)
        outer_steps = prod(contraction.size(dim) for dim in contraction.outer_depth)
        self.one_pass = outer_steps == 1 and self.depth <= schedule.depth_block
        self.blocks = prod(contraction.size(dim) for dim in contraction.outer) * self.chunks * self.panels
        tile_rows = schedule.rows if self.one_pass else schedule.chunk_rows
        inline = self.one_pass and self.epilogue.operation_count <= INLINE_EPILOGUE
        with scratch_scope(self.function):
            accumulator = contraction.accumulator
            packed = (min(schedule.depth_block, max(self.depth, 1)), schedule.columns)
            self.panel = scratch(packed, accumulator) if schedule.pack else None
            self.totals = None if inline else scratch((tile_rows, schedule.columns), accumulator)

    def emit_block(self, block: ir.Value) -> None:
        """Find out which part of the result the block is, and emit it for each width of panel."""
        point, chunk, panel = self.locate(block)
        first = arith.muli(chunk, vectors.index(self.schedule.chunk_rows))
        point = point | {self.contraction.columns: arith.muli(panel, vectors.index(self.schedule.columns))}
        widths = self.panel_widths()
        if len(widths) == 1:
            self.emit_panel(point, first, chunk, widths[0])
            return
        last = arith.cmpi(arith.CmpIPredicate.eq, panel, vectors.index(self.panels - 1))
        branch = scf.IfOp(last, has_else=True)
        for region, width in ((branch.else_block, widths[0]), (branch.then_block, widths[1])):
            with ir.InsertionPoint(region):
                self.emit_panel(point, first, chunk, width)
                scf.yield_([])

    def locate(self, block: ir.Value) -> tuple[dict[int | None, ir.Value], ir.Value, ir.Value]:
        """The outer indices, chunk of rows and panel of columns of a block: panels change fastest."""
        block, panel = _split(block, self.panels)
        block, chunk = _split(block, self.chunks)
        point: dict[int | None, ir.Value] = {}
        for dim in reversed(self.contraction.outer):
            block, point[dim] = _split(block, self.contraction.size(dim))
        return point, chunk, panel

    def panel_widths(self) -> list[tuple[int, ...]]:
        """The lanes of each vector of a full panel, and of the last panel where that one is narrower."""
        lanes, schedule = self.schedule.lanes, self.schedule
        rest = self.columns % schedule.columns
        widths = [(lanes,) * schedule.vectors] if self.columns >= schedule.columns else []
        if rest:
            widths.append((lanes,) * (rest // lanes) + ((rest % lanes,) if rest % lanes else ()))
        return widths or [(lanes,)]

    def emit_panel(self, point: Point, first: ir.Value, chunk: ir.Value, counts: tuple[int, ...]) -> None:
        """One panel of columns (`counts` gives the lanes of its vectors) for the rows from `first` on."""
        if self.one_pass:
            depth = (vectors.index(0), vectors.index(self.depth))
            point = point | {dim: vectors.index(0) for dim in self.contraction.outer_depth}
            self.pack(point, depth, counts)
            self.each_tile(first, chunk, counts, lambda row, tile: self.emit_tile(point, row, tile, depth))
            return
        self.each_tile(first, chunk, counts, lambda row, tile: self.clear_tile(arith.subi(row, first), tile))
        self.each_depth(point, 0, lambda inner, depth: self.emit_depth(inner, first, chunk, counts, depth))
        self.each_tile(first, chunk, counts, lambda row, tile: self.finish(point, row, arith.subi(row, first), tile))

    def each_depth(self, point: Point, level: int, emit_part: Callable) -> None:
        """Loops over the outer reduction dims and blocks of k; `emit_part(point, (begin, end))` in the innermost."""
        if level < len(self.contraction.outer_depth):
            dim = self.contraction.outer_depth[level]
            with for_range(0, self.contraction.size(dim)) as loop:
                self.each_depth(point | {dim: loop.induction_variable}, level + 1, emit_part)
            return
        with for_range(0, self.depth, self.schedule.depth_block) as loop:
            begin = loop.induction_variable
            end = arith.minsi(vectors.offset(begin, self.schedule.depth_block), vectors.index(self.depth))
            emit_part(point, (begin, end))

    def emit_depth(self, point: Point, first: ir.Value, chunk: ir.Value, counts: tuple[int, ...], depth: tuple) -> None:
        """Add one block of k to the sums of all rows of the chunk."""
        self.pack(point, depth, counts)

        def add(row: ir.Value, tile: Tile) -> None:
            local = arith.subi(row, first)
            sums = self.run(point, row, tile, depth, load_tile(self.totals, local, tile))
            store_tile(sums, self.totals, local, tile)

        self.each_tile(first, chunk, counts, add)

    def each_tile(self, first: ir.Value, chunk: ir.Value, counts: tuple[int, ...], emit_rows: Callable) -> None:
        """`emit_rows(row, tile)` for the full tiles of a chunk, in a loop, and for the rows left at the very end."""
        schedule, accumulator = self.schedule, self.contraction.accumulator
        whole = self.rows // schedule.rows * schedule.rows
        if whole:
            end = arith.minsi(arith.addi(first, vectors.index(schedule.chunk_rows)), vectors.index(whole))
            with for_range(first, end, schedule.rows) as loop:
                emit_rows(loop.induction_variable, Tile(schedule.rows, counts, schedule.lanes, accumulator))
        if whole == self.rows:
            return
        tail = Tile(self.rows - whole, counts, schedule.lanes, accumulator)
        if self.chunks == 1:
            emit_rows(vectors.index(whole), tail)
            return
        branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.eq, chunk, vectors.index(self.chunks - 1)))
        with ir.InsertionPoint(branch.then_block):
            emit_rows(vectors.index(whole), tail)
            scf.yield_([])

    def emit_tile(self, point: Point, row: ir.Value, tile: Tile, depth: tuple) -> None:
        """One tile from zero to its outputs."""
        sums = self.run(point, row, tile, depth, tile.zeros())
        if self.totals is None:
            for place, total in enumerate(sums):
                i, j = divmod(place, len(tile.counts))
                self.store(point, vectors.offset(row, i), j, total, tile)
            return
        zero = vectors.index(0)
        store_tile(sums, self.totals, zero, tile)
        self.finish(point, row, zero, tile)

    def run(self, point: Point, row: ir.Value, tile: Tile, depth: tuple, sums: list[ir.Value]) -> list[ir.Value]:
        """The k loop of a tile."""
        contraction = self.contraction

        def left(i: int, k: ir.Value) -> ir.Value:
            place = point | {contraction.rows: vectors.offset(row, i), contraction.depth: k}
            return contraction.left.load(place, None, 1, 1)

        def right(j: int, k: ir.Value) -> ir.Value:
            if self.panel is not None:
                return vector.load(tile.vector, self.panel, [arith.subi(k, depth[0]), vectors.index(j * tile.lanes)])
            return self.load_right(point, k, j, tile.counts[j])

        return tile.accumulate(sums, depth, left, right)

    def load_right(self, point: Point, k: ir.Value, j: int, count: int) -> ir.Value:
        """The j-th vector of the panel at depth k, from the right operand itself."""
        contraction, lanes = self.contraction, self.schedule.lanes
        place = point | {contraction.depth: k}
        if contraction.columns is not None:
            place[contraction.columns] = vectors.offset(point[contraction.columns], j * lanes)
        return vectors.splat(contraction.right.load(place, contraction.columns, lanes, count), lanes)

    def pack(self, point: Point, depth: tuple[ir.Value, ir.Value], counts: tuple[int, ...]) -> None:
        """Copy the panel for k in `depth` into the packed buffer, in the type of the sums."""
        if self.panel is None:
            return
        begin, end = depth
        if self.contraction.right.stride(self.contraction.depth) == 1 and self.contraction.columns is not None:
            squares = arith.divui(arith.subi(end, begin), vectors.index(self.schedule.lanes))
            middle = arith.addi(begin, arith.muli(squares, vectors.index(self.schedule.lanes)))
            with for_range(begin, middle, self.schedule.lanes) as loop:
                self.pack_squares(point, loop.induction_variable, begin, counts)
            begin_rest = middle
        else:
            begin_rest = begin
        with for_range(begin_rest, end) as loop:
            k = loop.induction_variable
            for j, count in enumerate(counts):
                value = widen(self.load_right(point, k, j, count), self.contraction.accumulator)
                self.store_panel(value, arith.subi(k, begin), j)

    def pack_squares(self, point: Point, k: ir.Value, begin: ir.Value, counts: tuple[int, ...]) -> None:
        """A few k of a right operand that is contiguous along k: load along k, transpose in registers."""
        contraction, lanes = self.contraction, self.schedule.lanes
        local = arith.subi(k, begin)
        for j, count in enumerate(counts):
            column = vectors.offset(point[contraction.columns], j * lanes)
            rows = []
            for lane in range(count):
                place = point | {contraction.columns: vectors.offset(column, lane), contraction.depth: k}
                value = contraction.right.load(place, contraction.depth, lanes, lanes)
                rows.append(widen(value, contraction.accumulator))
            rows += [vectors.constant(rows[0].type, 0)] * (lanes - count)
            for lane, value in enumerate(transpose(rows)):
                self.store_panel(value, vectors.offset(local, lane), j)

    def store_panel(self, value: ir.Value, k: ir.Value, j: int) -> None:
        vector.store(value, self.panel, [k, vectors.index(j * self.schedule.lanes)])

    def clear_tile(self, local: ir.Value, tile: Tile) -> None:
        store_tile(tile.zeros(), self.totals, local, tile)

    def finish(self, point: Point, row: ir.Value, local: ir.Value, tile: Tile) -> None:
        """Run the epilogue over a tile of finished sums in the scratch buffer, row by row."""
        with for_range(0, tile.rows) as loop:
            i = loop.induction_variable
            for j in range(len(tile.counts)):
                place = [arith.addi(local, i), vectors.index(j * tile.lanes)]
                total = vector.load(tile.vector, self.totals, place)
                self.store(point, arith.addi(row, i), j, total, tile)

    def store(self, point: Point, row: ir.Value, j: int, total: ir.Value, tile: Tile) -> None:
        """Hand one vector of finished sums to the epilogue."""
        contraction = self.contraction
        place = point | {contraction.rows: row}
        if contraction.columns is not None:
            place[contraction.columns] = vectors.offset(point[contraction.columns], j * tile.lanes)
        self.epilogue.store(total, place, tile.lanes, tile.counts[j])


def _split(value: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder by a size that is known."""
    if size <= 1:
        return value, vectors.index(0)
    return arith.divui(value, vectors.index(size)), arith.remui(value, vectors.index(size))
