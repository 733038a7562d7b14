"""The pass that makes loops of the host program of ops that do a body many times."""

from __future__ import annotations

from dataclasses import dataclass, field

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import operations_in
from blu.dialects.core.op import attributes_of, body_blocks_of, operands_of
from blu.dialects.core.regions import copy_block
from blu.dialects.plan import LOOP_BODY, LoopShape, loop
from blu.passes.framework.base import Pass, find, replace
from blu.passes.framework.kernels import is_host_step


@dataclass(frozen=True)
class OutlineLoops(Pass):
    """The body of a loop becomes a host function of its own, which further passes treat as the program itself.

        %h, %ys = "blu.scan"(%h0, %xs, %w) ({
        ^bb0(%carry, %x, %weight):  ...  "blu.yield"(%next, %y)
        }) {length = 400 : i64, reverse = false}

    becomes

        %h, %ys = "plan.loop"(%h0, %xs, %w) {body = @body_0, count = 400, carries = 1, slices = 1, ..}
        func.func private @body_0(%carry {blu.donated}, %x, %weight) attributes {blu.loop_body = 1} { .. }

    What is carried may be written over by what is carried on. Bodies stand before what they are called from.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        names = _Names()
        waiting = list(find(module, func.FuncOp))
        while waiting:
            function = waiting.pop()
            inside = list(operations_in(function.operation, closed=("blu.scan",)))
            scans = [item for item in inside if item.name == "blu.scan"]
            waiting += [self._outline(function, scan, names) for scan in scans]
            self.count("loops", len(scans))

    def _outline(self, function: func.FuncOp, scan: ir.Operation, names: _Names) -> func.FuncOp:
        for inner in operations_in(scan):
            if is_host_step(inner.name):
                self.fail(
                    inner,
                    f"{inner.name.removeprefix('blu.')} is in the body of a scan, where ranks cannot exchange data",
                    advice="Do it before or after the scan, or write the steps out in a Python loop.",
                )
        carry, xs, captured = operands_of(scan)
        given = attributes_of(scan)
        with scan.location:
            body = _function_of(function, body_blocks_of(scan)["body"], names.next(), len(carry))
            num_given = len(scan.results) - len(carry)
            shape = LoopShape(body.name.value, given["length"], len(carry), len(xs), num_given, given["reverse"])
            with ir.InsertionPoint(scan):
                made = loop(shape, [*carry, *xs, *captured], [value.type for value in scan.results])
        replace(scan, list(made.results))
        return body


@dataclass
class _Names:
    """How many bodies there are."""

    count: int = field(default=0)

    def next(self) -> str:
        """The name of one more."""
        self.count += 1
        return f"body_{self.count - 1}"


def _function_of(before: func.FuncOp, block: ir.Block, name: str, carries: int) -> func.FuncOp:
    """A body as a function, which stands before another."""
    types = [argument.type for argument in block.arguments]
    with ir.InsertionPoint(before):
        function = func.FuncOp(name, (types, []), visibility="private")
    entry = function.add_entry_block([argument.location for argument in block.arguments])
    with ir.InsertionPoint(entry):
        results = copy_block(block, dict(zip(block.arguments, entry.arguments, strict=True)))
        func.ReturnOp(results)
    outputs = [value.type for value in results]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, outputs))
    named = [{"blu.name": ir.StringAttr.get(f"carry.{number}")} for number in range(carries)]
    donated = [{**item, "blu.donated": ir.UnitAttr.get()} for item in named]
    function.arg_attrs = _padded(donated, len(types))
    function.attributes["res_attrs"] = _padded(named, len(outputs))
    function.attributes[LOOP_BODY] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), carries)
    return function


def _padded(attributes: list[dict[str, ir.Attribute]], count: int) -> ir.ArrayAttr:
    rest = [{}] * (count - len(attributes))
    return ir.ArrayAttr.get([ir.DictAttr.get(item) for item in (*attributes, *rest)])
