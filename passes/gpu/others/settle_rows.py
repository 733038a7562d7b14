"""What is left to do of rows of exponentials that a product has made: in place, some rows by a block.

Nearly all rows only get what belongs at their targets, from one thread. The block forms the logits of the others again,
twice: to find the largest, and for exponentials relative to it. A warp has a logit at a time, and its lanes share what
is multiplied.
"""

from __future__ import annotations

from math import ceil, exp

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, math, memref, vector
from blu.dialects.core.op import operands_of
from blu.dialects.ops.loss import LARGEST_LOSS
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.output import align, can_align
from blu.passes.gpu.gemm.problem import COPY_BYTES
from blu.passes.gpu.isa import vote
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, Thread, repeat, when
from blu.passes.gpu.rows.teams import SLOT_BYTES, Team, merge_lanes
from blu.passes.gpu.shared import SharedMemory, shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.updates import find_operation, rounded, widened, wrapped

THREADS, ROWS = 256, 16
_SLOTS = 4
"""What threads find together: the largest logit, the sum of the others, the target's exponential, and its distance."""


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.settle_rows."""
    operation = find_operation(kernel, "blu.settle_rows")
    frame = GpuKernel.open(kernel)
    rows, _ = ir.RankedTensorType(operation.operands[0].type).shape
    shared = SharedMemory()
    shared.take(_SLOTS * SLOT_BYTES)
    with kernel.location, frame.launch((max(1, ceil(rows / ROWS)),), THREADS, shared.bytes) as here:
        if rows:
            _settle(frame, operation, here, rows)
    return frame.finish()


def _settle(frame: GpuKernel, operation: ir.Operation, here: Thread, rows: int) -> None:
    """Write what belongs to the rows of a block: a thread for each, and the block where one is formed again."""
    thread = numbers.as_number(here.thread)
    first = numbers.multiply(numbers.as_number(here.block[0]), ROWS)
    own = numbers.add(first, numbers.remainder(thread, ROWS))
    exists = numbers.is_below(own, rows)
    row = _Row.of(frame, operation, arith.select(exists, own, numbers.number(0)), thread)
    others = memref.load(row.sums, [row.number])
    is_kept = arith.cmpf(arith.CmpFPredicate.OLE, others, numbers.real(exp(LARGEST_LOSS)))
    with when(arith.andi(arith.andi(exists, is_kept), numbers.is_below(thread, ROWS))):
        row.write(others, arith.addf(others, numbers.real(1.0)), math.log1p(others))
    again = vote.ballot(arith.andi(exists, arith.xori(is_kept, arith.constant(is_kept.type, 1))))

    def form_again(place: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        bit = arith.andi(arith.shrui(again, place), numbers.number(1))  # the same in all warps
        with when(numbers.is_equal(bit, 1)):
            _Row.of(frame, operation, numbers.add(first, place), thread).form_again()
        return []

    repeat(0, ROWS, 1, [], form_again)


@dataclass(frozen=True)
class _Row:
    """A row: `number` and `target` are indices, `thread` an i32; `x` and `w` are what logits are made of."""

    number: ir.Value
    target: ir.Value
    thread: ir.Value
    sums: ir.Value
    x: ir.Value
    w: ir.Value
    results: list[ir.Value]
    team: Team

    @classmethod
    def of(cls, frame: GpuKernel, operation: ir.Operation, number: ir.Value, thread: ir.Value) -> _Row:
        """The row of a number (i32)."""
        _, sums, x, w, targets = (frame.buffers[value] for value in operands_of(operation))
        made, row = dict(frame.outputs), _index(number)
        results = [made[result] for result in operation.results]
        target = wrapped(memref.load(targets, [row]), ir.MemRefType(w.type).shape[0])
        return cls(row, target, thread, sums, x, w, results, Team(THREADS, thread, shared_pointer(frame)))

    def form_again(self) -> None:
        """The row relative to its largest logit, which is not a number if one of them is not."""
        lowest = numbers.real(float("-inf"))
        (largest,) = self._walk([lowest], lambda _, logit, found: [arith.maximumf(found[0], logit)])
        largest = self.team.reduce(largest, arith.maximumf, 0)
        nothing = numbers.real(0.0)
        found = self._walk([nothing] * 3, lambda place, logit, old: self._add(place, logit, largest, old))
        others, own, distance = (self.team.reduce(value, arith.addf, slot + 1) for slot, value in enumerate(found))
        with when(numbers.is_equal(self.thread, 0)):
            total = arith.addf(others, own)
            self.write(others, total, arith.addf(math.log(total), distance))

    def _add(self, place: ir.Value, logit: ir.Value, largest: ir.Value, old: list[ir.Value]) -> list[ir.Value]:
        """Write the exponential of a logit that is not the target's, and add it to the others; keep the target's."""
        term, is_target = math.exp(arith.subf(logit, largest)), arith.cmpi(arith.CmpIPredicate.eq, place, self.target)
        nothing = numbers.real(0.0)
        is_first = numbers.is_equal(self._lane, 0)  # of lanes that have the same logit
        is_other = arith.xori(is_target, arith.constant(is_target.type, 1))
        with when(arith.andi(is_first, is_other)):
            self._put(term, place)
        new = [(is_other, term), (is_target, term), (is_target, arith.subf(largest, logit))]
        terms = [arith.select(arith.andi(is_first, condition), value, nothing) for condition, value in new]
        return [arith.addf(one, other) for one, other in zip(old, terms, strict=True)]

    def _walk(self, start: list[ir.Value], visit) -> list[ir.Value]:
        """Every logit of a warp: `visit(its column, itself, what was found before)` gives what is found then."""
        columns = ir.MemRefType(self.w.type).shape[0]

        def at_column(column: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            place = _index(column)
            return visit(place, self._logit(place), found)

        return repeat(numbers.divide(self.thread, WARP), columns, THREADS // WARP, start, at_column)

    @property
    def _lane(self) -> ir.Value:
        return numbers.remainder(self.thread, WARP)

    def _logit(self, column: ir.Value) -> ir.Value:
        """The product of the row with a row of `w`, which all lanes get."""
        width, lanes = ir.MemRefType(self.w.type).shape[1], self._lanes
        type_ = vectors.vector_type(lanes, numbers.f32())

        def at_depth(depth: ir.Value, total: list[ir.Value]) -> list[ir.Value]:
            own = numbers.add(depth, numbers.multiply(self._lane, lanes))
            exists = numbers.is_below(own, width)
            where = _index(arith.select(exists, own, numbers.number(0)))
            left, right = self._pieces(self.x, self.number, where), self._pieces(self.w, column, where)
            term = arith.select(exists, arith.mulf(left, right), vectors.constant(type_, 0.0))
            return [arith.addf(total[0], term)]

        (total,) = repeat(0, width, WARP * lanes, [vectors.constant(type_, 0.0)], at_depth)
        return Team(WARP, self._lane, None).reduce(merge_lanes(total, arith.addf), arith.addf, 0)

    @property
    def _lanes(self) -> int:
        """Neighbours that a thread reads at a time."""
        wide = COPY_BYTES * 8 // ir.MemRefType(self.w.type).element_type.width
        is_wide = ir.MemRefType(self.w.type).shape[1] % wide == 0
        return wide if is_wide and all(can_align(item, 1, COPY_BYTES) for item in (self.x, self.w)) else 1

    def _pieces(self, buffer: ir.Value, row: ir.Value, first: ir.Value) -> ir.Value:
        """Neighbours of a row, as f32."""
        element = ir.MemRefType(buffer.type).element_type
        loaded = vector.load(vectors.vector_type(self._lanes, element), buffer, [row, first])
        align(loaded.owner)
        return widened(loaded)

    def _put(self, term: ir.Value, place: ir.Value) -> None:
        element = ir.MemRefType(self.results[0].type).element_type
        memref.store(rounded(term, element), self.results[0], [self.number, place])

    def write(self, others: ir.Value, total: ir.Value, loss: ir.Value) -> None:
        """What belongs at the target, the sum and the loss."""
        self._put(arith.negf(others), self.target)
        memref.store(total, self.results[1], [self.number])
        memref.store(loss, self.results[2], [self.number])


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)
