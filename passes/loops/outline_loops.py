"""The pass that makes loops of the host program of ops that do a body many times."""

from __future__ import annotations

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import end_of, operations_in
from blu.dialects.core.op import attributes_of, body_blocks_of, operands_of
from blu.dialects.core.regions import copy_block
from blu.dialects.plan import LOOP_BODY, LoopShape, loop
from blu.passes.framework.base import Pass, find, replace
from blu.passes.framework.kernels import is_host_step, is_routine

_LOOPS = ("blu.scan", "blu.while_loop")


@dataclass(frozen=True)
class OutlineLoops(Pass):
    """The body of a loop becomes a host function of its own, which further passes treat as the program itself.

        %h, %ys = "blu.scan"(%h0, %xs, %w) ({
        ^bb0(%carry, %x, %weight):  ...  "blu.yield"(%next, %y)
        }) {length = 400 : i64, reverse = false}

    becomes

        %h, %ys = "plan.loop"(%h0, %xs, %w) {body = @body_0, count = 400, carries = 1, slices = 1, ..}
        func.func private @body_0(%carry {blu.donated}, %x, %weight) attributes {blu.loop_body = 1} { .. }

    What is carried may be written over by what is carried on, but where the values of all steps are `kept`: those the
    body need not give. Bodies stand before what they are called from. A `blu.while_loop` is a loop of one step that is
    done again while the first that it carries is true: `blu.goes_on`.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        names = _Names()
        waiting = list(find(module, func.FuncOp))
        while waiting:
            function = waiting.pop()
            inside = list(operations_in(function.operation, closed=_LOOPS))
            loops = [item for item in inside if item.name in _LOOPS]
            waiting += [self._outline(function, loop, names) for loop in loops]
            self.count("loops", len(loops))

    def _outline(self, function: func.FuncOp, scan: ir.Operation, names: _Names) -> func.FuncOp:
        kind = scan.name.removeprefix("blu.")
        for inner in operations_in(scan):
            if is_host_step(inner.name) and not is_routine(inner.name):
                self.fail(
                    inner,
                    f"{inner.name.removeprefix('blu.')} is in the body of a {kind}, where ranks cannot exchange data",
                    advice=f"Do it before or after the {kind}, or write the steps out in a Python loop.",
                )
        goes_on = kind == "while_loop"
        carry, *rest, captured = operands_of(scan)
        xs = rest[0] if rest else []
        given = {"length": 1, "reverse": False} if goes_on else attributes_of(scan)
        with scan.location:
            block = body_blocks_of(scan)["body"]
            kept = _kept(block, len(carry))
            order = [place for place in range(len(scan.results)) if place not in kept]
            stacked = {number for number, _ in kept.values()}
            body = _function_of(function, block, names.next(), order, [n not in stacked for n in range(len(carry))])
            sizes = given["length"], len(carry), len(xs), len(order) - len(carry)
            shape = LoopShape(body.name.value, *sizes, given["reverse"], tuple(kept.values()), goes_on)
            with ir.InsertionPoint(scan):
                types = [scan.results[place].type for place in (*order, *kept)]
                made = loop(shape, [*carry, *xs, *captured], types)
        found = dict(zip((*order, *kept), made.results, strict=True))
        replace(scan, [found[place] for place in range(len(found))])
        return body


@dataclass
class _Names:
    """How many bodies there are."""

    count: int = field(default=0)

    def next(self) -> str:
        """The name of one more."""
        self.count += 1
        return f"body_{self.count - 1}"


def _kept(block: ir.Block, carries: int) -> dict[int, tuple[int, int]]:
    """The results that are what is carried, into each step or out of it: of which, and whether out of it (1)."""
    given = list(end_of(block).operands)
    places = {value: (number, 1) for number, value in reversed(list(enumerate(given[:carries])))}
    places |= {value: (number, 0) for number, value in enumerate(list(block.arguments)[:carries])}
    later = enumerate(given[carries:], start=carries)
    return {place: places[value] for place, value in later if value in places}


def _function_of(before: func.FuncOp, block: ir.Block, name: str, order: list[int], is_free: list[bool]) -> func.FuncOp:
    """A body as a function, which stands before another and gives what is at some places. `is_free` says of all that is
    carried whether it may be written over."""
    types = [argument.type for argument in block.arguments]
    with ir.InsertionPoint(before):
        function = func.FuncOp(name, (types, []), visibility="private")
    entry = function.add_entry_block([argument.location for argument in block.arguments])
    with ir.InsertionPoint(entry):
        results = copy_block(block, dict(zip(block.arguments, entry.arguments, strict=True)))
        results = [results[place] for place in order]
        func.ReturnOp(results)
    outputs = [value.type for value in results]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, outputs))
    named = [{"blu.name": ir.StringAttr.get(f"carry.{number}")} for number in range(len(is_free))]
    pairs = zip(named, is_free, strict=True)
    donated = [{**item, "blu.donated": ir.UnitAttr.get()} if free else item for item, free in pairs]
    function.arg_attrs = _padded(donated, len(types))
    function.attributes["res_attrs"] = _padded(named, len(outputs))
    function.attributes[LOOP_BODY] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(is_free))
    return function


def _padded(attributes: list[dict[str, ir.Attribute]], count: int) -> ir.ArrayAttr:
    rest = [{}] * (count - len(attributes))
    return ir.ArrayAttr.get([ir.DictAttr.get(item) for item in (*attributes, *rest)])
