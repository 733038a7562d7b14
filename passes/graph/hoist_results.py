"""The pass that finishes results as soon as what they are computed from is there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import OPS, is_pure, value_type
from blu.dialects.ops.pointwise import Pointwise
from blu.passes.framework.base import Pass, find

_WORK = ("matmul", "convolution", "attention", "attention_piece", "attention_gradient", "scan")
"""Ops that are kernels of their own, which nothing that comes behind others is done with."""
_VIEWS = ("broadcast_to", "convert", "reshape", "transpose", "where", "constant")


@dataclass(frozen=True)
class HoistResults(Pass):
    """Elementwise ops at the end of a program, of which its results are made, come right behind their operands.

        %dw0 = "blu.matmul"(%x0_transposed, %g0)
        %dw1 = "blu.matmul"(%x1_transposed, %g1)
        %s0 = "blu.add"(%sum0, %dw0)
        %s1 = "blu.add"(%sum1, %dw1)
        return %s0, %s1

    becomes %dw0, %s0, %dw1, %s1. A kernel runs where the last of its ops stands: the product that adds to the sum would
    run at the end, and %x0 and %g0, and those of all layers, would be in memory until then. Programs that write over no
    argument are left as they are. What else reads an argument stays before what is made of it.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            if not function.is_external and _may_overwrite(function):
                self.count("ops moved", _Order(function.entry_block).write())


class _Place(NamedTuple):
    """Where an op belongs: at index `after`, or behind what stands there, among others by their own `index`."""

    after: int
    is_moved: bool = False
    index: int = 0


class _Order:
    """The ops of a block, and where those belong that results are made by."""

    def __init__(self, block: ir.Block):
        *self._operations, self._end = (item.operation for item in block.operations)
        self._index = {operation: index for index, operation in enumerate(self._operations)}
        self._making = self._find_making()
        # Where an op, or what elementwise ops make of what it gives, is for the last time.
        self._last: dict[ir.Operation, int] = {}
        for operation, index in reversed(self._index.items()):
            reads = [self._last_read(result) for result in operation.results] if _is_elementwise(operation) else []
            self._last[operation] = max([index, *reads])

    def write(self) -> int:
        """Move what can come earlier; how many ops."""
        places = self._earliest()
        for operation in reversed(self._operations):
            if operation in self._making and places[operation].is_moved:
                places[operation] = self._before_readers(operation, places)
        for operation in sorted(self._operations, key=places.__getitem__):
            operation.move_before(self._end)
        return sum(place.is_moved for place in places.values())

    def _earliest(self) -> dict[ir.Operation, _Place]:
        """Each op's own place, or that behind its operands where products of others are between."""
        works = [index for item, index in self._index.items() if _is_work(item)]
        places: dict[ir.Operation, _Place] = {}
        for operation, index in self._index.items():
            after = self._after(operation, places) if operation in self._making else index
            is_behind_work = bisect_right(works, after) < bisect_left(works, index)
            is_moved = is_behind_work and self._is_all_that_reads(operation)
            places[operation] = _Place(after, True, index) if is_moved else _Place(index)
        return places

    def _before_readers(self, operation: ir.Operation, places: dict[ir.Operation, _Place]) -> _Place:
        """What is no result needs memory of its own: it comes for the first op that has moved and reads it."""
        if self._is_returned(operation):
            return places[operation]
        index, readers = self._index[operation], [places[reader] for reader in self._readers(operation)]
        after = min((place.after for place in readers if place.is_moved), default=index)
        return _Place(after, True, index) if after < index else _Place(index)

    def _find_making(self) -> set[ir.Operation]:
        """Elementwise ops whose results are the block's, or are read by such ops only, or are single numbers."""
        found: set[ir.Operation] = set()
        for operation in filter(_is_elementwise, reversed(self._operations)):
            readers = self._readers(operation)
            if readers <= found or _is_small(operation):
                found.add(operation)
        return found

    def _is_all_that_reads(self, operation: ir.Operation) -> bool:
        """Whether a result is the only thing that is made of a product, so that one kernel does both."""
        if self._is_returned(operation) and _is_small(operation):
            return False
        products = (value for value in operation.operands if value.owner in self._index)
        return all(value.owner in self._making or len(list(value.uses)) == 1 for value in products)

    def _is_returned(self, operation: ir.Operation) -> bool:
        return any(use.owner.operation == self._end for result in operation.results for use in result.uses)

    def _readers(self, operation: ir.Operation) -> set[ir.Operation]:
        users = (use.owner.operation for result in operation.results for use in result.uses)
        return {user for user in users if user != self._end}

    def _after(self, operation: ir.Operation, places: dict[ir.Operation, _Place]) -> int:
        """The index of the last op that must come before."""
        after = -1
        for operand in operation.operands:
            if isinstance(operand.owner, ir.Block):
                after = max(after, self._last_read(operand))
            else:
                after = max(after, places[operand.owner].after)
        return after

    def _last_read(self, value: ir.Value) -> int:
        """The index of the last op that reads a value, or what elementwise ops make of it, and makes no result."""
        users = {use.owner.operation for use in value.uses} - self._making - {self._end}
        return max((self._last[user] for user in users), default=-1)


def _is_elementwise(operation: ir.Operation) -> bool:
    name = operation.name.removeprefix("blu.")
    if name not in OPS or len(operation.regions) or not is_pure(operation):
        return False
    return name in _VIEWS or issubclass(OPS[name], Pointwise)


def _is_small(operation: ir.Operation) -> bool:
    return all(value_type(result).size == 1 for result in operation.results)


def _is_work(operation: ir.Operation) -> bool:
    return operation.name.removeprefix("blu.") in _WORK


def _may_overwrite(function: func.FuncOp) -> bool:
    if "arg_attrs" not in function.attributes:
        return False
    return any("blu.donated" in ir.DictAttr(item) for item in function.arg_attrs)
