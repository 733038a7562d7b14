"""Kernels that find the k smallest integers of each row, in order, in one walk over the row.

A key that is not below the k-th smallest so far is passed over, several at a time. For small k a key that is below is
put into its place among those. For larger k it is collected, with at least as many others, until all of them and the k
smallest so far are sorted together, of which the first k are kept: what a key costs does not grow with the row.
Of equal keys the first is kept, since only smaller ones come in later.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref, scf, vector
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.kernel import for_range, open_kernel, scratch_scope
from blu.passes.cpu.others.schedule import RadixSchedule
from blu.passes.cpu.others.sorting import RadixSort, counts_type, find_place, insert_all, sort_schedule_of
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.updates import find_operation

# Keys are collected at least so many at a time.
COLLECTED = 1024
# Vector registers of keys that are passed over together.
TOGETHER = 4

# What the k smallest so far are followed by, and the k-th smallest.
State = list[ir.Value]


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The scratch memory of a kernel that is still on tensors: keys, then positions, in two halves for each block."""
    operation = find_operation(kernel, "blu.arg_top_k")
    keys, count = ir.RankedTensorType(operands_of(operation)[0].type), attributes_of(operation)["k"]
    schedule = sort_schedule_of(kernel)
    if not isinstance(schedule, RadixSchedule):
        return []
    shape = [schedule.blocks, 2 * _capacity(count, keys.shape[1])]
    return [ir.MemRefType.get(shape, element) for element in (keys.element_type, ir.IntegerType.get_signless(32))]


def _capacity(count: int, width: int) -> int:
    """How many keys are sorted together: those that are kept, and those that have been collected."""
    return min(width, count + max(count, COLLECTED))


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Write the positions of the k smallest of each row. Blocks are runs of rows."""
    schedule, operation = sort_schedule_of(kernel), find_operation(kernel, "blu.arg_top_k")
    attributes = attributes_of(operation)
    assert not attributes["largest"], "lower_to_linalg gives every selection this form"
    frame = open_kernel(kernel)
    keys, order, count = frame.buffers[operands_of(operation)[0]], frame.outputs[0][1], attributes["k"]
    rows, width = ir.MemRefType(keys.type).shape
    scratch, is_radix = frame.scratch, isinstance(schedule, RadixSchedule)
    lanes = TOGETHER * target.lanes(ir.MemRefType(keys.type).element_type.width // 8)
    with kernel.location, frame.grid(schedule.blocks) as block:
        share = vectors.index(ceil(rows / schedule.blocks))
        begin = arith.minui(arith.muli(block, share), vectors.index(rows))
        if is_radix:
            with scratch_scope(frame.replacement):
                counts = memref.alloca(counts_type(keys), [], [])
        with for_range(begin, arith.minui(arith.addi(begin, share), vectors.index(rows))) as loop:
            row = loop.induction_variable
            if is_radix:
                capacity = _capacity(count, width)
                sort = RadixSort(keys, row, block, *scratch, counts, capacity)
                _Collected(keys, order, row, width, count, lanes, sort).emit()
            else:
                _Inserted(keys, order, row, width, count, lanes).emit()


@dataclass(frozen=True)
class _Selection:
    """The k smallest of one row."""

    keys: ir.Value
    order: ir.Value
    row: ir.Value
    width: int
    count: int
    lanes: int

    def key(self, place: ir.Value) -> ir.Value:
        return memref.load(self.keys, [self.row, place])

    def walk(self, begin: int, state: State, take: Callable[[ir.Value, ir.Value, State], State]) -> State:
        """Look at all keys from `begin` on; `take(place, key, state)` those below the k-th smallest, `state[-1]`."""
        if self.width < self.lanes:
            return self._each(vectors.index(begin), vectors.index(self.width), state, take)
        with for_range(begin, self.width, self.lanes, carried=state) as loop:
            first, before = loop.induction_variable, list(loop.inner_iter_args)
            choice = scf.IfOp(self._some_are_below(first, before[-1]), [item.type for item in before], has_else=True)
            with ir.InsertionPoint(choice.then_block):
                end = arith.minui(vectors.offset(first, self.lanes), vectors.index(self.width))
                scf.yield_(self._each(first, end, before, take))
            with ir.InsertionPoint(choice.else_block):
                scf.yield_(before)
            scf.yield_(list(choice.results))
        return list(loop.results)

    def _some_are_below(self, first: ir.Value, limit: ir.Value) -> ir.Value:
        """Whether any of the next keys may be below; the last ones of a row are looked at with some before them."""
        place = arith.minui(first, vectors.index(self.width - self.lanes))
        keys = vectors.load(self.keys, [self.row, place], self.lanes)
        below = arith.cmpi(arith.CmpIPredicate.slt, keys, vectors.splat(limit, self.lanes))
        return vector.reduction(ir.IntegerType.get_signless(1), vector.CombiningKind.OR, below)

    def _each(self, begin: ir.Value, end: ir.Value, state: State, take: Callable) -> State:
        with for_range(begin, end, carried=state) as loop:
            place, before = loop.induction_variable, list(loop.inner_iter_args)
            key = self.key(place)
            is_below = arith.cmpi(arith.CmpIPredicate.slt, key, before[-1])
            choice = scf.IfOp(is_below, [item.type for item in before], has_else=True)
            with ir.InsertionPoint(choice.then_block):
                scf.yield_(take(place, key, before))
            with ir.InsertionPoint(choice.else_block):
                scf.yield_(before)
            scf.yield_(list(choice.results))
        return list(loop.results)


@dataclass(frozen=True)
class _Inserted(_Selection):
    """With few to keep: in order from the beginning."""

    def emit(self) -> None:
        insert_all(self.keys, self.order, self.count, self.row)
        self.walk(self.count, [self._last()], self._take)

    def _last(self) -> ir.Value:
        """The k-th smallest key so far."""
        position = memref.load(self.order, [self.row, vectors.index(self.count - 1)])
        return self.key(arith.index_cast(ir.IndexType.get(), position))

    def _take(self, place: ir.Value, key: ir.Value, state: State) -> State:
        """Put a key into its place; the last one falls off."""
        last = vectors.index(self.count - 1)
        hole = find_place(self.keys, self.order, self.row, last, key)
        memref.store(arith.index_cast(ir.IntegerType.get_signless(64), place), self.order, [self.row, hole])
        return [self._last()]


@dataclass(frozen=True)
class _Collected(_Selection):
    """With many to keep: collected until there is no more room, then sorted."""

    sort: RadixSort

    def emit(self) -> None:
        capacity = self.sort.capacity
        with for_range(0, capacity) as loop:
            self._collect(loop.induction_variable, loop.induction_variable, self.key(loop.induction_variable))
        held = vectors.index(capacity)
        if capacity < self.width:
            held, _ = self.walk(capacity, [vectors.index(self.count), self._keep()], self._take)
        half = self.sort.run(held)
        with for_range(0, self.count) as loop:
            place = memref.load(self.sort.places, [self.sort.block, arith.addi(half, loop.induction_variable)])
            wide = arith.extsi(ir.IntegerType.get_signless(64), place)
            memref.store(wide, self.order, [self.row, loop.induction_variable])

    def _collect(self, slot: ir.Value, place: ir.Value, key: ir.Value) -> None:
        self.sort.put(slot, self.sort.turned(key), arith.index_cast(ir.IntegerType.get_signless(32), place))

    def _take(self, place: ir.Value, key: ir.Value, state: State) -> State:
        held, last = state
        self._collect(held, place, key)
        held = vectors.offset(held, 1)
        is_full = arith.cmpi(arith.CmpIPredicate.eq, held, vectors.index(self.sort.capacity))
        choice = scf.IfOp(is_full, [held.type, last.type], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.yield_([vectors.index(self.count), self._keep()])
        with ir.InsertionPoint(choice.else_block):
            scf.yield_([held, last])
        return list(choice.results)

    def _keep(self) -> ir.Value:
        """Sort all that is held and keep the first k, in the first half; the k-th of them."""
        half = self.sort.run(vectors.index(self.sort.capacity))
        moved = arith.cmpi(arith.CmpIPredicate.ne, half, vectors.index(0))
        choice = scf.IfOp(moved)
        with ir.InsertionPoint(choice.then_block):
            with for_range(0, self.count) as loop:
                source = arith.addi(half, loop.induction_variable)
                moved_from = (self.sort.moving, self.sort.places)
                key, place = (memref.load(memory, [self.sort.block, source]) for memory in moved_from)
                self.sort.put(loop.induction_variable, key, place)
            scf.yield_([])
        return self.sort.turned(memref.load(self.sort.moving, [self.sort.block, vectors.index(self.count - 1)]))
