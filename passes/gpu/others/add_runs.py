"""Adding updates to rows, once the positions of indices are sorted: runs of equal rows are cut, and added in parallel.

Sorted places are cut into pieces of a fixed length. A first launch has a block for each piece (and some columns). A run
inside of a piece is added to its row, one update after the other. Of a run that goes on, each piece leaves the sum of
what it has: a beginning, or a continuation. A second launch has a block for each piece in which a run begins that goes
on. Its warps add up the run's continuations, 32 at a time, then what the warps have found is added in their order, and
the row last. So the order of sums depends on indices alone, and a run of n updates loses less than n additions would.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from math import ceil, gcd, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, math, memref, scf, vector
from blu.dialects.core.op import attributes_of, operands_of
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, vote
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, repeat, when
from blu.passes.gpu.others.run_slots import SLOT, RunPlaces, RunSums
from blu.passes.gpu.rows.bodies import WIDEST, alignment_of, element_bytes
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.rows.layout import FlatBuffer
from blu.passes.kernels.updates import add_terms, delinearize, find_operation, is_half, rounded, widened

THREADS = 192
"""The most of a block that adds up a piece."""
WARPS = 4
"""Of a block that adds up what pieces have left of a run."""
TOGETHER = 4
"""Places that are on their way from memory at a time; pieces have a multiple of them."""
MOST_PLACES = 4096
"""Of a piece: what shared memory has room for on every GPU."""
_NONE = -1
"""The row of places that there are not."""
_BEGINNING, _CONTINUATION = 0, 1
"""What a piece leaves of a run that goes on in others."""


def reserve(kernel: func.FuncOp, piece: int) -> list[ir.MemRefType]:
    """What pieces leave, for a kernel that is still on tensors; nothing if there is one."""
    _, indices, updates = (ir.RankedTensorType(item.type) for item in operands_of(find_addition(kernel)))
    pieces, count = ceil(prod(indices.shape) / piece), prod(indices.shape)
    element = numbers.f32() if is_half(updates.element_type) else updates.element_type
    return [ir.MemRefType.get([2, pieces, prod(updates.shape) // count], element)] if pieces > 1 else []


def find_addition(kernel: func.FuncOp) -> ir.Operation:
    """The blu.scatter_add of a kernel."""
    return find_operation(kernel, "blu.scatter_add")


@dataclass(frozen=True)
class Sorted:
    """Where a kernel's scratch has the sorted rows (i32) and their positions: two buffers [.., rows, places]."""

    rows: int
    positions: int
    half: int

    def load(self, frame: GpuKernel, buffer: int, place: ir.Value) -> ir.Value:
        """The row, or the position, at a place (i32)."""
        return memref.load(frame.scratch[buffer], [vectors.index(self.half), vectors.index(0), _index(place)])


@dataclass(frozen=True)
class AddRuns:
    """One of the launches."""

    frame: GpuKernel
    source: Sorted
    piece: int

    @classmethod
    def emit(cls, kernel: func.FuncOp, source: Sorted, piece: int) -> list[GpuKernel]:
        """The launches, in order: one where there is one piece."""
        name = kernel.name.value
        last = cls(GpuKernel.open(kernel, name=name), source, piece)
        if last.pieces == 1:
            last.add_pieces()
            return [last.frame]
        first = cls(GpuKernel.open(kernel, name=f"{name}_pieces"), source, piece)
        first.add_pieces()
        last.add_parts()
        return [first.frame, last.frame]

    @cached_property
    def _buffers(self) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The destination, indices and updates."""
        _, indices, updates = (self.frame.buffers[value] for value in operands_of(find_addition(self.frame.function)))
        return self.frame.outputs[0][1], indices, updates

    @property
    def _axis(self) -> int:
        return attributes_of(find_addition(self.frame.function))["axis"]

    @cached_property
    def _chosen(self) -> list[int]:
        """The shape of the indices."""
        return list(ir.MemRefType(self._buffers[1].type).shape)

    @property
    def _count(self) -> int:
        return prod(self._chosen)

    @property
    def pieces(self) -> int:
        """How many pieces the sorted places have."""
        return ceil(self._count / self.piece)

    @cached_property
    def _columns(self) -> list[int]:
        """The dims of the updates that are not the indices'."""
        shape = list(ir.MemRefType(self._buffers[2].type).shape)
        return [*shape[: self._axis], *shape[self._axis + len(self._chosen) :]]

    @cached_property
    def _lanes(self) -> int:
        """Neighbouring columns that a thread takes: as many as one load brings in both buffers."""
        destination, _, updates = self._buffers
        if self._axis == len(ir.MemRefType(destination.type).shape) - 1:
            return 1
        size = element_bytes(self._element)
        lanes = gcd(min(8, WIDEST // size), self._columns[-1])
        while any(_alignment(buffer, lanes) < lanes * size for buffer in (destination, updates)):
            lanes //= 2
        return lanes

    @property
    def _element(self) -> ir.Type:
        return ir.MemRefType(self._buffers[0].type).element_type

    @property
    def _vectors(self) -> int:
        """How many threads all columns take."""
        return prod(self._columns) // self._lanes

    def _type(self, element: ir.Type) -> ir.Type:
        return element if self._lanes == 1 else vectors.vector_type(self._lanes, element)

    def _nothing(self, element: ir.Type) -> ir.Value:
        """What a sum begins with: added to anything, it changes no bit."""
        return vectors.constant(self._type(element), -0.0 if isinstance(element, ir.FloatType) else 0)

    @property
    def _wide(self) -> ir.Type:
        return numbers.f32() if is_half(self._element) else self._element

    def _load(self, buffer: ir.Value, where: list[ir.Value]) -> ir.Value:
        if self._lanes == 1:
            return memref.load(buffer, where)
        element = ir.MemRefType(buffer.type).element_type
        return vector.load(self._type(element), buffer, where, alignment=self._alignment(element))

    def _store(self, value: ir.Value, buffer: ir.Value, where: list[ir.Value]) -> None:
        if self._lanes == 1:
            memref.store(value, buffer, where)
            return
        element = ir.MemRefType(buffer.type).element_type
        vector.store(value, buffer, where, alignment=self._alignment(element))

    def _alignment(self, element: ir.Type) -> int:
        return min(WIDEST, self._lanes * element_bytes(element))

    # Pieces

    def add_pieces(self) -> None:
        """The first launch: each block adds up a piece, each thread some columns."""
        shared = SharedMemory()
        slots = shared.take(SLOT * (self.piece + 2))
        threads = min(THREADS, ceil(self._vectors / WARP) * WARP)
        grid = (self.pieces, ceil(self._vectors / threads))
        with self.frame.launch(grid, threads, shared.bytes) as here:
            thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
            places = RunPlaces(numbers.add(shared_address(self.frame), slots))
            self._publish(places, thread, threads, numbers.multiply(block, self.piece))
            barrier.sync()
            point = numbers.add(numbers.multiply(numbers.as_number(here.block[1]), threads), thread)
            with when(numbers.is_below(point, self._vectors)):
                self._walk(places, here.block[0], _index(point))

    def _publish(self, places: RunPlaces, thread: ir.Value, threads: int, first: ir.Value) -> None:
        """Rows and positions of a piece, of the place before and that behind it, in shared memory."""
        loop = scf.ForOp(thread, numbers.number(self.piece + 2), numbers.number(threads))
        with ir.InsertionPoint(loop.body):
            slot = loop.induction_variable
            place = numbers.add(first, numbers.subtract(slot, 1))
            safe = numbers.larger(numbers.smaller(place, self._count - 1), 0)
            row, position = (
                self.source.load(self.frame, buffer, safe) for buffer in (self.source.rows, self.source.positions)
            )
            places.put(slot, arith.select(numbers.is_equal(place, safe), row, numbers.number(_NONE)), position)
            scf.yield_([])

    def _walk(self, places: RunPlaces, block: ir.Value, point: ir.Value) -> None:
        """One thread goes through all places of the piece, some at a time, whose updates it reads beforehand."""
        flat = arith.muli(point, vectors.index(self._lanes))
        column = delinearize(flat, self._columns)
        before, after = places.row(numbers.number(0)), places.row(numbers.number(self.piece + 1))

        def goes_on(row: ir.Value) -> ir.Value:
            return arith.ori(*(arith.cmpi(arith.CmpIPredicate.eq, row, other) for other in (before, after)))

        def step(first: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            slots = [places.get(numbers.number(numbers.add(first, number))) for number in range(TOGETHER + 2)]
            rows = [row for row, _ in slots]
            terms = [self._load(self._buffers[2], self._update(column, position)) for _, position in slots[1:-1]]
            begins = [_differ(row, previous) for previous, row in pairwise(rows[:-1])]
            starts = [
                self._start(column, row, arith.andi(begin, _differ(row, after)))
                for row, begin in zip(rows[1:-1], begins, strict=True)
            ]
            (total,) = carried
            for number, (term, begin, start) in enumerate(zip(terms, begins, starts, strict=True), 1):
                total = add_terms(arith.select(begin, widened(start), total), term)
                row, is_last = rows[number], _differ(rows[number], rows[number + 1])
                if number == TOGETHER:  # the last place of the piece
                    is_last = arith.ori(is_last, numbers.is_equal(first, self.piece - TOGETHER))
                with when(arith.andi(is_last, _differ(row, numbers.number(_NONE)))):
                    self._finish(total, column, row, goes_on(row), [_kind(row, before), block, flat])
            return [total]

        repeat(0, self._places_of(block), TOGETHER, [self._nothing(self._wide)], step)

    def _places_of(self, block: ir.Value) -> ir.Value:
        """How many places a piece has."""
        begin = numbers.multiply(numbers.as_number(block), self.piece)
        return numbers.smaller(numbers.subtract(self._count, begin), self.piece)

    def _update(self, column: list[ir.Value], position: ir.Value) -> list[ir.Value]:
        return [*column[: self._axis], *delinearize(_index(position), self._chosen), *column[self._axis :]]

    def _row(self, column: list[ir.Value], row: ir.Value) -> list[ir.Value]:
        return [*column[: self._axis], _index(row), *column[self._axis :]]

    def _start(self, column: list[ir.Value], row: ir.Value, is_whole: ir.Value) -> ir.Value:
        """What a run begins with: the row as it is, if all of the run is in the piece."""
        branch = scf.IfOp(is_whole, [self._type(self._element)], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.yield_([self._load(self._buffers[0], self._row(column, row))])
        with ir.InsertionPoint(branch.else_block):
            scf.yield_([self._nothing(self._element)])
        return branch.results[0]

    def _finish(
        self, total: ir.Value, column: list[ir.Value], row: ir.Value, goes_on: ir.Value, part: list[ir.Value]
    ) -> None:
        """Write the sum of a run, or leave what the piece has of it."""
        if self.pieces == 1:
            self._write(total, column, row)
            return
        branch = scf.IfOp(goes_on, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            self._store(total, self.frame.scratch[0], part)
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            self._write(total, column, row)
            scf.yield_([])

    def _write(self, total: ir.Value, column: list[ir.Value], row: ir.Value) -> None:
        self._store(rounded(total, self._element), self._buffers[0], self._row(column, row))

    # Runs that go on in other pieces

    def add_parts(self) -> None:
        """The second launch: each block adds up the parts of the run that begins in a piece, each lane some columns."""
        shared = SharedMemory()
        sums = shared.take(WARPS * WARP * self._lanes * element_bytes(self._wide))
        grid = (self.pieces - 1, ceil(self._vectors / WARP))
        with self.frame.launch(grid, WARPS * WARP, shared.bytes) as here:
            thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
            lane, warp = numbers.remainder(thread, WARP), numbers.divide(thread, WARP)
            row, begins = self._begun(block)
            with when(begins):
                point = numbers.add(numbers.multiply(numbers.as_number(here.block[1]), WARP), lane)
                safe = _index(numbers.smaller(point, self._vectors - 1))
                flat = arith.muli(safe, vectors.index(self._lanes))
                total = self._add_up(row, numbers.add(block, 1), warp, lane, flat)
                slots = RunSums(numbers.add(shared_address(self.frame), sums), total.type, self._alignment(self._wide))
                slots.put(thread, total)
                barrier.sync()
                with when(arith.andi(numbers.is_below(point, self._vectors), numbers.is_equal(warp, 0))):
                    self._complete(slots, thread, row, [vectors.index(_BEGINNING), here.block[0], flat])

    def _begun(self, block: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The row of the last place of a piece, and whether its run begins there and goes on."""
        end = numbers.number(numbers.multiply(numbers.add(block, 1), self.piece))
        row, behind = (self._row_at(place) for place in (numbers.subtract(end, 1), end))
        before = self._row_at(numbers.larger(numbers.subtract(end, self.piece + 1), 0))
        begins = arith.ori(numbers.is_equal(block, 0), _differ(before, row))
        return row, arith.andi(begins, numbers.is_equal(row, behind))

    def _row_at(self, place: ir.Value) -> ir.Value:
        return self.source.load(self.frame, self.source.rows, place)

    def _add_up(self, row: ir.Value, first: ir.Value, warp: ir.Value, lane: ir.Value, flat: ir.Value) -> ir.Value:
        """What a warp's continuations of a run come to: those of 32 neighbouring pieces at a time."""
        start, nothing = numbers.add(first, numbers.multiply(warp, WARP)), self._nothing(self._wide)
        types = [numbers.i32(), nothing.type]
        loop = scf.WhileOp(types, [start, nothing])
        before, after = (region.blocks.append(*types) for region in (loop.before, loop.after))
        with ir.InsertionPoint(before):
            begin, total = before.arguments
            own = numbers.number(numbers.add(begin, lane))
            safe = numbers.smaller(own, self.pieces - 1)
            same = numbers.is_equal(self._row_at(numbers.multiply(safe, self.piece)), row)
            # Rows are sorted, so that the lanes whose pieces continue the run come first.
            count = math.ctpop(vote.ballot(arith.andi(same, numbers.is_equal(own, safe))))
            (total,) = repeat(0, count, TOGETHER, [total], self._few(begin, count, flat))
            scf.condition(numbers.is_equal(count, WARP), [numbers.add(begin, WARPS * WARP), total])
        with ir.InsertionPoint(after):
            scf.yield_(list(after.arguments))
        return loop.results[1]

    def _few(self, begin: ir.Value, count: ir.Value, flat: ir.Value) -> Callable:
        """Some continuations, which are read before the first of them is added."""

        def step(first: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            offsets = [numbers.number(numbers.add(first, number)) for number in range(TOGETHER)]
            pieces = [numbers.add(begin, numbers.smaller(at, numbers.subtract(count, 1))) for at in offsets]
            terms = [self._part(_CONTINUATION, _index(piece), flat) for piece in pieces]
            (total,) = carried
            for offset, term in zip(offsets, terms, strict=True):
                total = arith.select(numbers.is_below(offset, count), add_terms(total, term), total)
            return [total]

        return step

    def _part(self, kind: int, piece: ir.Value, flat: ir.Value) -> ir.Value:
        return self._load(self.frame.scratch[0], [vectors.index(kind), piece, flat])

    def _complete(self, slots: RunSums, thread: ir.Value, row: ir.Value, beginning: list[ir.Value]) -> None:
        """Add what the warps have found to the beginning, and that to the row."""
        column = delinearize(beginning[-1], self._columns)
        old, total = (
            self._load(buffer, where)
            for buffer, where in (
                (self._buffers[0], self._row(column, row)),
                (self.frame.scratch[0], beginning),
            )
        )
        for warp in range(WARPS):
            total = add_terms(total, slots.get(numbers.add(thread, WARP * warp)))
        self._write(add_terms(old, total), column, row)


def _alignment(buffer: ir.Value, lanes: int) -> int:
    """Of vectors along the last dimension of a buffer; 0 where their elements are not neighbours."""
    steps = dict(enumerate(vectors.strides_of(buffer)))
    last = len(steps) - 1
    if lanes > 1 and steps[last] != 1:
        return 0
    return alignment_of(FlatBuffer(buffer, ir.MemRefType(buffer.type).element_type, steps), lanes, last)


def _kind(row: ir.Value, before: ir.Value) -> ir.Value:
    """Which part of a run that goes on a piece has."""
    continues = arith.cmpi(arith.CmpIPredicate.eq, row, before)
    return arith.select(continues, vectors.index(_CONTINUATION), vectors.index(_BEGINNING))


def _differ(left: ir.Value, right: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ne, left, right)


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)
