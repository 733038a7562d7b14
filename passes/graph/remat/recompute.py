"""Writing again, where a gradient needs them, the forward results that are not kept."""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.dialects.core.op import emitting_at, is_pure
from blu.dialects.ops.identity import Barrier
from blu.dialects.tensor.tensor import Tensor
from blu.passes.graph.remat.saved import SavedValues


class Recompute:
    """The late ops of a block get what is not kept from copies of the ops that made it, right before them."""

    def __init__(self, saved: SavedValues):
        self.saved = saved
        self.again: dict[ir.Value, ir.Value] = {}
        self.num_ops = 0

    def run(self) -> None:
        """Rewrite the operands of all late ops, in program order; what is computed again is so once."""
        for operation in self.saved.late:
            for index, value in enumerate(operation.operands):
                if self.saved.is_gone(value):
                    self._compute(value, operation)
                    operation.operands[index] = self.again[value]
                elif self.saved.is_kept_alone(value):
                    with ir.InsertionPoint(operation), emitting_at(operation.location):
                        operation.operands[index] = self._operand(value)
                elif value in self.again:  # an argument: so that kernels that do both read it once
                    operation.operands[index] = self.again[value]

    def _compute(self, value: ir.Value, before: ir.Operation) -> None:
        """Copy the op that makes a value, after those that it needs. Not by recursion: the way may be long."""
        waiting = [value.owner]
        while waiting:
            operation = waiting[-1]
            missing = [item.owner for item in operation.operands if self.saved.is_gone(item) and item not in self.again]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if operation.results[0] not in self.again:
                self._copy(operation, before)

    def _copy(self, operation: ir.Operation, before: ir.Operation) -> None:
        assert is_pure(operation), f"{operation.name} is done again, and has effects"
        with ir.InsertionPoint(before), emitting_at(operation.location):
            operands = [self._operand(value) for value in operation.operands]
            clone = operation.clone()
        for index, operand in enumerate(operands):
            clone.operands[index] = operand
        self.again.update(zip(operation.results, clone.results, strict=True))
        self.num_ops += 1

    def _operand(self, value: ir.Value) -> ir.Value:
        """What a copy reads: another copy's result, or what is kept, behind a barrier."""
        if value not in self.again:
            self.again[value] = Barrier(Tensor(value)).value
        return self.again[value]
