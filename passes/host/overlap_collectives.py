"""The pass that lets kernels run while ranks exchange data."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import batch_of
from blu.passes.framework.base import Pass
from blu.passes.framework.launches import host_functions

START, WAIT = "plan.start", "plan.wait"


@dataclass(frozen=True)
class OverlapCollectives(Pass):
    """A collective begins right after what it reads is made, and is waited for right before anyone needs its memory.

        call @gemm_0(.., %gradient)
        call @gemm_1(.., %other)
        %token = plan.start(%gradient, %total) {kind = "all_reduce"}
        plan.wait(%token, %gradient, %total)
        call @gemm_2(.., %third)
        call @rows_0(%total)

    becomes

        call @gemm_0(.., %gradient)
        %token = plan.start(%gradient, %total) {kind = "all_reduce"}
        call @gemm_1(.., %other)
        call @gemm_2(.., %third)
        plan.wait(%token, %gradient, %total)
        call @rows_0(%total)

    Collectives begin in the order in which they were written, which is the same on all ranks. Buffers live as long as
    a collective has them, so that `blu-plan-memory`, which comes after this, gives their memory to nobody else. The
    options leave the one or the other end where it is, to measure what that is worth.
    """

    level = "memref"
    begins_early: bool = True
    waits_late: bool = True

    def run(self, module: ir.Module) -> None:
        for function in host_functions(module):
            _Host(function).run(begins_early=self.begins_early, waits_late=self.waits_late)
            starts = [item for item in function.entry_block.operations if item.operation.name == START]
            self.count("collectives", len(starts))


class _Host:
    """The steps of a host function, and which memory they touch."""

    def __init__(self, function: func.FuncOp):
        self.operations = [item.operation for item in function.entry_block.operations]

    def run(self, *, begins_early: bool, waits_late: bool) -> None:
        """Move starts up, then waits down."""
        if not any(operation.name == START for operation in self.operations):
            return
        for operation in [item for item in self.operations if begins_early and item.name == START]:
            self._begin_early(operation)
        for operation in [item for item in reversed(self.operations) if waits_late and item.name == WAIT]:
            self._wait_late(operation)
        terminator = self.operations[-1]
        for operation in self.operations[:-1]:
            operation.move_before(terminator)

    def _begin_early(self, start: ir.Operation) -> None:
        """Put a start after the last step that touches its memory, or begins a collective."""
        place = self.operations.index(start)
        roots = _roots(start)
        first = place
        while first and not self._holds_back(self.operations[first - 1], start, roots):
            first -= 1
        self._move(place, self._outside_of_batch(first, forward=True, limit=place))

    def _wait_late(self, wait: ir.Operation) -> None:
        """Put a wait before the first step that touches the collective's memory, or before the end."""
        place = self.operations.index(wait)
        roots = _roots(wait)
        last = place + 1
        while last < len(self.operations) - 1 and not _touches(self.operations[last], roots):
            last += 1
        self._move(place, self._outside_of_batch(last, forward=False, limit=place + 1) - 1)

    def _holds_back(self, operation: ir.Operation, start: ir.Operation, roots: set[ir.Value]) -> bool:
        makes_operand = any(result in list(start.operands) for result in operation.results)
        return operation.name == START or makes_operand or _touches(operation, roots)

    def _outside_of_batch(self, place: int, *, forward: bool, limit: int) -> int:
        """A place that is not between the calls of a batch, which run together."""
        while place != limit and self._is_inside_of_batch(place):
            place += 1 if forward else -1
        return place

    def _is_inside_of_batch(self, place: int) -> bool:
        before = [batch_of(item) for item in self.operations[:place]]
        after = {batch_of(item) for item in self.operations[place:]}
        return any(number is not None and number in after for number in before)

    def _move(self, old: int, place: int) -> None:
        operation = self.operations.pop(old)
        self.operations.insert(place, operation)


def _roots(operation: ir.Operation) -> set[ir.Value]:
    """The buffers and arguments whose memory an op is given, seen through views."""
    return {_root(value) for value in operation.operands if isinstance(value.type, ir.MemRefType)}


def _root(value: ir.Value) -> ir.Value:
    while not isinstance(value.owner, ir.Block) and value.owner.name == "memref.reinterpret_cast":
        value = value.owner.operands[0]
    return value


def _touches(operation: ir.Operation, roots: set[ir.Value]) -> bool:
    """Whether an op reads or writes memory of these; to make a view of it does neither."""
    if operation.name == "memref.reinterpret_cast":
        return False
    return not roots.isdisjoint(_roots(operation))
