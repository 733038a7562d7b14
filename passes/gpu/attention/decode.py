"""Attention of few queries, as when text is generated: the warps of a block share out the keys of a head.

A warp takes the keys of a head in turn with the others, as many at a time as have room side by side in its lanes: a few
lanes share a row, each with pieces of it in registers, as they share the row of results. Products with the query are
summed over these lanes. At the end the lanes' results are added, then those of the warps in shared memory, in order.

Where there are fewer queries than processors, the blocks of a cluster share out the keys (Hopper): one processor would
read them all alone. What each has found goes to the shared memory of the first one, which adds it up in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from blu.dialects.core.mlir import arith, func, ir, llvm, math, scf
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import (
    AttentionOperand,
    HeadMatrix,
    Problem,
    operand_of,
    pointer,
    read_problem,
    split_head,
)
from blu.passes.gpu.attention.schedule import FewQueriesSchedule
from blu.passes.gpu.attention.scores import LOG2_E
from blu.passes.gpu.isa import approx, barrier, cluster, shared_memory, shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, Thread, small_grid, when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.updates import find_operation

FEW_QUERIES = 8
"""Up to so many queries are done one by one: products of matrices would be mostly of nothing."""

LARGEST_ROW = 256
PIECE = 8
"""Columns that a lane holds of a row, or a multiple of it where rows are long."""
NUMBERS = 2
"""What a warp leaves beside its results: the largest score and the sum of weights."""


def suits(operation: ir.Operation) -> bool:
    """Whether a blu.attention has few queries, and rows that lanes can share."""
    query, key, value = (ir.RankedTensorType(item.type).shape for item in operands_of(operation)[:3])
    return query[-2] <= FEW_QUERIES and query[-1] == value[-1] and query[-1] % PIECE == 0 and key[-2] > 0


@dataclass(frozen=True)
class Shares:
    """How rows of `columns` lie in a warp: `lanes` to a row, each with `pieces` pieces of 8 columns."""

    columns: int
    lanes: int
    pieces: int

    @classmethod
    def of(cls, columns: int) -> Shares:
        """Up to 8 lanes to a row, a power of two; the last may have nothing to do."""
        count = columns // PIECE
        lanes = min(8, 1 << (count - 1).bit_length())
        return cls(columns, lanes, -(-count // lanes))

    @property
    def rows(self) -> int:
        """Rows side by side in a warp."""
        return WARP // self.lanes

    @property
    def ahead(self) -> int:
        """Keys whose loads a group of lanes has under way at a time."""
        return max(1, 4 // self.pieces)


def emit(kernel: func.FuncOp, schedule: FewQueriesSchedule, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention that suits, of 16-bit or 32-bit floats."""
    operation = find_operation(kernel, "blu.attention")
    operands = operands_of(operation)
    frame = GpuKernel.open(kernel)
    query = ir.RankedTensorType(operands[0].type).shape
    count = max(1, prod(query[:-1])) * schedule.blocks
    warps, shares, memory = schedule.warps, Shares.of(query[-1]), SharedMemory()
    start = memory.take(warps * (shares.columns + NUMBERS) * 4)
    found = memory.take(schedule.blocks * (NUMBERS + 1) * shares.columns * 4 if schedule.blocks > 1 else 0)
    room = small_grid(count, warps * WARP, target)
    with operation.location, frame.launch((count,), warps * WARP, memory.bytes, schedule.blocks, **room) as here:
        if prod(query):
            problem = read_problem(operation, frame, operands)
            shared = shared_address(frame)
            places = numbers.number(numbers.add(shared, start)), numbers.number(numbers.add(shared, found))
            Decode(problem, shares, schedule, operand_of(frame.outputs[0][1]), *places).emit(here)
    return frame.finish()


@dataclass(frozen=True)
class Decode:
    """Emits one kernel: a block, or a cluster of them, for each query of each head.

    Warps leave what they have found at `shared`, blocks at `found` of the first one of their cluster.
    """

    problem: Problem
    shares: Shares
    schedule: FewQueriesSchedule
    output: AttentionOperand
    shared: ir.Value
    found: ir.Value

    @property
    def warps(self) -> int:
        return self.schedule.warps

    @property
    def blocks(self) -> int:
        return self.schedule.blocks

    def emit(self, here: Thread) -> None:
        """What one thread does."""
        problem, shares = self.problem, self.shares
        if self.blocks > 1:
            barrier.cluster_arrive()
        thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
        rank, block = numbers.remainder(block, self.blocks), numbers.divide(block, self.blocks)
        own, *head = reversed(split_head(block, (*problem.heads, problem.queries)))
        head.reverse()
        group, lane = numbers.divide(thread, shares.lanes), numbers.remainder(thread, shares.lanes)
        if self.blocks > 1:
            group = numbers.add(numbers.multiply(rank, self.warps * shares.rows), group)
        columns = [numbers.multiply(numbers.add(numbers.multiply(lane, shares.pieces), piece), PIECE)
                   for piece in range(shares.pieces)]  # fmt: skip
        scale = numbers.real(problem.factor * LOG2_E)
        query = [arith.mulf(item, scale) for item in self._row(problem.query.matrix(head), own, columns)]
        carried = self._walk(head, own, group, columns, query)
        for distance in (1 << bit for bit in range(5) if 1 << bit >= shares.lanes):
            carried = _merge([carried, [shfl.bfly(item, distance) for item in carried]])
        with when(numbers.is_below(numbers.remainder(thread, WARP), shares.lanes)):
            self._leave(numbers.divide(thread, WARP), columns, carried)
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

    def _walk(
        self, head: Sequence[ir.Value], own: ir.Value, group: ir.Value, columns: list[Number], query: list[ir.Value]
    ) -> list[ir.Value]:
        """The largest score, the sum of weights, and results of the keys of a group of lanes."""
        problem, groups = self.problem, self.blocks * self.warps * self.shares.rows
        key_head = problem.key_head(head)
        keys, values = problem.key.matrix(key_head), problem.value.matrix(key_head)
        limit = numbers.number(problem.limit(own))
        start = [numbers.real(-inf), numbers.real(0), *[numbers.real(0)] * len(query)]
        loop = scf.ForOp(numbers.number(0), limit, numbers.number(groups * self.shares.ahead), start)
        with ir.InsertionPoint(loop.body):
            first = numbers.add(loop.induction_variable, group)
            places = [numbers.add(first, number * groups) for number in range(self.shares.ahead)]
            present = [numbers.is_below(place, limit) for place in places]
            safe = [
                arith.select(is_key, place, numbers.number(0)) for is_key, place in zip(present, places, strict=True)
            ]
            rows = [[self._row(matrix, place, columns) for place in safe] for matrix in (keys, values)]
            scores = [
                arith.select(is_key, self._masked(self._product(query, key), head, own, place), numbers.real(-inf))
                for is_key, key, place in zip(present, rows[0], safe, strict=True)
            ]
            single = [[score, numbers.real(1), *value] for score, value in zip(scores, rows[1], strict=True)]
            scf.yield_(_merge([list(loop.inner_iter_args), *single]))
        return list(loop.results)

    def _row(self, matrix: HeadMatrix, row: Number, columns: list[Number]) -> list[ir.Value]:
        """A lane's elements of a row, as f32; 0 for columns that are not there."""
        found: list[ir.Value] = []
        for first in columns:
            present = numbers.is_below(first, self.shares.columns)
            safe = arith.select(present, numbers.number(first), numbers.number(0))
            found += [arith.select(present, item, numbers.real(0)) for item in self._piece(matrix, row, safe)]
        return found

    def _piece(self, matrix: HeadMatrix, row: Number, first: ir.Value) -> list[ir.Value]:
        if not matrix.is_aligned or matrix.constant is not None:
            return [_wide(matrix.load(row, numbers.add(first, place))) for place in range(PIECE)]
        count = 16 // matrix.size
        type_ = ir.VectorType.get([count], matrix.element)
        found = []
        for place in range(0, PIECE, count):
            loaded = llvm.load(type_, pointer(matrix.address(row, numbers.add(first, place))), alignment=16)
            found += [_wide(llvm.extractelement(loaded, numbers.number(at))) for at in range(count)]
        return found

    def _product(self, query: list[ir.Value], key: list[ir.Value]) -> ir.Value:
        """The sum of products over the lanes that share a row."""
        chains = [numbers.real(0)] * 4
        for place, pair in enumerate(zip(query, key, strict=True)):
            chains[place % 4] = math.fma(*pair, chains[place % 4])
        total = arith.addf(arith.addf(chains[0], chains[1]), arith.addf(chains[2], chains[3]))
        distance = 1
        while distance < self.shares.lanes:
            total = arith.addf(total, shfl.bfly(total, distance))
            distance *= 2
        return total

    def _masked(self, score: ir.Value, head: Sequence[ir.Value], query: ir.Value, key: ir.Value) -> ir.Value:
        mask = self.problem.mask
        if mask is None:
            return score
        matrix = mask.matrix(head)
        place = [0 if size == 1 else at for at, size in zip((query, key), matrix.shape, strict=True)]
        read = matrix.load(place[0], place[1])
        if isinstance(matrix.element, ir.IntegerType):
            return arith.select(arith.trunci(ir.IntegerType.get_signless(1), read), score, numbers.real(-inf))
        return math.fma(_wide(read), numbers.real(LOG2_E), score)

    def _at(self, own_warp: Number, column: Number) -> ir.Value:
        """The shared address of a number that a warp leaves: its results, the largest score, the sum."""
        place = numbers.add(numbers.multiply(own_warp, self.shares.columns + NUMBERS), column)
        return numbers.number(numbers.add(self.shared, numbers.multiply(place, 4)))

    def _leave(self, own_warp: ir.Value, columns: list[Number], carried: list[ir.Value]) -> None:
        width = self.shares.columns
        largest, total, *results = (arith.bitcast(numbers.i32(), item) for item in carried)
        for number, first in enumerate(columns):
            with when(numbers.is_below(first, width)):
                for place, item in enumerate(results[number * PIECE : (number + 1) * PIECE]):
                    shared_memory.st(self._at(own_warp, first), 4 * place, [item])
        # All lanes of a row have the same two numbers.
        for place, item in enumerate((largest, total)):
            shared_memory.st(self._at(own_warp, width), 4 * place, [item])

    def _of_warps(self, column: ir.Value) -> list[ir.Value]:
        """One column of the result from what the warps have left, with the largest score and the sum of weights."""
        width = self.shares.columns
        return _merge([
            [*shared_memory.ld(self._at(number, width), 0, 1, numbers.f32()),
             *shared_memory.ld(self._at(number, width), 4, 1, numbers.f32()),
             *shared_memory.ld(self._at(number, column), 0, 1, numbers.f32())]
            for number in range(self.warps)
        ])  # fmt: skip

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
        return _merge([words[place : place + count] for place in range(0, len(words), count)])

    def _write(self, found: list[ir.Value], output: HeadMatrix, row: ir.Value, column: ir.Value) -> None:
        _, total, result = found
        is_empty = arith.cmpf(arith.CmpFPredicate.OEQ, total, numbers.real(0))
        output.store(arith.select(is_empty, numbers.real(0), arith.divf(result, total)), row, column)


def _merge(parts: list[list[ir.Value]]) -> list[ir.Value]:
    """The running softmax of several: each is the largest score, the sum of weights, and sums of weighted values."""
    largest = parts[0][0]
    for part in parts[1:]:
        largest = arith.maxnumf(largest, part[0])
    merged: list[ir.Value] = []
    for part in parts:
        weight = _weight(part[0], largest)
        if not merged:
            merged = [arith.mulf(item, weight) for item in part[1:]]
        else:
            merged = [math.fma(item, weight, total) for item, total in zip(part[1:], merged, strict=True)]
    return [largest, *merged]


def _weight(score: ir.Value, largest: ir.Value) -> ir.Value:
    """2 ** (score - largest), 0 where there is no score yet."""
    is_none = arith.cmpf(arith.CmpFPredicate.OEQ, largest, numbers.real(-inf))
    finite = arith.select(is_none, numbers.real(0), largest)
    return approx.ex2(arith.subf(score, finite))


def _wide(value: ir.Value) -> ir.Value:
    return value if isinstance(value.type, ir.F32Type) else arith.extf(numbers.f32(), value)
