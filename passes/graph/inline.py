"""The pass that puts the bodies of called functions where they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.regions import copy_block
from blu.passes.framework.base import Pass, find
from blu.passes.framework.kernels import callee_of


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
        refuse_recursion(self, functions)
        while calls := [call for call in find(module, func.CallOp) if callee_of(call) in functions]:
            for call in calls:
                inline_call(call, functions[callee_of(call)])
        for function in functions.values():
            if "sym_visibility" in function.attributes:  # private: nobody else can call it
                function.operation.erase()


def callees(function: func.FuncOp) -> set[str]:
    """The names of the functions that one calls."""
    return {callee_of(call) for call in find(function, func.CallOp)}


def reached(name: str, steps: Callable[[str], Iterable[str]]) -> set[str]:
    """All that some steps lead to from a name; the name itself where they lead back to it."""
    found: set[str] = set()
    waiting = list(steps(name))
    while waiting:
        step = waiting.pop()
        if step not in found:
            found.add(step)
            waiting.extend(steps(step))
    return found


def refuse_recursion(
    owner: Pass, functions: dict[str, func.FuncOp], gradient_of: Mapping[str, str] | None = None
) -> None:
    """Find a function that calls itself, directly or through others: inlining it would not end.

    `gradient_of` names for each declared gradient the function that it is the gradient of, whose body it will hold.
    """
    calls = {name: callees(function) for name, function in functions.items()}
    needs = calls | {name: {source} for name, source in (gradient_of or {}).items()}
    for name, function in functions.items():
        if name in reached(name, lambda step: needs.get(step, ())):
            without_gradients = name in reached(name, lambda step: calls.get(step, ()))
            does = "calls itself" if without_gradients else "asks for its own gradient"
            where = next(iter(find(function, func.CallOp)), function)
            owner.fail(where, f"@{name} {does}, and a program's length is fixed when it is compiled")


def inline_call(call: func.CallOp, function: func.FuncOp) -> None:
    """Replace one call by a copy of the function's body."""
    values = dict(zip(function.arguments, call.operation.operands, strict=True))
    with ir.InsertionPoint(call):
        results = copy_block(function.entry_block, values)
    for old, new in zip(call.operation.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.operation.erase()
