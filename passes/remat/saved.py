"""Which results of a forward pass are kept in memory for the gradient."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from blu.dialects.checkpoint import Mark
from blu.dialects.mlir import ir
from blu.dialects.op import value_type
from blu.passes.remat.work import VIEWS, work_of

# What is computed again may begin at most so many ops before: longer ways are of values that would be kept instead.
# A layer of a transformer is about 30 ops.
LONGEST_WAY = 48


class Saved:
    """The values that ops after the first `num_forward` ones of a block may read of what those have computed.

    To begin with they are what is read, except what `blu.checkpoint` has marked; for that, what it is computed from.
    Where it `is_frugal`, what views look at is kept rather than the views, and nothing that is computed of it.
    """

    def __init__(self, block: ir.Block, num_forward: int, is_frugal: bool):
        operations = [operation.operation for operation in block.operations]
        self.late = operations[num_forward:-1]
        self.position = {operation: index for index, operation in enumerate(operations[:num_forward])}
        self.is_frugal = is_frugal
        self.values: dict[ir.Value, None] = {}
        # The ops to compute again for lack of what they have computed.
        self.again: set[ir.Operation] = set()
        for operation in self.late:
            for value in operation.operands:
                self._keep(value)

    @property
    def num_bytes(self) -> int:
        """Bytes of all kept values."""
        return sum(_bytes(value) for value in self.values)

    def is_early(self, value: ir.Value) -> bool:
        """Whether the forward pass computes a value (arguments are there anyway)."""
        return not isinstance(value.owner, ir.Block) and value.owner in self.position

    def is_gone(self, value: ir.Value) -> bool:
        """Whether a value of the forward pass is not kept."""
        return self.is_early(value) and value not in self.values

    def is_kept_alone(self, value: ir.Value) -> bool:
        """Whether a value is kept, but what the forward pass computes of it shall not be.

        The gradient of a normalization computes statistics anew, which would be found to be the forward pass's.
        """
        if value not in self.values:
            return False
        marks = [Mark.of(use.owner.operation) for use in value.uses if use.owner.operation in self.position]
        return self.is_frugal or any(mark is not None and mark.policy != "everything" for mark in marks)

    def shrink(self, budget: int) -> None:
        """Give up values, those that take the least work for their bytes first, until the rest is within `budget`.

        The work for a value only grows as others are given up, so a value whose work has grown goes back in line.
        """
        excess = self.num_bytes - budget
        line = [entry for index, value in enumerate(self.values) if (entry := self._offer(value, index))]
        heapq.heapify(line)
        while line and excess > 0:
            _, index, value = heapq.heappop(line)
            offer = self._offer(value, index)
            if offer is None:
                continue
            if line and offer > line[0]:
                heapq.heappush(line, offer)
                continue
            del self.values[value]
            self.again.update(self._way_to(value))
            excess -= _bytes(value)

    def _keep(self, value: ir.Value) -> None:
        """Keep a value, or what it is computed from."""
        waiting = [value]
        seen: set[ir.Value] = set()
        while waiting:
            value = waiting.pop()
            if not self.is_early(value) or value in seen:
                continue
            seen.add(value)
            if self._is_marked(value) or (self.is_frugal and value.owner.name in VIEWS):
                self.again.add(value.owner)
                waiting.extend(value.owner.operands)
            else:
                self.values[value] = None

    def _is_marked(self, value: ir.Value) -> bool:
        """Whether `blu.checkpoint` has a value computed again: one that its part makes, uses and does not keep."""
        mark = Mark.of(value.owner)
        if mark is None or mark.keeps(value.owner):
            return False
        readers = (use.owner.operation for use in value.uses)
        return all(Mark.of(reader) == mark for reader in readers if reader in self.position)

    def _offer(self, value: ir.Value, index: int) -> tuple[float, int, ir.Value] | None:
        """The work per byte of giving up a value; None where it must be kept."""
        mark, size = Mark.of(value.owner), _bytes(value)
        if not size or (mark is not None and mark.keeps(value.owner)):
            return None
        way = list(self._way_to(value))
        first = min((self.position[item] for item in way if list(item.operands)), default=0)
        if self._last_on_ways_through(value) - first > LONGEST_WAY:
            return None
        return sum(work_of(item) for item in way) / size, index, value

    def _last_on_ways_through(self, value: ir.Value) -> int:
        """The position of the last op that is to be computed again and would need `value` to be so too."""
        last, waiting, seen = 0, [value.owner], {value.owner}
        while waiting:
            operation = waiting.pop()
            last = max(last, self.position[operation])
            users = (use.owner.operation for result in operation.results for use in result.uses)
            for user in users:
                if user in self.again and user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return last

    def _way_to(self, value: ir.Value) -> Iterator[ir.Operation]:
        """The ops that compute a value from what else is kept."""
        waiting, seen = [value.owner], {value.owner}
        while waiting:
            operation = waiting.pop()
            yield operation
            for operand in operation.operands:
                if self.is_gone(operand) and operand.owner not in seen:
                    seen.add(operand.owner)
                    waiting.append(operand.owner)


def _bytes(value: ir.Value) -> int:
    type_ = value_type(value)
    return type_.size * type_.dtype.bytes
