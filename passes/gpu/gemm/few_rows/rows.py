"""A few rows times a matrix, as in decoding: bound by reading the matrix once, 16 bytes at a time where rows begin so.

Where neighbours along k lie side by side, a warp takes a few columns and each lane every 32nd piece of them; else a
thread takes the columns of one piece, and every so many rows of the matrix. What lanes or threads have summed is added
in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, math, scf
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import further, pointer
from blu.passes.gpu.gemm.copy import first_address
from blu.passes.gpu.gemm.output import PADDING, Output, Staged, choose_lanes, epilogue_sink
from blu.passes.gpu.gemm.problem import COPY_BYTES, Factor, Product
from blu.passes.gpu.gemm.schedule import FewRowsSchedule
from blu.passes.gpu.isa import barrier, shared_memory, shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, small_grid, when
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.epilogue import Epilogue
from blu.passes.kernels.launch import READS_EARLY

MOST_ROWS = 4
THREADS = 256
_WARPS = THREADS // WARP
_AHEAD = 24
"""Rows of the matrix that a thread reads before it multiplies the first, at most."""
_PIECES, _BYTES = 16, 64
"""Pieces and bytes of a column that a lane reads before, where pieces are less than 16 bytes."""

Sums = list[list[ir.Value]]
"""For each row, the sums of a thread's columns."""


def suits(product: Product) -> bool:
    """Few rows of f32 or narrower, and a matrix with a direction in which neighbours lie side by side."""
    left, right = product.left, product.right
    elements = {str(left.element), str(right.element)}
    if product.rows > MOST_ROWS or product.runs > 1 or product.is_degenerate or not elements <= {"f32", "bf16", "f16"}:
        return False
    return right.is_dense


def _lanes(product: Product) -> int:
    """Elements of the matrix that are read at a time: as many as rows of it are a multiple of."""
    left, right = product.left, product.right
    most = right.copy_bytes // right.bytes
    if not right.is_deep:
        return most
    return min(most, left.copy_bytes // left.bytes) if left.depth_stride == 1 else 1


def choose_schedule(product: Product, target: GpuTarget) -> FewRowsSchedule:
    """As many columns at a time as leave work for every multiprocessor."""
    if product.right.is_deep:
        each = 4
        while each > 1 and product.outer * ceil(product.columns / (each * _WARPS)) < 2 * target.processors:
            each //= 2
        return FewRowsSchedule(each * _WARPS)
    lanes, pieces = COPY_BYTES // product.right.bytes, 16
    while pieces > 2 and product.outer * ceil(product.columns / (pieces * lanes)) < target.processors:
        pieces //= 2  # at least two: a sector of memory
    return FewRowsSchedule(pieces * lanes)


def widths(product: Product) -> list[int]:
    """How many columns a block may have."""
    if product.right.is_deep:
        return [each * _WARPS for each in (1, 2, 4)]
    return [pieces * (COPY_BYTES // product.right.bytes) for pieces in (2, 4, 8, 16)]


def emit(frame: GpuKernel, product: Product, epilogue: Epilogue, schedule: FewRowsSchedule, target: GpuTarget) -> None:
    """Fill the kernel's replacement."""
    kernel = (_Deep if product.right.is_deep else _Turned).of(product, schedule.columns)
    shared = SharedMemory()
    parts = shared.take(kernel.parts * product.rows * kernel.columns * 4)
    sums = shared.take(product.rows * (kernel.columns + PADDING) * 4)
    across = ceil(product.columns / kernel.columns)
    grid = (across * product.outer,)
    room = small_grid(grid[0], THREADS, target)
    frame.replacement.attributes[READS_EARLY] = ir.UnitAttr.get()
    with product.contraction.operation.location, frame.launch(grid, THREADS, shared.bytes, **room) as here:
        thread, number = numbers.as_number(here.thread), numbers.as_number(here.block[0])
        rest, column = (
            numbers.divide(number, across),
            numbers.multiply(numbers.remainder(number, across), kernel.columns),
        )
        point: dict[int, ir.Value] = {}
        for dim in reversed(product.contraction.outer):
            size = product.contraction.size(dim)
            rest, point[dim] = numbers.divide(rest, size), numbers.remainder(rest, size)
        base = shared_address(frame)
        staged = Staged(numbers.add(base, sums), product.rows, kernel.columns)
        left, right = (start_of(factor, [point[dim] for dim in product.contraction.outer])
                       for factor in (product.left, product.right))  # fmt: skip
        kernel.sum_up(_Block(left, right, column, thread), numbers.add(base, parts), staged)
        barrier.sync()
        lanes = choose_lanes(epilogue, [operand for _, operand in epilogue.outputs])
        output = Output(product, epilogue_sink(epilogue), min(lanes, 4), 1, thread, THREADS)
        output.write_edge(staged, point, numbers.number(0), column)


def start_of(factor: Factor, outer: list[ir.Value]) -> ir.Value:
    """The address of the factor of one product, i64."""
    address = first_address(factor)
    for position, stride in zip(outer, factor.outer_strides, strict=True):
        address = further(address, position, stride * factor.bytes)
    return address


@dataclass(frozen=True)
class _Block:
    """What a block works on: addresses of its factors, its first column, and the thread's number."""

    left: ir.Value
    right: ir.Value
    column: ir.Value
    thread: ir.Value


@dataclass(frozen=True)
class _Kernel:
    """`columns` are those of a block; `parts` sums of each element wait in shared memory."""

    product: Product
    columns: int
    parts: int

    @property
    def lanes(self) -> int:
        """Elements of the matrix in a piece."""
        return _lanes(self.product)

    def zeros(self, columns: int) -> Sums:
        return [[numbers.real(0.0)] * columns for _ in range(self.product.rows)]

    def _loop(
        self, begin: ir.Value | int, end: int, step: int, sums: Sums, body: Callable[[ir.Value, Sums], Sums]
    ) -> Sums:
        begin = vectors.index(begin) if isinstance(begin, int) else begin
        flat = [value for row in sums for value in row]
        loop = scf.ForOp(begin, vectors.index(end), vectors.index(step), flat)
        with ir.InsertionPoint(loop.body):
            rows = _rows(list(loop.inner_iter_args), len(sums[0]))
            rows = body(numbers.as_number(loop.induction_variable), rows)
            scf.yield_([value for row in rows for value in row])
        return _rows(list(loop.results), len(sums[0]))


class _Deep(_Kernel):
    """A warp for a few columns, whose k are side by side."""

    @classmethod
    def of(cls, product: Product, columns: int) -> _Deep:
        return cls(product, columns, 0)

    def sum_up(self, block: _Block, parts: ir.Value, staged: Staged) -> None:
        product, each = self.product, self.columns // _WARPS
        lane, own = numbers.remainder(block.thread, WARP), numbers.divide(block.thread, WARP)
        first = numbers.multiply(own, each)
        right = [self._column(block, numbers.add(first, number)) for number in range(each)]
        pieces, index, ahead = product.depth // self.lanes, ir.IndexType.get(), self._ahead(each)
        sums, whole = self.zeros(each), pieces // (WARP * ahead) * WARP * ahead if ahead > 1 else 0
        if whole:
            sums = self._loop(0, whole, WARP * ahead, sums, partial(self._many, block, right, lane, ahead))
        if pieces % WARP == 0:  # the same number of steps for all lanes, which may be unrolled
            one = partial(self._many, block, right, lane, 1)
            sums = self._loop(whole, pieces, WARP, sums, one)
        else:
            begin = arith.index_cast(index, numbers.add(lane, whole))
            sums = self._loop(begin, pieces, WARP, sums, partial(self._step, block, right))
        totals = [_sum_of_warp(value) for row in sums for value in row]
        with when(numbers.is_equal(lane, 0)):
            for row, values in enumerate(_rows(totals, each)):
                start = staged.at(row, first)
                for number, value in enumerate(values):
                    shared_memory.st(start, number * 4, [arith.bitcast(numbers.i32(), value)])

    def _ahead(self, each: int) -> int:
        """How many pieces of each column a lane reads before it multiplies the first."""
        size = self.lanes * self.product.right.bytes
        return 1 if size == COPY_BYTES else max(1, min(_PIECES, _BYTES // size) // each)

    def _many(
        self, block: _Block, right: list[ir.Value], lane: ir.Value, ahead: int, number: ir.Value, sums: Sums
    ) -> Sums:
        """Several steps from piece `number` of the warp on, whose columns are all read first."""
        pieces = [numbers.add(numbers.add(number, lane), step * WARP) for step in range(ahead)]
        loaded = [self._read(right, piece) for piece in pieces]
        for piece, columns in zip(pieces, loaded, strict=True):
            sums = self._multiply(block, columns, piece, sums)
        return sums

    def _step(self, block: _Block, right: list[ir.Value], piece: ir.Value, sums: Sums) -> Sums:
        """The products of a piece of each column."""
        return self._multiply(block, self._read(right, piece), piece, sums)

    def _read(self, right: list[ir.Value], piece: ir.Value) -> list[list[ir.Value]]:
        k = numbers.multiply(piece, self.lanes)
        return [_load(further(start, k, self.product.right.bytes), self.product.right, self.lanes) for start in right]

    def _multiply(self, block: _Block, columns: list[list[ir.Value]], piece: ir.Value, sums: Sums) -> Sums:
        left, k = self.product.left, numbers.multiply(piece, self.lanes)
        for row in range(len(sums)):
            place = further(further(block.left, row, left.stride * left.bytes), k, left.depth_stride * left.bytes)
            values = _load(place, left, self.lanes)
            for number, column in enumerate(columns):
                for a, b in zip(values, column, strict=True):
                    sums[row][number] = math.fma(a, b, sums[row][number])
        return sums

    def _column(self, block: _Block, number: ir.Value) -> ir.Value:
        """Where a column begins; the last one for those that are not there."""
        column = numbers.smaller(numbers.add(block.column, number), self.product.columns - 1)
        return further(block.right, column, self.product.right.stride * self.product.right.bytes)


class _Turned(_Kernel):
    """A thread for the columns of a piece, in every so many rows; a warp adds up what its threads have."""

    @classmethod
    def of(cls, product: Product, columns: int) -> _Turned:
        return cls(product, columns, min(_WARPS, THREADS * _lanes(product) // columns))

    @property
    def walkers(self) -> int:
        """Threads for the same columns."""
        return THREADS * self.lanes // self.columns

    def sum_up(self, block: _Block, parts: ir.Value, staged: Staged) -> None:
        product, pieces = self.product, self.columns // self.lanes
        own, piece = numbers.divide(block.thread, pieces), numbers.remainder(block.thread, pieces)
        inner = numbers.multiply(piece, self.lanes)
        column = numbers.smaller(numbers.add(block.column, inner), product.columns - self.lanes)
        start = further(block.right, column, product.right.bytes)
        sums = [[_sum_of_warp(value, pieces) for value in row] for row in self._walk(block, start, own)]
        part = numbers.divide(own, self.walkers // self.parts)
        with when(numbers.is_below(numbers.remainder(block.thread, max(WARP, pieces)), pieces)):
            self._leave(sums, numbers.add(parts, numbers.multiply(inner, 4)), part)
        barrier.sync()
        self._add_parts(block.thread, parts, staged)

    def _leave(self, sums: Sums, place: ir.Value, part: ir.Value) -> None:
        """Write sums of a piece's columns to shared memory, as one of the parts."""
        place = numbers.add(place, numbers.multiply(part, self.product.rows * self.columns * 4))
        for row, values in enumerate(sums):
            for first in range(0, self.lanes, 4):
                offset = (row * self.columns + first) * 4
                bits = [arith.bitcast(numbers.i32(), value) for value in values[first : first + 4]]
                shared_memory.st(place, offset, bits)

    def _walk(self, block: _Block, start: ir.Value, own: ir.Value) -> Sums:
        """A thread's rows of the matrix: several at a time, then those that are left."""
        depth, step = self.product.depth, self.walkers
        rounds = ceil(max(1, depth // step) / _AHEAD)
        ahead = max(1, depth // step // rounds)
        whole = depth // (step * ahead) * (step * ahead)
        sums = self._loop(0, whole, step * ahead, self.zeros(self.lanes), self._many(block, start, own, ahead))
        first = arith.addi(vectors.index(whole), arith.index_cast(ir.IndexType.get(), own))
        return self._loop(first, depth, step, sums, lambda k, sums: self._add(block, start, [k], sums))

    def _many(self, block: _Block, start: ir.Value, own: ir.Value, ahead: int) -> Callable[[ir.Value, Sums], Sums]:
        def body(k: ir.Value, sums: Sums) -> Sums:
            places = [numbers.add(numbers.add(k, own), number * self.walkers) for number in range(ahead)]
            return self._add(block, start, places, sums)

        return body

    def _add(self, block: _Block, start: ir.Value, places: list[ir.Value], sums: Sums) -> Sums:
        """The products of some rows of the matrix, all of which are read first."""
        left, right = self.product.left, self.product.right
        loaded = [_load(further(start, k, right.depth_stride * right.bytes), right, self.lanes) for k in places]
        for k, values in zip(places, loaded, strict=True):
            place = further(block.left, k, left.depth_stride * left.bytes)
            for row in range(len(sums)):
                factor = _load(further(place, row, left.stride * left.bytes), left, 1)[0]
                sums[row] = [math.fma(factor, value, total) for value, total in zip(values, sums[row], strict=True)]
        return sums

    def _add_parts(self, thread: ir.Value, parts: ir.Value, staged: Staged) -> None:
        """Each thread adds the parts of some elements, in order."""
        rows, count = self.product.rows, self.product.rows * self.columns
        loop = scf.ForOp(arith.index_cast(ir.IndexType.get(), thread), vectors.index(count), vectors.index(THREADS))
        with ir.InsertionPoint(loop.body):
            number = numbers.as_number(loop.induction_variable)
            start = numbers.add(parts, numbers.multiply(number, 4))
            sums = [shared_memory.ld(start, part * rows * self.columns * 4, 1, numbers.f32())[0]
                    for part in range(self.parts)]  # fmt: skip
            total = sums[0]
            for value in sums[1:]:
                total = arith.addf(total, value)
            place = staged.at(numbers.divide(number, self.columns), numbers.remainder(number, self.columns))
            shared_memory.st(place, 0, [arith.bitcast(numbers.i32(), total)])
            scf.yield_([])


def _rows(values: list[ir.Value], count: int) -> Sums:
    return [list(values[place : place + count]) for place in range(0, len(values), count)]


def _load(address: ir.Value, factor: Factor, count: int) -> list[ir.Value]:
    """Neighbours as f32, 16 bytes at a time."""
    if count == 1:
        return [_widened(llvm.load(factor.element, pointer(address), alignment=factor.bytes))]
    lanes, values = min(count, COPY_BYTES // factor.bytes), []
    for first in range(0, count, lanes):
        place = pointer(further(address, first, factor.bytes))
        loaded = llvm.load(ir.VectorType.get([lanes], factor.element), place, alignment=lanes * factor.bytes)
        values += [_widened(llvm.extractelement(loaded, numbers.number(lane))) for lane in range(lanes)]
    return values


def _widened(value: ir.Value) -> ir.Value:
    return value if isinstance(value.type, ir.F32Type) else arith.extf(numbers.f32(), value)


def _sum_of_warp(value: ir.Value, apart: int = 1) -> ir.Value:
    """The sum over all lanes that are multiples of `apart`, a power of two, from each other: the same in each."""
    for distance in (distance for distance in (16, 8, 4, 2, 1) if distance >= apart):
        value = arith.addf(value, shfl.bfly(value, distance))
    return value
