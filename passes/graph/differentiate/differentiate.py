"""The pass that writes gradients: the bodies of functions that are declared as the gradient of others."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.regions import copy_block
from blu.passes.framework.base import Pass, find
from blu.passes.graph.differentiate.backward import Backward
from blu.passes.graph.inline import callees, inline_call, reached, refuse_recursion

GRADIENT_OF = "blu.gradient_of"
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
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        functions = {function.name.value: function for function in find(module, func.FuncOp)}
        sources = {name: _symbol(item) for name, item in functions.items() if GRADIENT_OF in item.attributes}
        refuse_recursion(self, functions, sources)
        while declared := [item for item in find(module, func.FuncOp) if item.is_external]:
            functions = {item.name.value: item for item in find(module, func.FuncOp)}  # a vjp may have declared some
            ready = [item for item in declared if self._is_ready(item, functions)]
            if not ready:
                self.fail(declared[0], f"'{declared[0].name.value}' is declared but is the gradient of nothing")
            for declaration in ready:
                self._write(declaration, functions)

    def _is_ready(self, declaration: func.FuncOp, functions: dict[str, func.FuncOp]) -> bool:
        """Whether the function that it is the gradient of, and all that it calls, have bodies."""
        if GRADIENT_OF not in declaration.attributes:
            return False
        primal = _symbol(declaration)
        if primal not in functions or functions[primal].is_external:
            return False
        called = reached(primal, lambda name: callees(functions[name]))
        return not any(functions[name].is_external for name in called)

    def _write(self, declaration: func.FuncOp, functions: dict[str, func.FuncOp]) -> None:
        primal = functions[_symbol(declaration)]
        while calls := list(find(primal, func.CallOp)):  # what is called may call others
            for call in calls:
                inline_call(call, functions[ir.FlatSymbolRefAttr(call.operation.attributes["callee"]).value])
        wanted = list(ir.DenseI64ArrayAttr(declaration.attributes[WITH_RESPECT_TO]))
        block = declaration.add_entry_block([argument.location for argument in primal.arguments])
        with ir.InsertionPoint(block), primal.operation.location:
            values = dict(zip(primal.arguments, block.arguments, strict=True))
            results = copy_block(primal.entry_block, values)
            if not results:
                self.fail(
                    primal,
                    "only a float scalar has a gradient, the function returns nothing",
                    advice="Return it, for example a loss reduced with blu.mean or blu.sum.",
                )
            backward = Backward(self, block, [block.arguments[index] for index in wanted])
            gradients = backward.run(results[0])
            func.ReturnOp([*results, *gradients])
        count = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), backward.num_forward)
        declaration.attributes[FORWARD] = count
        del declaration.attributes[GRADIENT_OF], declaration.attributes[WITH_RESPECT_TO]
        self.count("gradients")


def _symbol(declaration: func.FuncOp) -> str:
    return ir.FlatSymbolRefAttr(declaration.attributes[GRADIENT_OF]).value
