"""Late ops in an order in which what is computed again meets the gradient of what it is computed from."""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.dialects.core.op import is_pure
from blu.passes.graph.remat.saved import LONGEST_WAY, SavedValues
from blu.passes.graph.remat.work import is_cheap


class Delay:
    """Late ops that read what is cheap to compute again wait until what that is computed from is looked at anyway.

        %d = "blu.matmul"(%y_transposed, %g)            (%y = blu.gelu(%x) is not kept, %x is)
        %e = "blu.matmul"(%g, %w)
        %f = "blu.multiply"(%x, %x)                     (here the gradient of blu.gelu begins)

    becomes %e, %d, %f: %x is read once, for %y and for the gradient. Those that wait keep their order, as do others.
    """

    def __init__(self, saved: SavedValues):
        self.saved = saved
        self.readers = saved.late_readers()
        # For ops that wait the position of the op that they come before.
        self.waiting: dict[ir.Operation, int] = {}

    def run(self) -> None:
        """Put the late ops in their new order."""
        order: list[ir.Operation] = []
        for position, operation in enumerate(self.saved.late):
            order += self._released_at(position)
            meeting = self._meeting(operation, position)
            target = max(meeting, self._target_of_operands(operation), self._target_of_effects(operation))
            if target > position:
                self.waiting[operation] = target
            else:
                order.append(operation)
        assert not self.waiting, "what is waited for comes"
        self.saved.reorder(order)

    def _released_at(self, position: int) -> list[ir.Operation]:
        ready = [operation for operation, target in self.waiting.items() if target == position]
        for operation in ready:
            del self.waiting[operation]
        return ready

    def _target_of_operands(self, operation: ir.Operation) -> int:
        """The last position that what makes the operands waits for, or -1."""
        return max((self.waiting.get(value.owner, -1) for value in operation.operands), default=-1)

    def _target_of_effects(self, operation: ir.Operation) -> int:
        """For an op with effects, the last position that an earlier one of those waits for, or -1."""
        if is_pure(operation):
            return -1
        return max((target for other, target in self.waiting.items() if not is_pure(other)), default=-1)

    def _meeting(self, operation: ir.Operation, position: int) -> int:
        """Where an op that reads what is computed again should be: -1 if anywhere."""
        sources = [source for value in operation.operands for source in self._sources(value)]
        found = [self._next_reader(source, position) for source in sources]
        return min((place for place in found if 0 <= place <= position + LONGEST_WAY), default=-1)

    def _next_reader(self, source: ir.Value, position: int) -> int:
        return next((place for place in self.readers.get(source, ()) if place >= position), -1)

    def _sources(self, value: ir.Value) -> list[ir.Value]:
        """The kept values that one which was given up for being cheap is computed from."""
        if not self.saved.is_gone(value):
            return []
        way = list(self.saved.way_to(value))
        made = {result for operation in way for result in operation.results}
        if not made & self.saved.cheap or not all(map(is_cheap, way)):
            return []
        return [operand for operation in way for operand in operation.operands if operand in self.saved.values]
