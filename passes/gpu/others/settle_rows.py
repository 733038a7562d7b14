"""What is left to do of rows of exponentials that a product has made: in place, a block for each row.

Nearly all rows only get what belongs at their targets, from one thread. The block forms the logits of the others again,
twice: to find the largest, and for exponentials relative to it.
"""

from __future__ import annotations

from math import exp

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, math, memref, scf
from blu.dialects.core.op import operands_of
from blu.dialects.ops.loss import LARGEST_LOSS
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.kernel import GpuKernel, Thread, repeat, when
from blu.passes.gpu.rows.teams import SLOT_BYTES, Team
from blu.passes.gpu.shared import SharedMemory, shared_pointer
from blu.passes.kernels.updates import find_operation, rounded, widened, wrapped

THREADS = 256
_SLOTS = 4
"""What threads find together: the largest logit, the sum of the others, the target's exponential, and its distance."""


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.settle_rows."""
    operation = find_operation(kernel, "blu.settle_rows")
    frame = GpuKernel.open(kernel)
    rows, _ = ir.RankedTensorType(operation.operands[0].type).shape
    shared = SharedMemory()
    shared.take(_SLOTS * SLOT_BYTES)
    with kernel.location, frame.launch((max(1, rows),), THREADS, shared.bytes) as here:
        if rows:
            _Row.of(frame, operation, here).settle()
    return frame.finish()


@dataclass(frozen=True)
class _Row:
    """A block's row: `number` and `target` are indices, `thread` an i32; `x` and `w` are what logits are made of."""

    number: ir.Value
    target: ir.Value
    thread: ir.Value
    sums: ir.Value
    x: ir.Value
    w: ir.Value
    results: list[ir.Value]
    team: Team

    @classmethod
    def of(cls, frame: GpuKernel, operation: ir.Operation, here: Thread) -> _Row:
        """The row of a block."""
        _, sums, x, w, targets = (frame.buffers[value] for value in operands_of(operation))
        made = dict(frame.outputs)
        results = [made[result] for result in operation.results]
        (row,), thread = here.block, numbers.as_number(here.thread)
        target = wrapped(memref.load(targets, [row]), ir.MemRefType(w.type).shape[0])
        team = Team(THREADS, thread, shared_pointer(frame))
        return cls(row, target, thread, sums, x, w, results, team)

    def settle(self) -> None:
        """Write what belongs to the row."""
        others = memref.load(self.sums, [self.number])
        limit = numbers.real(exp(LARGEST_LOSS))
        branch = scf.IfOp(arith.cmpf(arith.CmpFPredicate.OLE, others, limit), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            with when(numbers.is_equal(self.thread, 0)):
                self._write(others, arith.addf(others, numbers.real(1.0)), math.log1p(others))
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            self._form_again()
            scf.yield_([])

    def _form_again(self) -> None:
        """The row relative to its largest logit, which is not a number if one of them is not."""
        lowest = numbers.real(float("-inf"))
        (largest,) = self._walk([lowest], lambda _, logit, found: [arith.maximumf(found[0], logit)])
        largest = self.team.reduce(largest, arith.maximumf, 0)
        nothing = numbers.real(0.0)
        found = self._walk([nothing] * 3, lambda place, logit, old: self._add(place, logit, largest, old))
        others, own, distance = (self.team.reduce(value, arith.addf, slot + 1) for slot, value in enumerate(found))
        with when(numbers.is_equal(self.thread, 0)):
            total = arith.addf(others, own)
            self._write(others, total, arith.addf(math.log(total), distance))

    def _add(self, place: ir.Value, logit: ir.Value, largest: ir.Value, old: list[ir.Value]) -> list[ir.Value]:
        """Write the exponential of a logit that is not the target's, and add it to the others; keep the target's."""
        term, is_target = math.exp(arith.subf(logit, largest)), arith.cmpi(arith.CmpIPredicate.eq, place, self.target)
        nothing = numbers.real(0.0)
        with when(arith.xori(is_target, arith.constant(is_target.type, 1))):
            self._put(term, place)
        new = [
            arith.select(is_target, nothing, term),
            arith.select(is_target, term, nothing),
            arith.select(is_target, arith.subf(largest, logit), nothing),
        ]
        return [arith.addf(one, other) for one, other in zip(old, new, strict=True)]

    def _walk(self, start: list[ir.Value], visit) -> list[ir.Value]:
        """Every logit of a thread: `visit(its column, itself, what was found before)` gives what is found then."""
        columns, width = ir.MemRefType(self.w.type).shape

        def at_column(column: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            place = arith.index_castui(ir.IndexType.get(), column)

            def at_depth(depth: ir.Value, total: list[ir.Value]) -> list[ir.Value]:
                where = arith.index_castui(ir.IndexType.get(), depth)
                left, right = memref.load(self.x, [self.number, where]), memref.load(self.w, [place, where])
                return [arith.addf(total[0], arith.mulf(widened(left), widened(right)))]

            (logit,) = repeat(0, width, 1, [numbers.real(0.0)], at_depth)
            return visit(place, logit, found)

        return repeat(self.thread, columns, THREADS, start, at_column)

    def _put(self, term: ir.Value, place: ir.Value) -> None:
        element = ir.MemRefType(self.results[0].type).element_type
        memref.store(rounded(term, element), self.results[0], [self.number, place])

    def _write(self, others: ir.Value, total: ir.Value, loss: ir.Value) -> None:
        self._put(arith.negf(others), self.target)
        memref.store(total, self.results[1], [self.number])
        memref.store(loss, self.results[2], [self.number])
