"""The pass that writes gradients: the bodies of functions that are declared as the gradient of others."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import is_pure
from blu.dialects.core.regions import copy_block
from blu.passes.framework.base import Pass, find
from blu.passes.framework.kernels import callee_of
from blu.passes.graph.batch import BATCH_OF, write_batched
from blu.passes.graph.differentiate.backward import Backward
from blu.passes.graph.differentiate.bodies import prepare, write_out_rules, write_out_taken_rules
from blu.passes.graph.inline import callees, inline_call, reached, refuse_recursion

GRADIENT_OF = "blu.gradient_of"
PULLBACK_OF = "blu.pullback_of"
# On what is declared as a pullback: the results that it is given the gradients of.
PULLED = "blu.pulled_results"
# On a function: which of its results are what ops with effects in it have given: the first, and how many.
EFFECTS = "blu.effects"
WITH_RESPECT_TO = "blu.with_respect_to"
# On a gradient's function: how many of its ops, the first ones, are those of the function itself.
FORWARD = "blu.forward_ops"


@dataclass(frozen=True)
class Differentiate(Pass):
    """A declared gradient gets its body: the function's own operations, then their gradients in reverse order.

        func.func private @f(%x: tensor<f32>) -> tensor<f32> { %y = "blu.exp"(%x)  return %y }
        func.func private @f_gradient(tensor<f32>) -> (tensor<f32>, tensor<f32>)
            attributes {blu.gradient_of = @f, blu.with_respect_to = array<i64: 0>}

    becomes

        func.func private @f_gradient(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
          %y = "blu.exp"(%x)
          %one = "blu.constant"() {value = dense<1.0>}
          %g = "blu.multiply"(%one, %y)
          return %y, %g
        }

    Only the first result is differentiated; it must be a float scalar. Gradients come after all results, one for each
    argument listed. What the gradient does not need is not written. A gradient of a gradient is written from the inside
    out. `blu.forward_ops` on a gradient's function says for `blu-remat` how many of its ops are those of the function.

    What is declared with `blu.pullback_of` gives gradients alone. It takes what its function takes; then what ops with
    effects have given in a call of the function (`blu.effects` there says which results these are: the first, and how
    many), so that they do not happen again; then the gradients of the results that its `blu.pulled_results` lists.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        functions = {function.name.value: function for function in find(module, func.FuncOp)}
        sources = {name: _symbol(item) for name, item in functions.items() if _symbol(item)}
        refuse_recursion(self, functions, sources)
        while declared := [item for item in find(module, func.FuncOp) if item.is_external]:
            functions = {item.name.value: item for item in find(module, func.FuncOp)}  # a vjp may have declared some
            ready = [item for item in declared if self._is_ready(item, functions)]
            if not ready:
                self.fail(declared[0], f"'{declared[0].name.value}' is declared but is the gradient of nothing")
            for declaration in ready:
                self._write(declaration, functions)
        for function in find(module, func.FuncOp):
            write_out_rules(function)

    def _is_ready(self, declaration: func.FuncOp, functions: dict[str, func.FuncOp]) -> bool:
        """Whether the function that it is the gradient of, and all that it calls, have bodies."""
        primal = _symbol(declaration)
        if primal not in functions or functions[primal].is_external:
            return False
        called = reached(primal, lambda name: callees(functions[name]))
        return not any(functions[name].is_external for name in called)

    def _write(self, declaration: func.FuncOp, functions: dict[str, func.FuncOp]) -> None:
        primal = functions[_symbol(declaration)]
        while calls := list(find(primal, func.CallOp)):  # what is called may call others
            for call in calls:
                inline_call(call, functions[callee_of(call.operation)])
        if BATCH_OF in declaration.attributes:
            write_batched(self, declaration, primal)
            return
        prepare(primal)
        wanted = list(ir.DenseI64ArrayAttr(declaration.attributes[WITH_RESPECT_TO]))
        inputs, own = declaration.type.inputs, primal.type.inputs
        if inputs[: len(own)] != own:
            self.fail(declaration, f"it takes other values than @{primal.name.value} does, which come first")
        known = [argument.location for argument in primal.arguments]
        block = declaration.add_entry_block(known + [declaration.location] * (len(inputs) - len(own)))
        with ir.InsertionPoint(block), primal.operation.location:
            values = dict(zip(primal.arguments, block.arguments, strict=False))
            results = copy_block(primal.entry_block, values)
            backward = Backward(self, block, [block.arguments[index] for index in wanted])
            results = backward.decompose(results)
            if PULLBACK_OF in declaration.attributes:
                pulled = [results[index] for index in ir.DenseI64ArrayAttr(declaration.attributes[PULLED])]
                num_forward = self._write_pullback(primal, backward, results, pulled)
            else:
                num_forward = self._write_gradient(primal, backward, results)
        first_of_gradient = block.operations[num_forward].operation
        write_out_taken_rules(declaration)  # gradients of this one are those of what its users' rules compute
        num_forward = [item.operation for item in block.operations].index(first_of_gradient)
        declaration.attributes[FORWARD] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), num_forward)
        for name in (GRADIENT_OF, PULLBACK_OF, PULLED, WITH_RESPECT_TO):
            if name in declaration.attributes:
                del declaration.attributes[name]
        self.count("gradients")

    def _write_gradient(self, primal: func.FuncOp, backward: Backward, results: list[ir.Value]) -> int:
        """All results and the gradients of the first; how many ops are the function's own."""
        if not results:
            self.fail(
                primal,
                "only a float scalar has a gradient, the function returns nothing",
                advice="Return it, for example a loss reduced with blu.mean or blu.sum.",
            )
        func.ReturnOp([*results, *backward.run(results[0])])
        return backward.num_forward

    def _write_pullback(
        self, primal: func.FuncOp, backward: Backward, results: list[ir.Value], pulled: list[ir.Value]
    ) -> int:
        """Gradients, given those of several results; what ops with effects have given is given, too."""
        start, count = _effects_of(primal, len(results))
        given = list(backward.block.arguments)[len(primal.arguments) :]
        if [value.type for value in given] != [value.type for value in (*results[start : start + count], *pulled)]:
            takes = "what its function takes, what ops with effects have given, and gradients of results"
            self.fail(primal, f"a pullback takes {takes}")
        func.ReturnOp(backward.pull(pulled, given[count:]))
        return backward.num_forward - self._take_effects(backward, given[:count])

    def _take_effects(self, backward: Backward, given: list[ir.Value]) -> int:
        """Put what ops with effects have given, when they happened, in their place; how many ops those are."""
        forward = [item.operation for item in backward.block.operations][: backward.num_forward]
        acting = [operation for operation in forward if not is_pure(operation)]
        results = [result for operation in acting for result in operation.results]
        if [value.type for value in results] != [value.type for value in given]:
            advice = "Do it outside of what blu.vjp is given."
            self.fail(
                acting[-1], f"{acting[-1].name} has effects, which blu.vjp would have happen twice", advice=advice
            )
        for result, value in zip(results, given, strict=True):
            result.replace_all_uses_with(value)
        for operation in reversed(acting):
            operation.erase()
        return len(acting)


def _effects_of(function: func.FuncOp, num_results: int) -> tuple[int, int]:
    """Which results of a function are what ops with effects in it have given: the first, and how many."""
    if EFFECTS not in function.attributes:
        return num_results, 0
    start, count = ir.DenseI64ArrayAttr(function.attributes[EFFECTS])
    return start, count


def _symbol(declaration: func.FuncOp) -> str:
    """The function that one is declared as the gradient, the pullback or the batch of, or nothing."""
    for name in (GRADIENT_OF, PULLBACK_OF, BATCH_OF):
        if name in declaration.attributes:
            return ir.FlatSymbolRefAttr(declaration.attributes[name]).value
    return ""
