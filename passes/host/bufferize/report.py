"""What is written in place and what is copied, for people."""

from __future__ import annotations

from collections.abc import Collection

from blu.dialects.core.mlir import func, ir
from blu.passes.framework.kernels import callee_of
from blu.passes.framework.rules import Decision


class PlacementReport:
    """Decisions about the memory of one host function, in program order."""

    def __init__(self, function: func.FuncOp) -> None:
        self.decisions: list[Decision] = []
        self._function = function
        self._told: set[int] = set()  # donated arguments of which something is said

    def tell_donated(self, operation: ir.Operation, index: int, reason: str | None) -> None:
        """A call may write its result over a donated argument, or a reason why not."""
        self._told.add(index)
        verb = "writes" if reason is None else "does not write"
        self._tell(operation, f"{_subject(operation)} {verb} over the donated argument {self._name(index)}", reason)

    def tell_update(self, operation: ir.Operation, reason: str | None) -> None:
        """An op updates in place, or a copy for a reason."""
        self._tell(operation, f"{_subject(operation)} updates {'in place' if reason is None else 'a copy'}", reason)

    def tell_view(self, operation: ir.Operation) -> None:
        """A view needs other strides than its operand can have."""
        self._tell(operation, f"{operation.name} copies", "the elements are not evenly spaced in memory")

    def tell_part(self, operation: ir.Operation, reason: str | None) -> None:
        """A part of a larger value is copied to its place."""
        self._tell(operation, f"{operation.name} copies a part", reason)

    def tell_result(self, value: ir.Value, index: int, argument: int | None, reason: str | None) -> None:
        """A result is copied for a reason, or is an argument, of which it is said elsewhere who writes there."""
        if reason is None:
            assert argument is not None, "what is no argument has its memory from the result"
            self._told.add(argument)
            return
        owner = value.owner
        location = self._function.operation.location if isinstance(owner, ir.Block) else owner.location
        self.decisions.append(Decision(f"result {index} is copied: {reason}", reason, (location,)))

    def tell_unused(self, donated: Collection[int], paired: Collection[int]) -> None:
        """Donated arguments that no result is written over."""
        for index in sorted(set(donated) - self._told):
            reason = "no kernel writes the result that it is paired with" if index in paired else "no result suits it"
            text = f"nothing is written over the donated argument {self._name(index)}: {reason}"
            self.decisions.append(Decision(text, reason, (self._function.operation.location,)))

    def _tell(self, operation: ir.Operation, text: str, reason: str | None) -> None:
        kind = (_subject(operation).rpartition("_")[0], text.split()[1], reason)
        self.decisions.append(Decision(f"{text}: {reason}" if reason else text, kind, (operation.location,)))

    def _name(self, index: int) -> str:
        attributes = ir.DictAttr(self._function.arg_attrs[index])
        return ir.StringAttr(attributes["blu.name"]).value if "blu.name" in attributes else str(index)


def _subject(operation: ir.Operation) -> str:
    """The kernel that a call runs, or the op's own name."""
    if operation.name != "func.call":
        return operation.name
    return callee_of(operation)
