"""Late ops that need nothing but one value of the forward pass, made part of that pass."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import emitting_at
from blu.passes.graph.remat.storage import is_reordering
from blu.passes.graph.remat.work import is_cheap


@dataclass(frozen=True)
class Closure:
    """All late ops that read a value, and others that need it and constants alone; `given` is what is read of them."""

    operations: list[ir.Operation]
    given: list[ir.Value]


class LateOps:
    """The ops of a block, of which the first `num_forward` are those of the forward pass; late ones may move there.

        %y = "blu.exp"(%x)
        ...                                             (here the backward pass begins)
        %a = "blu.multiply"(%x, %x)
        %b = "blu.multiply"(%g, %a)

    becomes

        %a = "blu.multiply"(%x, %x)
        %y = "blu.exp"(%x)
        ...
        %b = "blu.multiply"(%g, %a)

    so that %a may be kept in place of %x.
    """

    def __init__(self, block: ir.Block, num_forward: int):
        operations = [operation.operation for operation in block.operations]
        self._block = block
        self.early = {operation: index for index, operation in enumerate(operations[:num_forward])}
        self._late = {operation: index for index, operation in enumerate(operations[num_forward:-1])}

    @property
    def num_forward(self) -> int:
        """How many ops are those of the forward pass by now."""
        operations = enumerate(self._block.operations)
        return next((index for index, operation in operations if operation.operation in self._late), len(self.early))

    def late_readers(self, value: ir.Value) -> list[ir.Operation]:
        """The late ops that read a value, in order."""
        readers = {use.owner.operation for use in value.uses}
        return sorted((reader for reader in readers if reader in self._late), key=self._late.__getitem__)

    def distance(self, value: ir.Value) -> int:
        """How many ops are between the last early reader of a value and its first late one, if it has both."""
        early = (self.early[use.owner.operation] for use in value.uses if use.owner.operation in self.early)
        late = (self._late[reader] for reader in self.late_readers(value))
        return len(self.early) - max(early, default=0) + min(late, default=0)

    def closure_of(self, value: ir.Value) -> Closure | None:
        """What is computed of a value alone; None where what reads it is more than a part of a pass over rows."""
        members: dict[ir.Operation, None] = {}
        waiting = [self._late[reader] for reader in self.late_readers(value)]
        found = {self._late[reader]: reader for reader in self.late_readers(value)}
        made = {value}
        while waiting:
            operation = found[heapq.heappop(waiting)]
            if not self._is_of(operation, made):
                if value in list(operation.operands):
                    return None
                continue
            members[operation] = None
            made.update(operation.results)
            for reader in (item for result in operation.results for item in self.late_readers(result)):
                if (place := self._late[reader]) not in found:
                    found[place] = reader
                    heapq.heappush(waiting, place)
        given = [result for operation in members for result in operation.results if self._is_read(result, members)]
        return Closure(list(members), given) if members else None

    def move(self, closure: Closure, before: ir.Operation) -> None:
        """Let the forward pass do what a closure does, before one of its ops."""
        for operation in closure.operations:
            constants = [item.owner.operation for item in operation.operands if _is_constant(item)]
            for item in (*constants, operation):
                if item in self._late:
                    del self._late[item]
                    item.move_before(before)

    def replace_late(self, value: ir.Value, by: ir.Value) -> None:
        """Let late ops read another value."""
        for use in list(value.uses):
            if use.owner.operation in self._late:
                use.owner.operation.operands[use.operand_number] = by

    def _is_of(self, operation: ir.Operation, made: set[ir.Value]) -> bool:
        is_part = is_cheap(operation) and not is_reordering(operation)
        return is_part and all(item in made or _is_constant(item) for item in operation.operands)

    def _is_read(self, value: ir.Value, members: dict[ir.Operation, None]) -> bool:
        return any(use.owner.operation not in members for use in value.uses)


@contextmanager
def writing_before(operation: ir.Operation) -> Iterator[None]:
    """Put what is emitted before an op, as a part of what it is written for."""
    with ir.InsertionPoint(operation), emitting_at(operation.location):
        yield


@contextmanager
def writing_after(operation: ir.Operation) -> Iterator[None]:
    """The same behind an op, which is not a block's last one."""
    with ir.InsertionPoint.after(operation), emitting_at(operation.location):
        yield


def _is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "blu.constant"
