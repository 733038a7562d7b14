"""Kernels that find the stable order of integers in each row: insertion for short rows, else a radix sort by bytes.

A row of n keys of w bytes costs the radix sort n * (1 + w) steps without a branch on data, where a merge sort takes
n * log2(n) of them: 50,257 f32 logits are 5 sweeps instead of 16. A byte that is the same in all keys costs nothing
(the upper ones of small integers). Each block of rows needs two copies of a row's keys and positions as scratch.
"""

from __future__ import annotations

from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref, scf
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.kernel import for_range, open_kernel, scratch_scope
from blu.passes.cpu.others.schedule import SORT_KINDS, InsertionSchedule, RadixSchedule
from blu.passes.kernels.lanes import index
from blu.passes.kernels.schedules import schedule_of

# Rows up to this length are sorted by insertion.
BINS = 256


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The scratch memory of a kernel that is still on tensors: keys, then positions, of two rows for each block."""
    keys = ir.RankedTensorType(operands_of(_find(kernel))[0].type)
    schedule = schedule_of(kernel, SORT_KINDS)
    if not isinstance(schedule, RadixSchedule):
        return []
    shape = [schedule.blocks, 2 * keys.shape[1]]
    return [ir.MemRefType.get(shape, element) for element in (keys.element_type, ir.IntegerType.get_signless(32))]


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Write the positions that sort each row. Blocks are runs of rows."""
    schedule, operation = sort_schedule_of(kernel), _find(kernel)
    assert attributes_of(operation) == {"axis": 1, "descending": False}, "lower_to_linalg gives every sort this form"
    frame = open_kernel(kernel)
    keys, order = frame.buffers[operation.operands[0]], frame.outputs[0][1]
    rows, width = ir.MemRefType(keys.type).shape
    blocks, is_radix = schedule.blocks, isinstance(schedule, RadixSchedule)
    with kernel.location, frame.grid(blocks) as block:
        share = index(ceil(rows / blocks))
        begin = arith.minui(arith.muli(block, share), index(rows))
        scratch = frame.scratch
        if is_radix:
            with scratch_scope(frame.replacement):
                counts = memref.alloca(counts_type(keys), [], [])
        with for_range(begin, arith.minui(arith.addi(begin, share), index(rows))) as row:
            place = row.induction_variable
            if is_radix:
                _sort_row(RadixSort(keys, place, block, *scratch, counts, width), order)
            else:
                insert_all(keys, order, width, place)


def _find(kernel: func.FuncOp) -> ir.Operation:
    return next(item.operation for item in kernel.entry_block.operations if item.operation.name == "blu.argsort")


def sort_schedule_of(kernel: func.FuncOp) -> InsertionSchedule | RadixSchedule:
    """The schedule of a kernel that sorts or selects. PassError where it has none."""
    schedule = schedule_of(kernel, SORT_KINDS)
    assert isinstance(schedule, InsertionSchedule | RadixSchedule), "there is no other kind"
    return schedule


def insert_all(keys: ir.Value, order: ir.Value, width: int, row: ir.Value) -> None:
    """Let each of the first `width` positions sink below those with larger keys; those of equal keys stay in order."""
    i64 = ir.IntegerType.get_signless(64)
    with for_range(0, width) as loop:
        position = loop.induction_variable
        hole = find_place(keys, order, row, position, memref.load(keys, [row, position]))
        memref.store(arith.index_cast(i64, position), order, [row, hole])


def _sort_row(sort: RadixSort, order: ir.Value) -> None:
    """Write the positions of all keys of a row in order."""
    with for_range(0, sort.capacity) as loop:
        place = loop.induction_variable
        key = sort.turned(memref.load(sort.keys, [sort.row, place]))
        sort.put(place, key, arith.index_cast(_i32(), place))
    half = sort.run(index(sort.capacity))
    with for_range(0, sort.capacity) as loop:
        place = memref.load(sort.places, [sort.block, arith.addi(half, loop.induction_variable)])
        wide = arith.extsi(ir.IntegerType.get_signless(64), place)
        memref.store(wide, order, [sort.row, loop.induction_variable])


def find_place(keys: ir.Value, order: ir.Value, row: ir.Value, position: ir.Value, key: ir.Value) -> ir.Value:
    """Move positions of keys larger than `key` up by one, from `position` downwards; where the hole ends up."""
    one, type_ = index(1), ir.IndexType.get()
    loop = scf.WhileOp([type_], [position])
    with ir.InsertionPoint(loop.before.blocks.append(type_)) as point:
        hole = point.block.arguments[0]
        scf.condition(_is_below_larger(keys, order, row, hole, key), [hole])
    with ir.InsertionPoint(loop.after.blocks.append(type_)) as point:
        hole = point.block.arguments[0]
        lower = arith.subi(hole, one)
        memref.store(memref.load(order, [row, lower]), order, [row, hole])
        scf.yield_([lower])
    return loop.results[0]


def _is_below_larger(keys: ir.Value, order: ir.Value, row: ir.Value, hole: ir.Value, key: ir.Value) -> ir.Value:
    """Whether there is a position below the hole and its key is larger."""
    i1 = ir.IntegerType.get_signless(1)
    choice = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ne, hole, index(0)), [i1], has_else=True)
    with ir.InsertionPoint(choice.then_block):
        below = memref.load(order, [row, arith.subi(hole, index(1))])
        other = memref.load(keys, [row, arith.index_cast(ir.IndexType.get(), below)])
        scf.yield_([arith.cmpi(arith.CmpIPredicate.sgt, other, key)])
    with ir.InsertionPoint(choice.else_block):
        scf.yield_([arith.constant(i1, ir.IntegerAttr.get(i1, 0))])
    return choice.results[0]


def num_digits(keys: ir.Value) -> int:
    """How many bytes a key has."""
    return ir.MemRefType(keys.type).element_type.width // 8


def counts_type(keys: ir.Value) -> ir.MemRefType:
    """Memory for how many keys have each value of each byte."""
    return ir.MemRefType.get([num_digits(keys) * BINS], ir.IntegerType.get_signless(32))


@dataclass(frozen=True)
class RadixSort:
    """Sorting keys by one byte after the other, from the lowest, between two halves of the block's scratch rows.

    A half has room for `capacity` keys in `moving`, and for where in the row each comes from in `places`. `counts`
    holds for each byte how many keys have each of its values.
    """

    keys: ir.Value
    row: ir.Value
    block: ir.Value
    moving: ir.Value
    places: ir.Value
    counts: ir.Value
    capacity: int

    def run(self, count: ir.Value) -> ir.Value:
        """Sort the first `count` keys of the first half; where the half begins that then holds them."""
        self._count(count)
        with for_range(0, num_digits(self.keys), carried=[index(0)]) as loop:
            digit, half = loop.induction_variable, loop.inner_iter_args[0]
            scf.yield_([self._unless_all_equal(digit, half, count)])
        return loop.results[0]

    @property
    def element(self) -> ir.IntegerType:
        return ir.MemRefType(self.keys.type).element_type

    def _constant(self, value: int) -> ir.Value:
        return arith.constant(self.element, ir.IntegerAttr.get(self.element, value))

    def turned(self, key: ir.Value) -> ir.Value:
        """A key made to compare as an unsigned number, or back."""
        return arith.xori(key, self._constant(-(1 << (self.element.width - 1))))

    def put(self, target: ir.Value, key: ir.Value, place: ir.Value) -> None:
        """Write a turned key, and where it comes from."""
        memref.store(key, self.moving, [self.block, target])
        memref.store(place, self.places, [self.block, target])

    def _count(self, count: ir.Value) -> None:
        """Count the bytes of the keys in the first half."""
        zero = arith.constant(_i32(), 0)
        with for_range(0, num_digits(self.keys) * BINS) as loop:
            memref.store(zero, self.counts, [loop.induction_variable])
        with for_range(0, count) as loop:
            key = memref.load(self.moving, [self.block, loop.induction_variable])
            for digit in range(num_digits(self.keys)):
                self._next_place(self._slot(key, index(digit)))

    def _slot(self, key: ir.Value, digit: ir.Value) -> ir.Value:
        """Where the count of a key's byte is."""
        bits = arith.muli(digit, index(8))
        shifted = arith.shrui(key, arith.index_cast(self.element, bits))
        byte = arith.index_castui(ir.IndexType.get(), arith.andi(shifted, self._constant(BINS - 1)))
        return arith.addi(arith.muli(digit, index(BINS)), byte)

    def _next_place(self, slot: ir.Value) -> ir.Value:
        """The count in a slot, which grows by one."""
        count = memref.load(self.counts, [slot])
        memref.store(arith.addi(count, arith.constant(_i32(), 1)), self.counts, [slot])
        return count

    def _unless_all_equal(self, digit: ir.Value, half: ir.Value, total: ir.Value) -> ir.Value:
        """Sort by one byte into the other half, unless it is the same in all keys; which half is sorted then."""
        first = memref.load(self.moving, [self.block, half])
        count = memref.load(self.counts, [self._slot(first, digit)])
        all_equal = arith.cmpi(arith.CmpIPredicate.eq, count, arith.index_cast(_i32(), total))
        choice = scf.IfOp(all_equal, [ir.IndexType.get()], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.yield_([half])
        with ir.InsertionPoint(choice.else_block):
            other = arith.subi(index(self.capacity), half)
            self._turn_into_starts(digit)
            self._move(digit, half, other, total)
            scf.yield_([other])
        return choice.results[0]

    def _turn_into_starts(self, digit: ir.Value) -> None:
        """Counts of a byte's values become the places where keys with each value begin."""
        base = arith.muli(digit, index(BINS))
        with for_range(0, BINS, carried=[arith.constant(_i32(), 0)]) as loop:
            slot, start = arith.addi(base, loop.induction_variable), loop.inner_iter_args[0]
            count = memref.load(self.counts, [slot])
            memref.store(start, self.counts, [slot])
            scf.yield_([arith.addi(start, count)])

    def _move(self, digit: ir.Value, half: ir.Value, other: ir.Value, total: ir.Value) -> None:
        with for_range(0, total) as loop:
            source = arith.addi(half, loop.induction_variable)
            key = memref.load(self.moving, [self.block, source])
            target = arith.index_cast(ir.IndexType.get(), self._next_place(self._slot(key, digit)))
            self.put(arith.addi(other, target), key, memref.load(self.places, [self.block, source]))


def _i32() -> ir.IntegerType:
    return ir.IntegerType.get_signless(32)
