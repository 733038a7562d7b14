"""The pass that puts the bodies of called functions where they are called."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.mlir import func, ir
from blu.passes.base import Pass, find


@dataclass(frozen=True)
class Inline(Pass):
    """Calls of private functions are replaced by their bodies, and the functions are dropped.

        %1 = call @square(%0)            func.func private @square(%x) { %y = "blu.multiply"(%x, %x)  return %y }

    becomes

        %1 = "blu.multiply"(%0, %0)
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        functions = {function.name.value: function for function in find(module, func.FuncOp)}
        self._refuse_recursion(functions)
        while calls := [call for call in find(module, func.CallOp) if _callee(call) in functions]:
            for call in calls:
                inline_call(call, functions[_callee(call)])
        for function in functions.values():
            if "sym_visibility" in function.attributes:  # private: nobody else can call it
                function.operation.erase()

    def _refuse_recursion(self, functions: dict[str, func.FuncOp]) -> None:
        """Find a function that calls itself, directly or through others: inlining it would not end."""
        calls = {name: [call for call in find(item, func.CallOp)] for name, item in functions.items()}
        callees = {name: {_callee(call) for call in found} for name, found in calls.items()}
        for name, found in calls.items():
            reached: set[str] = set()
            waiting = list(callees[name])
            while waiting:
                callee = waiting.pop()
                if callee not in reached:
                    reached.add(callee)
                    waiting.extend(callees.get(callee, ()))
            if name in reached:
                self.fail(found[0], f"@{name} calls itself, and a program's length is fixed when it is compiled")


def _callee(call: func.CallOp) -> str:
    return ir.FlatSymbolRefAttr(call.operation.attributes["callee"]).value


def inline_call(call: func.CallOp, function: func.FuncOp) -> None:
    """Replace one call by a copy of the function's body."""
    values = dict(zip(function.arguments, call.operation.operands, strict=True))
    with ir.InsertionPoint(call):
        results = copy_body(function, values)
    for old, new in zip(call.operation.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.operation.erase()


def copy_body(function: func.FuncOp, values: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Copy a function's operations to the insertion point, operands mapped by `values`; what it returns, mapped."""
    for operation in function.entry_block.operations:
        operation = operation.operation
        if operation.name == "func.return":
            return [values[value] for value in operation.operands]
        clone = operation.clone()
        for index, operand in enumerate(operation.operands):
            clone.operands[index] = values[operand]
        values.update(zip(operation.results, clone.results, strict=True))
    raise AssertionError("a function ends in a return")
