"""Transformations of functions: gradients. The frontend only declares them; the pass `differentiate` writes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.regions import close_over
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, TraceError
from blu.frontend.tracing.flat_function import FlatFunction
from blu.frontend.tracing.tree import TreeDef
from blu.frontend.tracing.user_location import user_line, user_location

# How many gradients of gradients there may be.
MAX_DEPTH = 24
_depth: ContextVar[int] = ContextVar("gradients", default=0)


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns (value, gradients) of a function whose (first) result is a float scalar.

    `argnums` are the positions of the arguments to differentiate with respect to; gradients have the nesting of those
    arguments (a tuple of them where several are given), with None in the place of what is no float tensor. With
    `has_aux`, the function returns (scalar, anything else), and so does the value.
    """

    @functools.wraps(function)
    def differentiated(*arguments: Any, **keywords: Any) -> Any:
        if not is_tracing():
            return HOOKS.compiler.run_transformed(differentiated, arguments, keywords)
        return _differentiate(function, arguments, keywords, argnums, has_aux)

    return differentiated


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradients of a function whose result is a float scalar; see `value_and_grad`.

    With `has_aux` it returns (gradients, anything else).
    """
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def differentiated(*arguments: Any, **keywords: Any) -> Any:
        value, gradients = both(*arguments, **keywords)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def _differentiate(
    function: Callable[..., Any], arguments: tuple, keywords: dict, argnums: int | Sequence[int], has_aux: bool
) -> Any:
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for position in positions:
        if not -len(arguments) <= position < len(arguments):
            raise ArgumentError(
                f"cannot differentiate with respect to argument {position} of {len(arguments)}", location=user_line()
            )
    flat = FlatFunction(function, arguments, keywords)
    leaves, tree = flat.leaves, flat.tree
    traced = _trace_function(flat)
    wanted = _wanted(tree, leaves, [position % len(arguments) for position in positions])
    outputs = traced.call_gradient(wanted, [leaves[index].is_weak for index in wanted])
    results, gradients = outputs[: traced.num_results], outputs[traced.num_results :]
    value = flat.result_tree.unflatten(results)
    if has_aux and not (isinstance(value, tuple) and len(value) == 2):
        raise TraceError("with has_aux the function must return (scalar, anything else)", location=user_line())
    by_leaf = dict(zip(wanted, gradients, strict=True))
    full = tree.unflatten([by_leaf.get(index) for index in range(len(leaves))])[0]
    selected = tuple(full[position % len(arguments)] for position in positions)
    return value, selected[0] if isinstance(argnums, int) else selected


def _wanted(tree: TreeDef, leaves: list[Any], positions: list[int]) -> list[int]:
    """The leaves to differentiate with respect to: the float tensors of some arguments."""
    prefixes = tuple(f"0.{position}" for position in positions)
    found = []
    for index, (name, leaf) in enumerate(zip(tree.names, leaves, strict=True)):
        inside = any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)
        if inside and isinstance(leaf, Tensor) and leaf.dtype.is_float:
            found.append(index)
    return found


class _TracedFunction:
    """A function traced into one of its own in the module that is being written."""

    def __init__(
        self,
        function: func.FuncOp,
        operands: list[ir.Value],
        places: dict[int, int],
        weak_results: list[bool],
    ):
        self.function = function
        self.operands = operands
        # For each tensor leaf of the arguments its position among the function's arguments.
        self.places = places
        # For each result whether it is a Python number.
        self.weak_results = weak_results

    @property
    def num_results(self) -> int:
        return len(self.function.type.results)

    def call_gradient(self, leaves: Sequence[int], weak_leaves: Sequence[bool]) -> list[Tensor]:
        """Declare the function's gradient and call it: all results, then the gradient for each leaf, weak as it is."""
        wanted = [self.places[leaf] for leaf in leaves]
        inputs = [value.type for value in self.operands]
        outputs = [*self.function.type.results, *(inputs[index] for index in wanted)]
        with ir.InsertionPoint(self.function):
            name = f"{self.function.name.value}_gradient"
            declaration = func.FuncOp(name, (inputs, outputs), visibility="private", loc=user_location())
        declaration.attributes["blu.gradient_of"] = ir.FlatSymbolRefAttr.get(self.function.name.value)
        declaration.attributes["blu.with_respect_to"] = ir.DenseI64ArrayAttr.get(wanted)
        call = func.CallOp(outputs, name, self.operands, loc=user_location())
        return [Tensor(*pair) for pair in zip(call.results, (*self.weak_results, *weak_leaves), strict=True)]


def _trace_function(flat: FlatFunction) -> _TracedFunction:
    operands = [tensor.value for tensor in flat.tensors]
    module = _module_of(ir.InsertionPoint.current.block)
    with ir.InsertionPoint(module.regions[0].blocks[0]):
        name = _fresh_name(module, flat.__name__)
        traced = func.FuncOp(name, ([value.type for value in operands], []), visibility="private", loc=user_location())
    block = traced.add_entry_block([user_location()] * len(operands))
    with ir.InsertionPoint(block), one_gradient_deeper(name):
        results = flat(*map(Tensor, block.arguments))
        func.ReturnOp([tensor.value for tensor in results], loc=user_location())
    operands += close_over([block])
    type_ = ir.FunctionType.get([item.type for item in block.arguments], [tensor.value.type for tensor in results])
    traced.attributes["function_type"] = ir.TypeAttr.get(type_)
    places = {leaf: place for place, leaf in enumerate(flat.places)}
    return _TracedFunction(traced, operands, places, flat.weak_results)


@contextmanager
def one_gradient_deeper(name: str) -> Iterator[None]:
    """Count the gradients that are being traced one inside of another: a function may ask for its own without end."""
    depth = _depth.get() + 1
    if depth > MAX_DEPTH:
        message = f"{name} is {MAX_DEPTH} gradients deep: its gradient asks for itself, or gradients are nested too far"
        raise TraceError(message, location=user_line())
    token = _depth.set(depth)
    try:
        yield
    finally:
        _depth.reset(token)


def _module_of(block: ir.Block) -> ir.Operation:
    operation = block.owner.operation
    while operation.name != "builtin.module":
        operation = operation.parent.operation
    return operation


def _fresh_name(module: ir.Operation, wish: str) -> str:
    taken = {
        ir.StringAttr(item.operation.attributes["sym_name"]).value for item in module.regions[0].blocks[0].operations
    }
    base = wish if wish.isidentifier() and wish != "main" else "function"
    names = [base, *(f"{base}_{number}" for number in range(1, len(taken) + 2))]
    return next(name for name in names if name not in taken and f"{name}_gradient" not in taken)
