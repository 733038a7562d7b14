"""`blu.jvp` and `blu.linearize`: derivatives along directions, which are gradients of gradients' inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError
from blu.frontend.nested_gradients import Given, zeros_like
from blu.frontend.tracing.messages import collecting
from blu.frontend.tracing.tree import flatten
from blu.frontend.tracing.user_location import user_line
from blu.frontend.vjp import vjp


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The function's result, and its derivative along `tangents`: how the result moves when the primals do.

        y, dy = blu.jvp(blu.sin, (x,), (dx,))             # dy = cos(x) * dx

    `tangents` has one for each of `primals`, nested as it is, of its shapes and dtypes, with None for zeros and in the
    place of what is no float tensor. The derivative is nested as the result is, with None in the place of what is no
    float. With `has_aux` the function returns (result, anything else), and (result, derivative, anything else) is
    returned.

    What takes gradients back is linear in them, so that its own gradient takes directions forward (Christianson,
    "Reverse accumulation and implicit functions"): nothing of what goes back is computed, and every op that has a
    gradient, or a `blu.custom_vjp`, has a derivative. In steps of `blu.scan`, what is carried is computed twice.
    `blu.while_loop`, which has no gradient, has a derivative: its steps carry how the values move, and nothing is kept.

    Raises ArgumentError for tangents of another number or nesting, ShapeError or DTypeError for those of other types.
    """
    if not is_tracing():

        def pushed(primals: Any, tangents: Any) -> Any:
            return jvp(fun, primals, tangents, has_aux)

        return HOOKS.compiler.run_transformed(pushed, (_tuple("primals", primals), _tuple("tangents", tangents)), {})
    result, push, *aux = linearize(fun, *_tuple("primals", primals), has_aux=has_aux)
    return (result, push(*_tuple("tangents", tangents)), *aux)


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The function's result, and the function that gives its derivative along tangents of the primals: see `jvp`.

        y, push = blu.linearize(fun, x)
        dy = push(dx)

    In a compiled function, what the derivative needs of the function is computed once, however often `push` is called.
    Called on arrays, the result and each call of `push` are programs of their own, which compute it again.
    ArgumentError for tangents of another number or nesting.
    """
    if is_tracing():
        return _in_trace(fun, primals, has_aux)
    result, *aux = _result_on_arrays(fun, primals, has_aux)

    def push(*tangents: Any) -> Any:
        if is_tracing():
            return _in_trace(fun, primals, has_aux)[1](*tangents)

        def pushed(primals: Any, tangents: Any) -> Any:
            with collecting():  # what the function tells has been told with its result
                return _in_trace(fun, primals, has_aux)[1](*tangents)

        return HOOKS.compiler.run_transformed(pushed, (primals, tangents), {})

    return (result, push, *aux)


def _result_on_arrays(fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, ...]:
    result = vjp(fun, *primals, has_aux=has_aux)  # which says what cannot be differentiated
    return (result[0], *result[2:])


def _in_trace(fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, ...]:
    given = tuple(_as_tensors(primal) for primal in primals)
    result, pull_back, *aux = vjp(fun, *given, has_aux=has_aux)
    leaves, tree = flatten(result)
    zeros = tree.unflatten([zeros_like(leaf) if leaf.dtype.has_gradient else None for leaf in leaves])

    def back(cotangents: Any) -> list[Tensor]:
        return [leaf for leaf in flatten(pull_back(cotangents))[0] if leaf is not None]

    _, forward = vjp(back, zeros)

    def push(*tangents: Any) -> Any:
        if len(tangents) != len(given):
            message = f"jvp: there are {len(tangents)} tangents for {len(given)} primals"
            raise ArgumentError(message, location=user_line(), advice="Give one for each, or None.")
        found = Given("jvp: is given for primal", "tangent", user_line())
        pairs = enumerate(zip(given, tangents, strict=True))
        return forward([leaf for place, pair in pairs for leaf in found.matched(str(place), *pair)])[0]

    return (result, push, *aux)


def _as_tensors(primal: Any) -> Any:
    """A primal with tensors in the place of arrays and of floats."""
    leaves, tree = flatten(primal)
    return tree.unflatten(
        [as_tensor(leaf) if isinstance(leaf, float) or hasattr(leaf, "__array__") else leaf for leaf in leaves]
    )


def _tuple(what: str, given: Any) -> tuple[Any, ...]:
    if not isinstance(given, tuple | list):
        message = f"jvp: {what} is a {type(given).__name__}, and no tuple"
        raise ArgumentError(
            message, location=user_line(), advice=f"Write ({what[:-1]},) for a function of one argument."
        )
    return tuple(given)
