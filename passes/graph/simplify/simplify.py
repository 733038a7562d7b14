"""The pass that makes `blu` modules smaller without changing a bit of their results."""

from __future__ import annotations

from collections.abc import Iterator

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import OPS, emitting_at, is_pure
from blu.dialects.ops.pointwise import Pointwise, Where
from blu.passes.framework.base import Pass, find
from blu.passes.framework.bodies import blocks_of
from blu.passes.graph.simplify import (  # importing a file registers its rules
    arithmetic,  # noqa: F401
    fold,  # noqa: F401
    narrowing,  # noqa: F401
    shapes,
)
from blu.passes.graph.simplify.rules import RULES, Rule, Site


@dataclass(frozen=True)
class Simplify(Pass):
    """Ops that do nothing go, chains of ops become one, ops of small constants become constants, unused ops go.

        %one = "blu.constant"() {value = dense<1.0> : tensor<f32>}
        %1 = "blu.multiply"(%0, %one)
        %2 = "blu.reshape"(%1) {shape = [6]}
        %3 = "blu.reshape"(%2) {shape = [3, 2]}

    becomes

        %3 = "blu.reshape"(%0) {shape = [3, 2]}

    One walk from the operands to their users: when an op is looked at, its operands are as simple as they get. Results
    keep every bit, so floats are never reordered. Ops that are equal to each other are left to MLIR's cse.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            for block in blocks_of(function):
                for operation in list(block.operations):
                    self._simplify(operation.operation)
                self._erase_unused(block)

    def _simplify(self, operation: ir.Operation) -> None:
        """Replace an op by what the rules say, and look at that again, and at what the rule made for it to use."""
        while (value := _simpler(operation)) is not None:
            self.count("ops replaced")
            operation.results[0].replace_all_uses_with(value)
            operation.erase()
            if isinstance(value.owner, ir.Block):
                return
            operation = value.owner
            for operand in operation.operands:
                if not isinstance(operand.owner, ir.Block):
                    self._simplify(operand.owner)

    def _erase_unused(self, block: ir.Block) -> None:
        for operation in reversed(list(block.operations)):
            operation = operation.operation
            if is_pure(operation) and not any(list(result.uses) for result in operation.results):
                operation.erase()
                self.count("unused ops")


def _simpler(operation: ir.Operation) -> ir.Value | None:
    """What the first rule that applies puts in the op's place."""
    site = Site(operation)  # one for all rules: reading an op's fields takes longer than most rules do
    with ir.InsertionPoint(operation), emitting_at(operation.location):
        return next((value for rule in _rules_of(operation) if (value := rule(site)) is not None), None)


def _rules_of(operation: ir.Operation) -> Iterator[Rule]:
    name = operation.name.removeprefix("blu.")
    yield from RULES.get(name, ())
    if name in OPS and issubclass(OPS[name], Pointwise | Where):
        yield shapes.broadcasting
