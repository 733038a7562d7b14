"""The pass that writes composite ops in simpler ones."""

from __future__ import annotations

from typing import Any

from blu.dataclass import dataclass
from blu.dialects.core.evaluation import on_operand
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import Op, attributes_of, operands_of, operation_class
from blu.dialects.core.remat import emitting_in_place_of
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.passes.framework.base import Pass, find
from blu.passes.framework.bodies import bodies_of


@dataclass(frozen=True)
class Decompose(Pass):
    """Composite ops become the simpler ops that their class says, except those a kernel template takes whole.

        %1 = "blu.silu"(%0)

    becomes

        %a = "blu.sigmoid"(%0)
        %1 = "blu.multiply"(%0, %a)

    `keep` names the ops to leave, without the dialect's prefix, separated by "+" .
    """

    level = "blu"
    keep: str = "attention+attention_gradient"

    def run(self, module: ir.Module) -> None:
        kept = {f"blu.{name}" for name in self.keep.split("+")}
        while found := [item.operation for item in find(module, "blu.*") if _is_composite(item.operation, kept)]:
            for operation in reversed(found):  # bodies before the ops that they are in, which then write simple ones
                decompose_operation(operation)
                self.count("ops decomposed")


def _is_composite(operation: ir.Operation, kept: set[str]) -> bool:
    cls = operation_class(operation)
    if cls is None or cls.decompose is None:
        return False
    may_stay = operation.name in kept and (cls.stays_whole is None or cls.stays_whole(**attributes_of(operation)))
    return not may_stay


def decompose_operation(operation: ir.Operation) -> None:
    """Write the decomposition before the op, with the op's location, and use it instead."""
    cls = operation_class(operation)
    assert cls is not None and cls.decompose is not None
    operands = [on_operand(Tensor, item) for item in operands_of(operation)]
    with ir.InsertionPoint(operation), emitting_in_place_of(operation):
        results = cls.decompose(*operands, **attributes_of(operation), **bodies_of(operation))
    results = results if isinstance(results, tuple) else (results,)
    _check_results(operation, cls, results)
    for old, tensor in zip(operation.results, results, strict=True):
        old.replace_all_uses_with(tensor.value)
    operation.erase()


def _check_results(operation: ir.Operation, cls: type[Op], results: tuple[Any, ...]) -> None:
    """What a class writes its op in is of the types that it says the op gives."""
    found = [getattr(item, "type", type(item).__name__) for item in results]
    if found != (declared := [Tensor(item).type for item in operation.results]):
        said = ", ".join(map(str, found)) or "nothing"
        message = f"the decompose of {cls.name} gives {said}, and its infer says {', '.join(map(str, declared))}"
        raise ShapeError(message, location=describe(operation.location))
