"""Adding rows to rows that indices choose, where many may choose the same one: in a fixed order, without atomics.

Positions of the indices are sorted by them, then rows are added (add_runs.py). Where there are few, one launch sorts:
position p goes to the place that is the number of smaller indices, and of equal ones before it. Many are sorted by
their bytes (radix.py). Halves are added in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, llvm, memref, scf, vector
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.kernel import GpuKernel, when
from blu.passes.gpu.others import add_runs
from blu.passes.gpu.others.add_runs import AddRuns, Sorted, find_addition
from blu.passes.gpu.others.radix import RadixSort
from blu.passes.gpu.others.schedule import SCATTER_KINDS, InOrderSchedule, RadixScatterSchedule, SortedSchedule
from blu.passes.gpu.others.update import add_columns
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.schedules import schedule_of
from blu.passes.kernels.updates import delinearize, wrapped

SORT_THREADS = 256
_TOGETHER = 4
"""Rows that are read from shared memory at a time."""


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """What is left of runs, and the sorted rows and their positions, for a kernel that is still on tensors."""
    schedule = schedule_of(kernel, SCATTER_KINDS)
    if isinstance(schedule, InOrderSchedule):
        return []
    assert isinstance(schedule, SortedSchedule | RadixScatterSchedule), "there is no other kind"
    parts = add_runs.reserve(kernel, schedule.piece)
    if isinstance(schedule, RadixScatterSchedule):
        return [*parts, *_radix(kernel).scratch]
    indices = ir.RankedTensorType(operands_of(find_addition(kernel))[1].type)
    return [*parts, *[ir.MemRefType.get([1, 1, prod(indices.shape)], numbers.i32())] * 2]


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.scatter_add, as its schedule says."""
    schedule = schedule_of(kernel, SCATTER_KINDS)
    if isinstance(schedule, InOrderSchedule):
        return add_columns(kernel)
    assert isinstance(schedule, SortedSchedule | RadixScatterSchedule), "there is no other kind"
    with kernel.location:
        if isinstance(schedule, RadixScatterSchedule):
            sort = _radix(kernel)
            launches, source = sort.emit(kernel), Sorted(-3, -2, sort.half)
        else:
            ordering = _Order.open(kernel)
            ordering.sort()
            launches, source = [ordering.frame], Sorted(-2, -1, 0)
        launches += AddRuns.emit(kernel, source, schedule.piece)
    kernel.operation.erase()
    return [frame.replacement for frame in launches]


def _radix(kernel: func.FuncOp) -> RadixSort:
    """The sort of positions by the rows that they choose."""
    operation = find_addition(kernel)
    destination, indices, _ = (ir.ShapedType(value.type) for value in operands_of(operation))
    size = destination.shape[attributes_of(operation)["axis"]]

    def read(frame: GpuKernel, row: ir.Value, place: ir.Value) -> ir.Value:
        where = delinearize(arith.index_castui(ir.IndexType.get(), place), indices.shape)
        index = memref.load(frame.buffers[operands_of(operation)[1]], where)
        return arith.index_cast(numbers.i32(), wrapped(index, size))

    return RadixSort(1, prod(indices.shape), numbers.i32(), (size - 1).bit_length(), read)


@dataclass(frozen=True)
class _Order:
    """The launch that sorts few positions."""

    frame: GpuKernel
    indices: ir.Value
    size: int
    """Rows that there are to choose from."""

    @classmethod
    def open(cls, kernel: func.FuncOp) -> _Order:
        operation = find_addition(kernel)
        frame = GpuKernel.open(kernel, name=f"{kernel.name.value}_order")
        destination, indices, _ = operands_of(operation)
        size = ir.ShapedType(destination.type).shape[attributes_of(operation)["axis"]]
        return cls(frame, frame.buffers[indices], size)

    @property
    def chosen(self) -> list[int]:
        """The shape of the indices."""
        return list(ir.MemRefType(self.indices.type).shape)

    @property
    def count(self) -> int:
        return prod(self.chosen)

    def row(self, position: ir.Value) -> ir.Value:
        """The row that the index at a position chooses."""
        index = memref.load(self.indices, delinearize(position, self.chosen))
        return wrapped(index, self.size)

    def sort(self) -> None:
        """Each thread finds the place of one position, and reads all rows for it, share by share."""
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
                where = [vectors.index(0), vectors.index(0), arith.index_castui(ir.IndexType.get(), place)]
                for value, memory in zip((own, position), self.frame.scratch[-2:], strict=True):
                    memref.store(value, memory, where)

    def _key(self, share: ir.Value, thread: ir.Value) -> ir.Value:
        """The row that a position chooses, as i32; for positions that there are not, one beyond all."""
        position = numbers.add(numbers.multiply(share, SORT_THREADS), thread)
        safe = numbers.smaller(position, self.count - 1)
        row = arith.index_cast(numbers.i32(), self.row(arith.index_castui(ir.IndexType.get(), safe)))
        return arith.select(numbers.is_below(position, self.count), row, numbers.number(2**31 - 1))


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
