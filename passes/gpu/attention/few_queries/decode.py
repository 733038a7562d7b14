"""Attention of few queries, as when text is generated: the warps of a block share out the keys of a head.

A warp takes the keys of a head in turn with the others, as many at a time as have room side by side in its lanes: a few
lanes share a row, each with pieces of it in registers, as they share the row of results. Products with the query are
summed over these lanes. At the end the lanes' results are added, then those of the warps in shared memory, in order.

Where there are fewer queries than processors, the blocks of a cluster share out the keys (Hopper): one processor would
read them all alone. What each has found goes to the shared memory of the first one, which adds it up in order.
"""

from __future__ import annotations

from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.few_queries.inserted_rows import InsertedRows, caches_of, inserted_rows_of
from blu.passes.gpu.attention.few_queries.shares import PIECE, LaneColumns, Shares
from blu.passes.gpu.attention.few_queries.walk import CacheWalk, exponent_unit, merge
from blu.passes.gpu.attention.operands import (
    AttentionOperand,
    HeadMatrix,
    Problem,
    operand_of,
    read_problem,
    split_head,
)
from blu.passes.gpu.attention.schedule import FewQueriesSchedule
from blu.passes.gpu.isa import barrier, cluster, shared_memory, shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, Thread, small_grid, when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.launch import READS_EARLY
from blu.passes.kernels.updates import find_operation

FEW_QUERIES = 8
"""Up to so many queries are done one by one: products of matrices would be mostly of nothing."""

LARGEST_ROW = 256
_ROOM = {512: 32, 768: 16, 1024: 8}
"""By how many threads a processor has, if all blocks are there at once: registers of each for what it reads."""
NUMBERS = 2
"""What a warp leaves beside its results: the largest score and the sum of weights."""


def suits(operation: ir.Operation) -> bool:
    """Whether a blu.attention has few queries, and rows that lanes can share."""
    query, key, value = (ir.RankedTensorType(item.type).shape for item in operands_of(operation)[:3])
    return query[-2] <= FEW_QUERIES and query[-1] == value[-1] and query[-1] % PIECE == 0 and key[-2] > 0


def emit(kernel: func.FuncOp, schedule: FewQueriesSchedule, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention that suits, of 16-bit or 32-bit floats."""
    operation = find_operation(kernel, "blu.attention")
    frame = GpuKernel.open(kernel)
    query = ir.RankedTensorType(operands_of(operation)[0].type).shape
    count = max(1, prod(query[:-1])) * schedule.blocks
    warps, shares, memory = schedule.warps, Shares.of(query[-1]), SharedMemory()
    start = memory.take(warps * (shares.columns + NUMBERS) * 4)
    found = memory.take(schedule.blocks * (NUMBERS + 1) * shares.columns * 4 if schedule.blocks > 1 else 0)
    hints, room = small_grid(count, warps * WARP, target), _room(count, warps, target)
    with operation.location, frame.launch((count,), warps * WARP, memory.bytes, schedule.blocks, **hints) as here:
        frame.replacement.attributes[READS_EARLY] = ir.UnitAttr.get()
        if prod(query):
            problem, new = read_problem(operation, frame, caches_of(operation)), inserted_rows_of(operation, frame)
            shared = shared_address(frame)
            places = numbers.number(numbers.add(shared, start)), numbers.number(numbers.add(shared, found))
            Decode(problem, new, shares, schedule, operand_of(frame.outputs[0][1]), room, *places).emit(here)
    return frame.finish()


def _room(blocks: int, warps: int, target: GpuTarget) -> int:
    """Registers of a thread for what it reads at a time: twice as many are taken, of those that it may have."""
    threads = -(-blocks // target.processors) * warps * WARP
    return next((room for most, room in _ROOM.items() if threads <= most), 16)


@dataclass(frozen=True)
class Decode:
    """Emits one kernel: a block, or a cluster of them, for each query of each head.

    Warps leave what they have found at `shared`, blocks at `found` of the first one of their cluster. A thread has
    `room` registers for keys and values.
    """

    problem: Problem
    new: InsertedRows | None
    shares: Shares
    schedule: FewQueriesSchedule
    output: AttentionOperand
    room: int
    shared: ir.Value
    found: ir.Value

    @property
    def warps(self) -> int:
        return self.schedule.warps

    @property
    def blocks(self) -> int:
        return self.schedule.blocks

    def emit(self, here: Thread) -> None:
        """What one thread does. What it reads of the cache first comes first: that need not wait for the query."""
        shares = self.shares
        thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
        rank, block = numbers.remainder(block, self.blocks), numbers.divide(block, self.blocks)
        own, *head = reversed(split_head(block, (*self.problem.heads, self.problem.queries)))
        head.reverse()
        group, lane = numbers.divide(thread, shares.lanes), numbers.remainder(thread, shares.lanes)
        if self.blocks > 1:
            group = numbers.add(numbers.multiply(rank, self.warps * shares.rows), group)
        columns, warps = LaneColumns.of(shares, lane), self.blocks * self.warps
        walk = CacheWalk(self.problem, self.new, columns, warps, self.room, head, own, group)
        first = walk.begin()
        if self.blocks > 1:
            barrier.cluster_arrive()
        carried = walk.emit(first)
        for distance in (1 << bit for bit in range(5) if 1 << bit >= shares.lanes):
            carried = merge([carried, [shfl.bfly(item, distance) for item in carried]], exponent_unit(self.problem))
        with when(numbers.is_below(numbers.remainder(thread, WARP), shares.lanes)):
            self._leave(numbers.divide(thread, WARP), walk.columns, carried)
        barrier.sync()
        if self.blocks == 1:
            with when(numbers.is_below(thread, shares.columns)):
                self._write(self._of_warps(thread), self.output.matrix(head), own, thread)
            return
        barrier.cluster_wait()  # all blocks have begun
        with when(numbers.is_below(thread, shares.columns)):
            self._send(self._of_warps(thread), rank, thread)
        barrier.cluster_sync()
        is_first = numbers.is_equal(rank, 0)
        with when(arith.andi(is_first, numbers.is_below(thread, shares.columns))):
            self._write(self._of_blocks(thread), self.output.matrix(head), own, thread)

    def _at(self, own_warp: Number, column: Number) -> ir.Value:
        """The shared address of a number that a warp leaves: its results, the largest score, the sum."""
        place = numbers.add(numbers.multiply(own_warp, self.shares.columns + NUMBERS), column)
        return numbers.number(numbers.add(self.shared, numbers.multiply(place, 4)))

    def _leave(self, own_warp: ir.Value, columns: LaneColumns, carried: list[ir.Value]) -> None:
        width = self.shares.columns
        largest, total, *results = (arith.bitcast(numbers.i32(), item) for item in carried)
        for number, first in enumerate(columns.firsts):
            with when(numbers.is_below(first, width)):
                for place, item in enumerate(results[number * PIECE : (number + 1) * PIECE]):
                    shared_memory.st(self._at(own_warp, first), 4 * place, [item])
        # All lanes of a row have the same two numbers.
        for place, item in enumerate((largest, total)):
            shared_memory.st(self._at(own_warp, width), 4 * place, [item])

    def _of_warps(self, column: ir.Value) -> list[ir.Value]:
        """One column of the result from what the warps have left, with the largest score and the sum of weights."""
        width = self.shares.columns
        return merge([
            [*shared_memory.ld(self._at(number, width), 0, 1, numbers.f32()),
             *shared_memory.ld(self._at(number, width), 4, 1, numbers.f32()),
             *shared_memory.ld(self._at(number, column), 0, 1, numbers.f32())]
            for number in range(self.warps)
        ], exponent_unit(self.problem))  # fmt: skip

    def _send(self, found: list[ir.Value], rank: ir.Value, column: ir.Value) -> None:
        """Let the first block of the cluster have a column of this one."""
        own = numbers.add(numbers.multiply(rank, len(found) * self.shares.columns), column)
        own = numbers.number(numbers.add(self.found, numbers.multiply(own, 4)))
        there = cluster.mapa(own, numbers.number(0))
        for place, item in enumerate(found):
            cluster.st(there, 4 * place * self.shares.columns, item)

    def _of_blocks(self, column: ir.Value) -> list[ir.Value]:
        """The same as `_of_warps`, from what the blocks have sent."""
        start, count = numbers.number(numbers.add(self.found, numbers.multiply(column, 4))), NUMBERS + 1
        words = [shared_memory.ld(start, 4 * place * self.shares.columns, 1, numbers.f32())[0]
                 for place in range(self.blocks * count)]  # fmt: skip
        return merge(
            [words[place : place + count] for place in range(0, len(words), count)], exponent_unit(self.problem)
        )

    def _write(self, found: list[ir.Value], output: HeadMatrix, row: ir.Value, column: ir.Value) -> None:
        _, total, result = found
        is_empty = arith.cmpf(arith.CmpFPredicate.OEQ, total, numbers.real(0))
        output.store(arith.select(is_empty, numbers.real(0), arith.divf(result, total)), row, column)
