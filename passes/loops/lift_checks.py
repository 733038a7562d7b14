"""The pass that lets the program look at what the steps of its loops have found."""

from __future__ import annotations

from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import i64
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import LOOP, LOOP_BODY, LoopShape, check, loop
from blu.passes.framework import base
from blu.passes.framework.base import Pass, find
from blu.passes.framework.launches import host_functions
from blu.passes.loops.lower_to_linalg.checks import worst_of


@dataclass(frozen=True)
class LiftChecks(Pass):
    """What a body has found at its indices and divisors is one thing more that the loop gives, and is looked at there.

        %h = "plan.loop"(%h0, %i) {body = @body_0, count = 400, ..}
        func.func private @body_0(..) { ..  "plan.check"(%found) {kind = "index", ..}  return %next }

    becomes

        %h, %all = "plan.loop"(%h0, %i) {body = @body_0, count = 400, ..}
        %worst = linalg.generic ins(%all : tensor<400xi64>) { arith.maxui }
        "plan.check"(%worst) {kind = "index", ..}
        func.func private @body_0(..) { ..  return %next, %found }

    A step would write over what the one before it has found.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        lifted: dict[str, list[_Found]] = {}
        for function in host_functions(module):  # bodies stand before what they are called from
            for operation in list(find(function, LOOP)):
                self._look_behind(operation.operation, lifted)
            if LOOP_BODY in function.attributes:
                lifted[function.name.value] = _lift(function)
                self.count("checks", len(lifted[function.name.value]))

    def _look_behind(self, operation: ir.Operation, lifted: dict[str, list[_Found]]) -> None:
        """Let a loop give what its body has found, and look at that."""
        shape = LoopShape.of(operation)
        checks = lifted[shape.body]
        if not checks:
            return
        more = ir.RankedTensorType.get([shape.count], ir.IntegerType.get_signless(64))
        before = [value.type for value in operation.results]
        end = shape.carries + shape.given
        types = [*before[:end], *[more] * len(checks), *before[end:]]
        with ir.InsertionPoint.after(operation), operation.location:
            given = replace(shape, given=shape.given + len(checks))
            made = list(loop(given, list(operation.operands), types).results)
            found = [made.pop(end) for _ in checks]
            for item, values in zip(checks, found, strict=True):
                with item.location:
                    check(worst_of(values, i64, lambda x: x), kind=item.kind, op=item.op, size=item.size)
        base.replace(operation, made)


@dataclass(frozen=True)
class _Found:
    """A check of a body."""

    kind: str
    op: str
    size: int
    location: ir.Location


def _lift(function: func.FuncOp) -> list[_Found]:
    """Let a body return what its checks would look at."""
    operations = [item.operation for item in function.entry_block.operations]
    checks, values = [], []
    for operation in [item for item in operations if item.name == "plan.check"]:
        kind, op = (ir.StringAttr(operation.attributes[name]).value for name in ("kind", "op"))
        size = ir.IntegerAttr(operation.attributes["size"]).value
        checks.append(_Found(kind, op, size, operation.location))
        values.append(operation.operands[0])
        operation.erase()
    if checks:
        _return_as_well(function, values)
    return checks


def _return_as_well(function: func.FuncOp, values: list[ir.Value]) -> None:
    end = function.entry_block.operations[len(function.entry_block.operations) - 1].operation
    with ir.InsertionPoint(end), end.location:
        func.ReturnOp([*end.operands, *values])
    end.erase()
    added, type_ = [value.type for value in values], function.type
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(type_.inputs, [*type_.results, *added]))
    shown = [*ir.ArrayAttr(function.attributes["blu.results"]), *map(ir.TypeAttr.get, added)]
    function.attributes["blu.results"] = ir.ArrayAttr.get(shown)
    named = [*ir.ArrayAttr(function.attributes["res_attrs"]), *[ir.DictAttr.get({})] * len(added)]
    function.attributes["res_attrs"] = ir.ArrayAttr.get(named)
