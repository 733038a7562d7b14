"""Which results of a forward pass are kept in memory for the gradient."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from blu.dialects.core.mlir import ir
from blu.dialects.core.op import is_pure
from blu.dialects.core.remat import Mark
from blu.passes.graph.remat.storage import is_view, stored_bytes
from blu.passes.graph.remat.work import is_cheap, work_of

# What is computed again may begin at most so many ops before: longer ways are of values that would be kept instead.
# A layer of a transformer is about 30 ops.
LONGEST_WAY = 48
# Cheap to compute again is what takes at most so many bytes to be read or written for each byte that is not kept: a
# normalization reads f32 and writes halves.
MOST_TRAFFIC = 4
# Values that are less than this part of all that is kept are not worth a thought.
SMALLEST_PART = 1 / 1024


class SavedValues:
    """The values that ops after the first `num_forward` ones of a block may read of what those have computed.

    To begin with they are what is read, except what `blu.checkpoint` has marked; for that, what it is computed from.
    Where it `is_frugal`, what views look at is kept rather than the views, and nothing that is computed of it.
    """

    def __init__(self, block: ir.Block, num_forward: int, is_frugal: bool):
        operations = [operation.operation for operation in block.operations]
        self.late, self._end = operations[num_forward:-1], operations[-1]
        self.position = {operation: index for index, operation in enumerate(operations[:num_forward])}
        self.is_frugal = is_frugal
        self.values: dict[ir.Value, None] = {}
        # The ops to compute again for lack of what they have computed.
        self.again: set[ir.Operation] = set()
        # What is not kept because it is cheap to compute again.
        self.cheap: set[ir.Value] = set()
        for operation in self.late:
            for value in operation.operands:
                self._keep(value)

    @property
    def num_bytes(self) -> int:
        """Bytes of all kept values."""
        return sum(stored_bytes(value) for value in self.values)

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

    def way_to(self, value: ir.Value) -> Iterator[ir.Operation]:
        """The ops that compute a value from what else is kept."""
        waiting, seen = [value.owner], {value.owner}
        while waiting:
            operation = waiting.pop()
            yield operation
            for operand in operation.operands:
                if self.is_gone(operand) and operand.owner not in seen:
                    seen.add(operand.owner)
                    waiting.append(operand.owner)

    def late_readers(self) -> dict[ir.Value, list[int]]:
        """The positions among late ops of those that read kept values, through views or not."""
        found: dict[ir.Value, list[int]] = {}
        for position, operation in enumerate(self.late):
            for value in operation.operands:
                while self.is_gone(value) and is_view(value.owner):
                    value = value.owner.operands[0]
                if value in self.values:
                    found.setdefault(value, []).append(position)
        return found

    def reorder(self, late: list[ir.Operation]) -> None:
        """Put the late ops in another order."""
        assert len(late) == len(self.late), "no op is lost"
        self.late = late
        for operation in late:
            operation.move_before(self._end)

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
            self._give_up(value)
            excess -= stored_bytes(value)

    def give_up_cheap(self) -> None:
        """Give up values of some size that elementwise ops and such of rows compute of others that are kept.

        What is computed of arguments alone is kept: weights in another precision.
        """
        least, readers = SMALLEST_PART * self.num_bytes, self.late_readers()
        large = [value for value in self.values if stored_bytes(value) >= least]
        traffic = {value: self._traffic_for(value) for value in large if not self._is_soon(value, readers[value][0])}
        for value in sorted(traffic, key=traffic.__getitem__):  # what is given up changes the ways of those after it
            if self._traffic_for(value) <= MOST_TRAFFIC * stored_bytes(value) and self._offer(value, 0) is not None:
                self._give_up(value)
                self.cheap.add(value)

    def _is_soon(self, value: ir.Value, late: int) -> bool:
        """Whether the late op at a position reads a value so soon after the forward pass does that it saves nothing."""
        early = (self.position.get(use.owner.operation, 0) for use in value.uses)
        return len(self.position) - max(early) + late <= LONGEST_WAY

    def _traffic_for(self, value: ir.Value) -> float:
        """Bytes to read and to write for computing a value again in one pass over memory; inf where that is not so."""
        way = list(self.way_to(value))
        if not all(map(is_cheap, way)):
            return math.inf
        made = {result for operation in way for result in operation.results}
        read = {operand for operation in way for operand in operation.operands if operand not in made}
        if not any(map(self.is_early, read)):
            return math.inf
        return stored_bytes(value) + sum(map(stored_bytes, read))

    def _give_up(self, value: ir.Value) -> None:
        del self.values[value]
        self.again.update(self.way_to(value))

    def _keep(self, value: ir.Value) -> None:
        """Keep a value, or what it is computed from."""
        waiting = [value]
        seen: set[ir.Value] = set()
        while waiting:
            value = waiting.pop()
            if not self.is_early(value) or value in seen:
                continue
            seen.add(value)
            if self._is_marked(value) or (self.is_frugal and is_view(value.owner.operation)):
                self.again.add(value.owner)
                waiting.extend(value.owner.operands)
            else:
                self.values[value] = None

    def _is_marked(self, value: ir.Value) -> bool:
        """Whether `blu.checkpoint` has a value computed again: one that its part makes, uses and does not keep."""
        mark = Mark.of(value.owner)
        if mark is None or mark.keeps(value.owner) or not is_pure(value.owner):
            return False
        readers = (use.owner.operation for use in value.uses)
        return all(Mark.of(reader) == mark for reader in readers if reader in self.position or reader == self._end)

    def _offer(self, value: ir.Value, index: int) -> tuple[float, int, ir.Value] | None:
        """The work per byte of giving up a value; None where it must be kept, as what cannot be done again must."""
        mark, size = Mark.of(value.owner), stored_bytes(value)
        if not size or (mark is not None and mark.keeps(value.owner)):
            return None
        way = list(self.way_to(value))
        if not all(map(is_pure, way)):
            return None
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
