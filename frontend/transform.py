"""Transformations of functions: gradients. The frontend only declares them; the pass `differentiate` writes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.complex_tensor import Complex
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, TraceError
from blu.frontend.tracing.flat_function import FlatFunction
from blu.frontend.tracing.traced_function import trace_function
from blu.frontend.tracing.tree import TreeDef
from blu.frontend.tracing.user_location import user_line


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns (value, gradients) of a function whose (first) result is a float scalar.

    The gradient with respect to complex numbers z = x + iy is dx + i dy, as in PyTorch: against it the result falls.

    `argnums` are the positions of the arguments to differentiate with respect to; gradients have the nesting of those
    arguments (a tuple of them where several are given), with None in the place of what is no float tensor. With
    `has_aux`, the function returns (scalar, anything else), and so does the value. TraceError for a function that gives
    something else; ArgumentError for an argument that there is not.
    """

    @functools.wraps(function)
    def differentiated(*arguments: Any, **keywords: Any) -> Any:
        if not is_tracing():
            return HOOKS.compiler.run_transformed(differentiated, arguments, keywords)
        return _differentiate(function, arguments, keywords, argnums, has_aux)

    return differentiated


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradients of a function whose result is a float scalar; see `value_and_grad`.

    With `has_aux` it returns (gradients, anything else). It raises what that does: TraceError and ArgumentError.
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
    flat = FlatFunction(function, arguments, keywords, hands_on=True)
    leaves, tree = flat.leaves, flat.tree
    traced = trace_function(flat)
    wanted = differentiable(tree, leaves, [position % len(arguments) for position in positions])
    results, gradients = traced.call_gradient(wanted, [leaves[index].is_weak for index in wanted])
    value = flat.results_of(results)
    if has_aux and not (isinstance(value, tuple) and len(value) == 2):
        raise TraceError("with has_aux the function must return (scalar, anything else)", location=user_line())
    _check_is_real(value[0] if has_aux else value)
    by_leaf = dict(zip(wanted, gradients, strict=True))
    full = tree.unflatten([by_leaf.get(index) for index in range(len(leaves))])[0]
    selected = tuple(full[position % len(arguments)] for position in positions)
    return value, selected[0] if isinstance(argnums, int) else selected


def _check_is_real(value: Any) -> None:
    """TraceError for a complex result, of which there is no one gradient."""
    if isinstance(value, Complex):
        advice = "Take blu.real or blu.absolute of it; blu.vjp takes the gradient of each part."
        message = f"grad: the function's result is {value.type}, and a gradient is that of a real number"
        raise TraceError(message, location=user_line(), advice=advice)


def differentiable(tree: TreeDef, leaves: list[Any], positions: Sequence[int]) -> list[int]:
    """The leaves to differentiate with respect to: the float tensors of some arguments, but for buffers."""
    prefixes = tuple(f"0.{position}" for position in positions)
    found = []
    for index, (name, leaf) in enumerate(zip(tree.names, leaves, strict=True)):
        inside = any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)
        if inside and isinstance(leaf, Tensor) and leaf.dtype.has_gradient and index not in tree.buffers:
            found.append(index)
    return found
