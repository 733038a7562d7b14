"""From a tile of finished sums to the outputs: through shared memory, so that threads read and write whole rows.

The sums of a tile are stored as f32 rows; then each thread takes a few neighbours of a row at a time, runs the fused
operations on them, and writes them. The code of those operations is there once, in a loop, however many sums a thread
has, and it sees memory 16 bytes at a time. How the sums were made does not matter here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.problem import COPY_BYTES, Product
from blu.passes.gpu.isa import shared_memory
from blu.passes.gpu.kernel import when
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import IndexedBuffer, Point
from blu.passes.kernels.epilogue import Epilogue, Known

Sink = Callable[..., None]
Reader = Callable[[list[Point], int], list[Known]]

PADDING = 8
"""Floats between rows of staged sums: fragments are then stored without two lanes in one bank."""
_TOGETHER = 4
"""Pieces of a row that a thread works on at a time, so that it waits for memory once."""
READ_AHEAD = 16
"""Registers for what a thread reads of a tile before its sums are there."""
_LONG = 40
"""Epilogues of more scalar operations than this work on fewer pieces at a time."""


@dataclass(frozen=True)
class Staged:
    """Sums of a tile of rows x columns in shared memory at an address, with `padding` floats between rows."""

    address: ir.Value
    rows: int
    columns: int
    padding: int = PADDING

    @property
    def pitch(self) -> int:
        return (self.columns + self.padding) * 4

    def at(self, row: numbers.Number, column: numbers.Number) -> ir.Value:
        """The address of a sum."""
        place = numbers.add(
            numbers.multiply(numbers.number(row), self.pitch), numbers.multiply(numbers.number(column), 4)
        )
        return numbers.add(self.address, place)

    def load(self, row: ir.Value, column: ir.Value, lanes: int) -> ir.Value:
        """A vector of neighbours."""
        pointer = llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), self.at(row, column))
        return llvm.load(vectors.vector_type(lanes, numbers.f32()), pointer, alignment=min(COPY_BYTES, lanes * 4))


def staged_bytes(rows: int, columns: int) -> int:
    """Shared memory for the sums of a tile."""
    return rows * (columns + PADDING) * 4


def stage_fragments(staged: Staged, row: ir.Value, column: ir.Value, lane: ir.Value, sums: Sequence, wide: int) -> None:
    """Store a warp's fragments, `wide` of them in a row of 8 columns each, from (row, column) of the tile on."""
    row = numbers.add(row, numbers.divide(lane, 4))
    column = numbers.add(column, numbers.multiply(numbers.remainder(lane, 4), 2))
    start = staged.at(row, column)
    for number, values in enumerate(sums):
        i, j = divmod(number, wide)
        for half in range(2):
            offset = (16 * i + 8 * half) * staged.pitch + 8 * j * 4
            shared_memory.st(start, offset, values[2 * half : 2 * half + 2])


@dataclass(frozen=True)
class Output:
    """Writes the outputs of a tile whose sums are staged.

    `sink(totals, points, lanes[, known])` writes several vectors of sums, all of them evaluated before the first is
    written; `reader(points, lanes)` reads what the sink would at some points (`known`), before there are sums.
    """

    product: Product
    sink: Sink
    lanes: int
    together: int
    thread: ir.Value
    threads: int
    reader: Reader | None = None

    def read_ahead(self, staged: Staged, point: Point, row: ir.Value, column: ir.Value) -> list[Known] | None:
        """What is read beside the sums of a tile that is whole; None where that waits until sums are there."""
        if self.reader is None or not self._is_whole(staged):
            return None
        wide = staged.columns // self.lanes
        first, inner = self._first(wide)
        owns = [numbers.add(first, number) for number in range(0, staged.rows, self.threads // wide)]
        points = [self._point(point, numbers.add(row, own), numbers.add(column, inner)) for own in owns]
        return self.reader(points, self.lanes)

    def _is_whole(self, staged: Staged) -> bool:
        """Whether all tiles are."""
        return self.product.rows % staged.rows == 0 and self.product.columns % staged.columns == 0

    def write(
        self, staged: Staged, point: Point, row: ir.Value, column: ir.Value, known: list[Known] | None = None
    ) -> None:
        """All elements of the tile that exist; the tile begins at (row, column) of the product `point` (i32)."""
        product = self.product
        if self._is_whole(staged):
            self._write_whole(staged, point, row, column, known)
            return
        fits = [numbers.is_below(numbers.add(row, staged.rows - 1), product.rows),
                numbers.is_below(numbers.add(column, staged.columns - 1), product.columns)]  # fmt: skip
        branch = scf.IfOp(arith.andi(*fits), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            self._write_whole(staged, point, row, column, None)
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            self.write_edge(staged, point, row, column)
            scf.yield_([])

    def _write_whole(
        self, staged: Staged, point: Point, row: ir.Value, column: ir.Value, known: list[Known] | None
    ) -> None:
        wide = staged.columns // self.lanes
        step = self.threads // wide
        together = max(1, min(self.together, staged.rows // step))

        def body(first: ir.Value, inner: ir.Value, *before: list[Known]) -> None:
            totals, points = [], []
            for number in range(together):
                own = numbers.add(first, number * step)
                totals.append(staged.load(own, inner, self.lanes))
                points.append(self._point(point, numbers.add(row, own), numbers.add(column, inner)))
            self.sink(totals, points, self.lanes, *before)

        if known is None:
            self._each(staged, wide, step * together, body)
            return
        first, inner = self._first(wide)
        for number in range(0, len(known), together):
            body(numbers.add(first, number * step), inner, known[number : number + together])

    def read_edge(self, staged: Staged, point: Point, row: numbers.Number, column: ir.Value) -> Known | None:
        """What a thread reads beside its sums of a tile of any shape; None where it may have more than one piece.

        Where the thread has none, it reads what another one does.
        """
        product, wide = self.product, staged.columns // self.lanes
        if self.reader is None or staged.rows > self.threads // wide or product.columns % self.lanes:
            return None
        first, inner = self._first(wide)
        own = numbers.smaller(numbers.add(row, first), product.rows - 1)
        side = numbers.smaller(numbers.add(column, inner), product.columns - self.lanes)
        [known] = self.reader([self._point(point, own, side)], self.lanes)
        return known

    def write_edge(
        self, staged: Staged, point: Point, row: ir.Value, column: ir.Value, known: Known | None = None
    ) -> None:
        """`write` for a tile of any shape, of which rows and columns may not exist; `known` is from `read_edge`."""
        product, wide = self.product, staged.columns // self.lanes

        def store(own: ir.Value, inner: ir.Value, lanes: int) -> None:
            place = self._point(point, numbers.add(row, own), numbers.add(column, inner))
            self.sink([staged.load(own, inner, lanes)], [place], lanes, *([] if known is None else [[known]]))

        def body(own: ir.Value, inner: ir.Value) -> None:
            with when(numbers.is_below(numbers.add(row, own), product.rows)):
                last = numbers.add(numbers.add(column, inner), self.lanes - 1)
                branch = scf.IfOp(numbers.is_below(last, product.columns), has_else=True)
                with ir.InsertionPoint(branch.then_block):
                    store(own, inner, self.lanes)
                    scf.yield_([])
                with ir.InsertionPoint(branch.else_block):
                    if self.lanes > 1 and product.columns % self.lanes:
                        count = numbers.subtract(product.columns, numbers.add(column, inner))
                        self._each_lane(count, lambda lane: store(own, numbers.add(inner, lane), 1))
                    scf.yield_([])

        self._each(staged, wide, self.threads // wide, body)

    def _each(self, staged: Staged, wide: int, step: int, body: Callable[[ir.Value, ir.Value], None]) -> None:
        """`body(row, column)` in the tile, for the pieces of a thread, `step` rows apart."""
        first, inner = self._first(wide)
        bounds = [vectors.index(value) for value in (0, staged.rows, step)]
        loop = scf.ForOp(*bounds)
        with ir.InsertionPoint(loop.body):
            body(numbers.add(first, numbers.as_number(loop.induction_variable)), inner)
            scf.yield_([])

    def _first(self, wide: int) -> tuple[ir.Value, ir.Value]:
        """The first row of a thread's pieces, and their column, where there are `wide` pieces in a row."""
        piece = numbers.remainder(self.thread, wide)
        return numbers.divide(self.thread, wide), numbers.multiply(piece, self.lanes)

    def _each_lane(self, count: ir.Value, body: Callable[[ir.Value], None]) -> None:
        """`body(lane)` for the lanes of a piece that exist."""
        end = arith.index_cast(ir.IndexType.get(), numbers.smaller(numbers.larger(count, 0), self.lanes))
        loop = scf.ForOp(vectors.index(0), end, vectors.index(1))
        with ir.InsertionPoint(loop.body):
            body(numbers.as_number(loop.induction_variable))
            scf.yield_([])

    def _point(self, point: Point, row: ir.Value, column: ir.Value) -> Point:
        contraction, index = self.product.contraction, ir.IndexType.get()
        known = {**point, contraction.rows: row, contraction.columns: column}
        place = {dim: arith.index_castui(index, value) for dim, value in known.items() if dim is not None}
        for dim in (*contraction.outer_depth, contraction.depth):
            place[dim] = vectors.index(0)
        return place


def epilogue_sink(epilogue: Epilogue) -> Sink:
    """Runs the fused operations and writes their results."""

    def sink(totals: list[ir.Value], points: list[Point], lanes: int, known: list[Known] | None = None) -> None:
        with aligned_accesses():
            values = [
                epilogue.evaluate(total, point, lanes, lanes, known[number] if known else None)
                for number, (total, point) in enumerate(zip(totals, points, strict=True))
            ]
            for each, point in zip(values, points, strict=True):
                epilogue.write(each, point, lanes, lanes)

    return sink


def epilogue_reader(epilogue: Epilogue, pieces: int, lanes: int) -> Reader | None:
    """Reads what the fused operations read of a tile in `pieces`, if that has room in a thread's registers."""
    widths = [tensor.type.element_type.width for tensor, _ in epilogue.whole_reads]
    if not widths or pieces * lanes * sum(max(width, 8) for width in widths) > 32 * READ_AHEAD:
        return None
    # Several results that also read biases need the registers themselves.
    has_biases = len(epilogue.reads) > len(epilogue.whole_reads)
    if epilogue.operation_count > _LONG or (has_biases and len(epilogue.outputs) > 1):
        return None

    def read(points: list[Point], lanes: int) -> list[Known]:
        with aligned_accesses():
            return [epilogue.read(point, lanes, lanes) for point in points]

    return read


@contextmanager
def aligned_accesses() -> Iterator[None]:
    """Say of the vector loads and stores that are emitted meanwhile how they are aligned.

    They are emitted into a block of their own first: the one they belong to is long, and is read from its beginning.
    """
    aside = scf.ExecuteRegionOp([])
    block = aside.regions[0].blocks.append()
    with ir.InsertionPoint(block):
        yield
    for operation in list(block.operations):
        if operation.operation.name in ("vector.load", "vector.store"):
            align(operation.operation)
        operation.operation.move_before(aside.operation)
    aside.operation.erase()


def align(access: ir.Operation) -> None:
    """Say how a vector load or store is aligned, if it is: its column is a multiple of its lanes."""
    is_load = access.name == "vector.load"
    buffer = access.operands[0 if is_load else 1]
    type_ = ir.VectorType((access.results if is_load else access.operands)[0].type)
    wide = min(COPY_BYTES, type_.shape[0] * type_.element_type.width // 8)
    if can_align(buffer, len(ir.MemRefType(buffer.type).shape) - 1, wide):
        access.attributes["alignment"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), wide)


def can_align(buffer: ir.Value, dim: int | None, size: int) -> bool:
    """Whether all rows along `dim`, whose neighbours lie side by side, begin at multiples of `size` bytes."""
    type_ = ir.MemRefType(buffer.type)
    shape, strides = list(type_.shape), vectors.strides_of(buffer)
    offset = 0 if 0 in shape else type_.get_strides_and_offset()[1]
    steps = [stride for place, stride in enumerate(strides) if place != dim and shape[place] > 1]
    width = max(8, type_.element_type.width) // 8
    return all(step * width % size == 0 for step in [offset, *steps])


def choose_lanes(epilogue: Epilogue, buffers: Sequence[IndexedBuffer]) -> int:
    """How many neighbours a thread takes: 16 bytes of the narrowest output, if all that is accessed lies for that."""
    contraction = epilogue.contraction
    along = [operand for operand in buffers if contraction.columns in operand.dims]
    narrow = min((_width(operand) for operand in along), default=4)
    lanes = max(4, min(8, COPY_BYTES // narrow))
    while lanes > 1 and not all(_suits(operand, contraction.columns, lanes) for operand in along):
        lanes //= 2
    return lanes


def choose_together(epilogue: Epilogue, lanes: int) -> int:
    """How many pieces a thread works on at a time: fewer where the fused operations are many."""
    return 1 if epilogue.operation_count > _LONG else max(2, _TOGETHER * 4 // lanes)


def _width(operand: IndexedBuffer) -> int:
    return max(8, operand.element.width) // 8


def _suits(operand: IndexedBuffer, columns: int | None, lanes: int) -> bool:
    dim = operand.dims.index(columns)
    if vectors.strides_of(operand.buffer)[dim] != 1:
        return False
    return can_align(operand.buffer, dim, min(COPY_BYTES, lanes * _width(operand)))
