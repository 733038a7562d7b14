"""The pass that lets the program look at what the steps of its loops have found."""

from __future__ import annotations

from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import i64
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.core.modules import end_of
from blu.dialects.plan import LOOP, LOOP_BODY, LoopShape, check, loop
from blu.passes.framework import base
from blu.passes.framework.base import Pass, find
from blu.passes.framework.launches import host_functions
from blu.passes.loops.lower_to_linalg.checks import worst_of
from blu.passes.loops.lower_to_linalg.generic import constant, fill, pointwise
from blu.plan.schema import NOTHING_FOUND


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

    A step would write over what the one before it has found. A loop that goes on while something is true, whose number
    of steps is not known, carries the worst instead.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        lifted: dict[str, list[_Found]] = {}
        loops = [item for function in host_functions(module) for item in find(function, LOOP)]
        carrying = {shape.body for shape in map(LoopShape.of, loops) if shape.goes_on}
        for function in host_functions(module):  # bodies stand before what they are called from
            for operation in list(find(function, LOOP)):
                self._look_behind(operation.operation, lifted)
            if LOOP_BODY in function.attributes:
                lifted[function.name.value] = _lift(function, function.name.value in carrying)
                self.count("checks", len(lifted[function.name.value]))

    def _look_behind(self, operation: ir.Operation, lifted: dict[str, list[_Found]]) -> None:
        """Let a loop give what its body has found, and look at that."""
        shape = LoopShape.of(operation)
        checks = lifted[shape.body]
        if not checks:
            return
        if shape.goes_on:
            _carry_checks(operation, shape, checks)
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


def _carry_checks(operation: ir.Operation, shape: LoopShape, checks: list[_Found]) -> None:
    """Let a loop carry what its body has found, and look at that."""
    end, values = shape.carries, list(operation.operands)
    element = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(operation), operation.location:
        nothing = [fill(constant(element, NOTHING_FOUND), ()) for _ in checks]
    types = [value.type for value in operation.results]
    with ir.InsertionPoint.after(operation), operation.location:
        wider = replace(shape, carries=end + len(checks))
        carried = [*values[:end], *nothing, *values[end:]]
        made = list(loop(wider, carried, [*types, *(value.type for value in nothing)]).results)
        for item, worst in zip(checks, made[end:], strict=True):
            with item.location:
                check(worst, kind=item.kind, op=item.op, size=item.size)
    base.replace(operation, made[:end])


def _lift(function: func.FuncOp, is_carried: bool) -> list[_Found]:
    """Let a body return what its checks would look at, or the worst of that and of what it is given."""
    operations = [item.operation for item in function.entry_block.operations]
    checks, values = [], []
    for operation in [item for item in operations if item.name == "plan.check"]:
        kind, op = (ir.StringAttr(operation.attributes[name]).value for name in ("kind", "op"))
        size = ir.IntegerAttr(operation.attributes["size"]).value
        checks.append(_Found(kind, op, size, operation.location))
        values.append(operation.operands[0])
        operation.erase()
    if checks and is_carried:
        values = _worse_than_given(function, values)
    if checks:
        _return_as_well(function, values)
    return checks


def _worse_than_given(function: func.FuncOp, values: list[ir.Value]) -> list[ir.Value]:
    """Have a body carry something more for each of the values: what it is then, the worse of that and the value."""
    element = ir.IntegerType.get_signless(64)
    begun = _given_as_well(function, values)
    end = end_of(function.entry_block)
    with ir.InsertionPoint(end), end.location:
        pairs = zip(begun, values, strict=True)
        return [pointwise((), pair, element, lambda one, other, *_: arith.maxui(one, other)) for pair in pairs]


def _given_as_well(function: func.FuncOp, values: list[ir.Value]) -> list[ir.Value]:
    """Have a body be given, behind what it is carried, values of the same types; the new arguments."""
    block, old = function.entry_block, list(function.entry_block.arguments)
    carries = ir.IntegerAttr(function.attributes[LOOP_BODY]).value
    added = [block.add_argument(value.type, value.location) for value in values]
    for argument in old[carries:]:  # these stay the last
        argument.replace_all_uses_with(block.add_argument(argument.type, argument.location))
    for _ in old[carries:]:
        block.erase_argument(carries)
    shown, attributes = (list(ir.ArrayAttr(function.attributes[name])) for name in ("blu.inputs", "arg_attrs"))
    types, donated = (
        [ir.TypeAttr.get(value.type) for value in values],
        ir.DictAttr.get({"blu.donated": ir.UnitAttr.get()}),
    )
    function.attributes["blu.inputs"] = ir.ArrayAttr.get([*shown[:carries], *types, *shown[carries:]])
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(
        [*attributes[:carries], *[donated] * len(values), *attributes[carries:]]
    )
    inputs = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, function.type.results))
    function.attributes[LOOP_BODY] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), carries + len(values))
    return added


def _return_as_well(function: func.FuncOp, values: list[ir.Value]) -> None:
    end = end_of(function.entry_block)
    with ir.InsertionPoint(end), end.location:
        func.ReturnOp([*end.operands, *values])
    end.erase()
    added, type_ = [value.type for value in values], function.type
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(type_.inputs, [*type_.results, *added]))
    shown = [*ir.ArrayAttr(function.attributes["blu.results"]), *map(ir.TypeAttr.get, added)]
    function.attributes["blu.results"] = ir.ArrayAttr.get(shown)
    named = [*ir.ArrayAttr(function.attributes["res_attrs"]), *[ir.DictAttr.get({})] * len(added)]
    function.attributes["res_attrs"] = ir.ArrayAttr.get(named)
