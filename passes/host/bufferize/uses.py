"""What becomes of a value in the host program: where it is seen transposed, inserted or returned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from blu.dialects.core.mlir import func, ir
from blu.passes.framework.families import GEMM, family_of
from blu.passes.framework.kernels import callee_of

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")


def transposed_layout(value: ir.Value, kernels: Mapping[str, func.FuncOp]) -> list[int] | None:
    """The permutation of the transposes that use a value, where all are alike.

    What is used otherwise too gets their layout only where its last dimension stays the last, so that rows stay whole.
    So it is with what matrix products and copies read: those take theirs in either order, and rows are written faster.
    """
    users = _readers(value, ("blu.barrier",))
    transposes = [user for user in users if user.name == "linalg.transpose"]
    orders = {tuple(ir.DenseI64ArrayAttr(user.attributes["permutation"])) for user in transposes}
    if len(orders) != 1:
        return None
    order = list(orders.pop())
    if order[-1] == len(order) - 1:
        return order if all(user.name in ("linalg.transpose", "func.call") for user in users) else None
    views = (*_RESHAPES, "tensor.extract_slice", "blu.barrier")
    readers = [reader for user in transposes for reader in _readers(user.results[0], views)]
    return (
        None if len(transposes) < len(users) or all(_takes_any_order(reader, kernels) for reader in readers) else order
    )


def _readers(value: ir.Value, views: Collection[str]) -> list[ir.Operation]:
    """The ops that use a value, seen through some kinds of views."""
    users = [use.owner.operation for use in value.uses]
    found = [user for user in users if user.name not in views]
    for user in users:
        if user.name in views:
            found += _readers(user.results[0], views)
    return found


def _takes_any_order(operation: ir.Operation, kernels: Mapping[str, func.FuncOp]) -> bool:
    """Whether an op is a matrix product, or a kernel that only copies: both go through tiles."""
    if operation.name != "func.call":
        return False
    kernel = kernels[callee_of(operation)]
    return family_of(kernel) == GEMM or _only_copies(kernel)


def _only_copies(kernel: func.FuncOp) -> bool:
    """Whether a kernel has one loop, whose body gives what it is given (copy_factors.py)."""
    others = ("tensor.empty", "func.return")
    loops = [item for item in kernel.entry_block.operations if item.operation.name not in others]
    if len(loops) != 1 or loops[0].operation.name != "linalg.generic":
        return False
    body = loops[0].operation.regions[0].blocks[0]
    (*before, end) = body.operations
    return not before and end.operands[0] == body.arguments[0]


def is_empty(value: ir.Value) -> bool:
    """Whether a value is memory that nothing has been written to yet."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == "tensor.empty"


# Ops that write all that is read of one of their operands, and which.
_DESTINATIONS = {"tensor.insert_slice": 1, "linalg.transpose": 1}


def is_destination(use: ir.OpOperand) -> bool:
    """Whether an insertion writes into a copy of the value rather than reading it."""
    return use.owner.operation.name == "tensor.insert_slice" and use.operand_number == 1


def only_gives_a_shape(use: ir.OpOperand) -> bool:
    """Whether an op asks of an empty value only how large it is, and writes all that is read of it.

    The operand that a transpose reads may be empty memory too: a value without elements, into which nothing was put.
    """
    return _DESTINATIONS.get(use.owner.operation.name) == use.operand_number


class Returned:
    """The values that a function returns, by where."""

    def __init__(self, values: Iterable[ir.Value]) -> None:
        self.values = list(values)
        self._indices: dict[ir.Value, list[int]] = {}
        for index, value in enumerate(self.values):
            self._indices.setdefault(value, []).append(index)

    def follow(self, value: ir.Value) -> ir.Value | None:
        """The returned value that is this one, as it is, reshaped, or filled further; None where it is not returned."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if value in self._indices:
                return value
            uses = list(value.uses)
            users = [use.owner.operation for use in uses]
            waiting.extend(user.results[0] for user in users if user.name in _RESHAPES)
            if len(users) == 1 and is_destination(uses[0]):
                waiting.append(users[0].results[0])
        return None

    def index_of(self, value: ir.Value) -> int | None:
        """Which result a value becomes, where it is one of them and no more."""
        final = self.follow(value)
        indices = self._indices[final] if final is not None else []
        return indices[0] if len(indices) == 1 else None
