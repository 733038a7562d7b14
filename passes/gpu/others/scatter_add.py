"""Adding rows to rows that indices choose, where many may choose the same one: in order, without atomics.

Positions of the indices are sorted by them, then rows are added. Where there are few, one launch sorts: position p goes
to the place that is the number of smaller indices, and of equal ones before it. Many are sorted by their bytes
(radix.py). In the last launch, a block for each place that begins a run of equal indices adds the updates of that run
to its row, one after the other, so that sums are those of a loop over all updates; halves are added in f32 and rounded
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod

from blu.dialects.core.mlir import arith, func, ir, llvm, memref, scf, vector
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.kernel import GpuKernel, below, when
from blu.passes.gpu.others.radix import RadixSort
from blu.passes.gpu.others.schedule import SCATTER_KINDS, InOrderSchedule, RadixSchedule
from blu.passes.gpu.others.update import add_columns
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.schedules import schedule_of
from blu.passes.kernels.updates import add_terms, delinearize, find_operation, rounded, widened, wrapped

SORT_THREADS, ADD_THREADS = 256, 192
_TOGETHER = 4
"""Rows that are read from shared memory at a time."""


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The sorted positions, for a kernel that is still on tensors."""
    schedule = schedule_of(kernel, SCATTER_KINDS)
    if isinstance(schedule, InOrderSchedule):
        return []
    if isinstance(schedule, RadixSchedule):
        return _radix(kernel).scratch
    indices = ir.RankedTensorType(operands_of(find_operation(kernel, "blu.scatter_add"))[1].type)
    return [ir.MemRefType.get([prod(indices.shape)], ir.IntegerType.get_signless(32))]


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.scatter_add, as its schedule says."""
    schedule = schedule_of(kernel, SCATTER_KINDS)
    if isinstance(schedule, InOrderSchedule):
        return add_columns(kernel)
    with kernel.location:
        if isinstance(schedule, RadixSchedule):
            sort = _radix(kernel)
            launches, half = sort.emit(kernel), sort.half
        else:
            sorting, half = _Scatter.open(kernel, f"{kernel.name.value}_order"), None
            sorting.sort()
            launches = [sorting.frame]
        adding = _Scatter.open(kernel, kernel.name.value, half)
        adding.add()
    kernel.operation.erase()
    return [*(frame.replacement for frame in launches), adding.frame.replacement]


def _radix(kernel: func.FuncOp) -> RadixSort:
    """The sort of positions by the rows that they choose."""
    operation = find_operation(kernel, "blu.scatter_add")
    destination, indices, _ = (ir.ShapedType(value.type) for value in operands_of(operation))
    size = destination.shape[attributes_of(operation)["axis"]]

    def read(frame: GpuKernel, row: ir.Value, place: ir.Value) -> ir.Value:
        where = delinearize(arith.index_castui(ir.IndexType.get(), place), indices.shape)
        index = memref.load(frame.buffers[operands_of(operation)[1]], where)
        return arith.index_cast(numbers.i32(), wrapped(index, size))

    return RadixSort(1, prod(indices.shape), numbers.i32(), (size - 1).bit_length(), read)


@dataclass(frozen=True)
class _Scatter:
    """One of the kernels: sorting in one launch, or adding."""

    frame: GpuKernel
    destination: ir.Value
    indices: ir.Value
    updates: ir.Value
    axis: int
    half: int | None
    """Of the memory that positions were sorted in by bytes; None if they were not."""

    @classmethod
    def open(cls, kernel: func.FuncOp, name: str, half: int | None = None) -> _Scatter:
        operation = find_operation(kernel, "blu.scatter_add")
        frame = GpuKernel.open(kernel, name=name)
        _, indices, updates = (frame.buffers[value] for value in operands_of(operation))
        return cls(frame, frame.outputs[0][1], indices, updates, attributes_of(operation)["axis"], half)

    @property
    def chosen(self) -> list[int]:
        """The shape of the indices."""
        return list(ir.MemRefType(self.indices.type).shape)

    @property
    def count(self) -> int:
        return prod(self.chosen)

    @property
    def columns(self) -> list[int]:
        """The dims of the updates that are not the indices'."""
        shape = list(ir.MemRefType(self.updates.type).shape)
        return [*shape[: self.axis], *shape[self.axis + len(self.chosen) :]]

    def row(self, position: ir.Value) -> ir.Value:
        """The row that the index at a position chooses."""
        index = memref.load(self.indices, delinearize(position, self.chosen))
        return wrapped(index, ir.MemRefType(self.destination.type).shape[self.axis])

    def sort(self) -> None:
        """The first launch: each thread finds the place of one position, and reads all rows for it, share by share."""
        shared = SharedMemory()
        keys = shared.take(4 * SORT_THREADS)
        blocks = ceil(self.count / SORT_THREADS)
        with self.frame.launch((blocks,), SORT_THREADS, shared.bytes) as here:
            block, thread = numbers.as_number(here.block[0]), numbers.as_number(here.thread)
            share = _Share(numbers.add(shared_address(self.frame), keys), thread)
            own = self._key(block, thread)
            loop = scf.ForOp(numbers.number(0), numbers.number(blocks), numbers.number(1), [numbers.number(0)])
            with ir.InsertionPoint(loop.body):
                number, place = loop.induction_variable, loop.inner_iter_args[0]
                share.publish(self._key(number, thread))
                # Of equal rows, those of earlier shares come first.
                limit = numbers.add(own, arith.extui(numbers.i32(), numbers.is_below(number, block)))
                scf.yield_([share.count(place, lambda key, _: numbers.is_below(key, limit))])
            share.publish(own)
            place = share.count(
                loop.results[0],
                lambda key, other: arith.andi(numbers.is_equal(key, own), numbers.is_below(other, thread)),
            )
            position = numbers.add(numbers.multiply(block, SORT_THREADS), thread)
            with when(numbers.is_below(position, self.count)):
                memref.store(position, self.frame.scratch[0], [arith.index_castui(ir.IndexType.get(), place)])

    def _key(self, share: ir.Value, thread: ir.Value) -> ir.Value:
        """The row that a position chooses, as i32; for positions that there are not, one beyond all."""
        position = numbers.add(numbers.multiply(share, SORT_THREADS), thread)
        safe = numbers.smaller(position, self.count - 1)
        row = arith.index_cast(numbers.i32(), self.row(arith.index_castui(ir.IndexType.get(), safe)))
        return arith.select(numbers.is_below(position, self.count), row, numbers.number(2**31 - 1))

    def add(self) -> None:
        """The second launch: a block for each place, of which those work that begin a run."""
        with self.frame.launch((self.count,), ADD_THREADS) as here:
            place = here.block[0]
            row = self._row_at(place)
            is_first = arith.cmpi(arith.CmpIPredicate.eq, place, vectors.index(0))
            before = self._row_at(arith.select(is_first, place, arith.subi(place, vectors.index(1))))
            begins = arith.ori(is_first, arith.cmpi(arith.CmpIPredicate.ne, before, row))
            with when(begins):
                loop = scf.ForOp(here.thread, vectors.index(prod(self.columns)), vectors.index(ADD_THREADS))
                with ir.InsertionPoint(loop.body):
                    self._add_run(place, row, delinearize(loop.induction_variable, self.columns))
                    scf.yield_([])

    def _row_at(self, place: ir.Value) -> ir.Value:
        return self.row(self._position(place)) if self.half is None else self._sorted(0, place)

    def _position(self, place: ir.Value) -> ir.Value:
        return self._sorted(0 if self.half is None else 1, place)

    def _sorted(self, number: int, place: ir.Value) -> ir.Value:
        """What one of the pieces of memory that sorting filled has at a place."""
        where = [place] if self.half is None else [vectors.index(self.half), vectors.index(0), place]
        return arith.index_castui(ir.IndexType.get(), memref.load(self.frame.scratch[number], where))

    def _add_run(self, start: ir.Value, row: ir.Value, column: list[ir.Value]) -> None:
        """Add a column of all updates of a run to the row's element."""
        where = [*column[: self.axis], row, *column[self.axis :]]
        index, element = ir.IndexType.get(), ir.MemRefType(self.destination.type).element_type
        old = widened(memref.load(self.destination, where))
        loop = scf.WhileOp([index, old.type], [start, old])
        before = loop.before.blocks.append(index, old.type)
        after = loop.after.blocks.append(index, old.type)
        with ir.InsertionPoint(before):
            place, total = before.arguments
            exists = below(place, self.count)
            last = vectors.index(self.count - 1)
            is_same = arith.cmpi(arith.CmpIPredicate.eq, self._row_at(arith.minui(place, last)), row)
            scf.condition(arith.andi(exists, is_same), [place, total])
        with ir.InsertionPoint(after):
            place, total = after.arguments
            chosen = delinearize(self._position(place), self.chosen)
            new = memref.load(self.updates, [*column[: self.axis], *chosen, *column[self.axis :]])
            scf.yield_([arith.addi(place, vectors.index(1)), add_terms(total, new)])
        memref.store(rounded(loop.results[1], element), self.destination, where)


@dataclass(frozen=True)
class _Share:
    """Rows that a block's threads have published in shared memory, one each."""

    address: ir.Value
    thread: ir.Value

    def publish(self, key: ir.Value) -> None:
        """Publish a row, when all have read the ones before, and wait for the others'."""
        barrier.sync()
        llvm.store(key, self._at(self.thread), alignment=4)
        barrier.sync()

    def count(self, start: ir.Value, counts: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """`start` and the number of rows that count: `counts(row, thread that has published it)`."""
        loop = scf.ForOp(numbers.number(0), numbers.number(SORT_THREADS), numbers.number(_TOGETHER), [start])
        with ir.InsertionPoint(loop.body):
            first, total = loop.induction_variable, loop.inner_iter_args[0]
            type_ = vectors.vector_type(_TOGETHER, numbers.i32())
            keys = llvm.load(type_, self._at(first), alignment=4 * _TOGETHER)
            for lane in range(_TOGETHER):
                key = vector.extract(keys, [], [lane])
                total = numbers.add(total, arith.extui(numbers.i32(), counts(key, numbers.add(first, lane))))
            scf.yield_([total])
        return loop.results[0]

    def _at(self, number: ir.Value) -> ir.Value:
        address = numbers.add(self.address, numbers.multiply(number, 4))
        return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), address)
