"""Looking into compiled functions: `blu.debug.print` and `blu.debug.callback`, with JAX's names and meanings.

@blu.jit
def step(w, x):
    y = x @ w
    blu.debug.print("norm {norm:.3f} of {shape}", norm=blu.vector_norm(y), shape=y.shape)
    return blu.tanh(y)
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from blu.dialects.tensor.function import is_tracing
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError
from blu.frontend.tracing.messages import Call, tell
from blu.frontend.tracing.tree import flatten
from blu.frontend.tracing.user_location import user_line

__all__ = ["callback", "print"]


def print(text: str, /, *values: Any, **named: Any) -> None:
    """Print `text.format(*values, **named)` each time a compiled function runs, with the numbers of tensors.

        blu.debug.print("loss {} at {lr:.1e}", loss, lr=lr)

    Tensors of any shape are printed as NumPy's arrays; scalars as Python's numbers, which take format specifications.
    Values may be nested, and what is no tensor is printed as it is. Text is printed when the run is over, in the order
    of the program; see `callback` for gradients, loops and `blu.vmap`. ArgumentError for a text that does not fit its
    values.
    """
    if not isinstance(text, str):
        message = f"debug.print: the first argument is a {type(text).__name__}, and no text"
        raise ArgumentError(message, location=user_line(), advice='Write blu.debug.print("x is {x}", x=x).')
    _check_format(text, values, named)
    _call(lambda *found, **others: _write(text, found, others), values, named, "debug.print")


def callback(function: Callable[..., Any], *values: Any, **named: Any) -> None:
    """Call `function(*values, **named)` each time a compiled function runs, with NumPy's arrays in place of tensors.

        blu.debug.callback(lambda grad: history.append(float(abs(grad).max())), grad)

    It is called once in each run, when the run is over, in the order of the program, whether anything reads its result
    or not; what it returns is not used. Programs stay whole: on a GPU the arrays are copied to the host after the run,
    and a CUDA graph is captured as without it. The values take memory until then.

    In a function that is differentiated, it is called with the values of the forward pass, once, also under
    `blu.checkpoint`. In a loop (`blu.scan`, `blu.fori_loop`) it is called for each step, and under `blu.vmap` for each
    slice, one after the other. In what `blu.cond`, `blu.switch` and `blu.custom_vjp` are given, TraceError. Called
    outside of compiled functions, it is called at once. On several ranks each calls it with its own values.

    CallbackError, with your line, where `function` raises. A `.blu` file holds no function of Python's: there the
    values are further results of the program. ArgumentError for arguments that are no tensors or arrays.
    """
    if not callable(function):
        message = f"debug.callback: the first argument is a {type(function).__name__}, and no function"
        raise ArgumentError(message, location=user_line())
    _call(function, values, named, f"debug.callback: {getattr(function, '__name__', 'the function')}")


def _call(function: Callable[..., Any], values: tuple[Any, ...], named: dict[str, Any], name: str) -> None:
    leaves, tree = flatten((values, named))
    call = Call(function, tuple(map(_on_host, leaves)), tree, name, user_line())
    if is_tracing():
        tell(call)
    else:
        call.deliver(iter(()))


def _on_host(leaf: Any) -> Any:
    """An array as NumPy's."""
    return leaf if isinstance(leaf, Tensor) or not hasattr(leaf, "__array__") else np.asarray(leaf)


def _write(text: str, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    builtins.print(_formatted(text, values, named), flush=True)


def _formatted(text: str, values: tuple[Any, ...], named: dict[str, Any]) -> str:
    leaves, tree = flatten((values, named))
    values, named = tree.unflatten([_as_number(leaf) for leaf in leaves])
    return text.format(*values, **named)


def _as_number(value: Any) -> Any:
    """A scalar as Python's number, which takes the specifications that numbers do."""
    if not isinstance(value, np.ndarray | np.generic) or value.ndim:
        return value
    found = value.item()
    return found if isinstance(found, bool | int | float | complex) else float(found)


def _check_format(text: str, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Whether the text takes such values: with zeros in their place."""
    leaves, tree = flatten((values, named))
    zeros = [np.zeros(leaf.shape, leaf.dtype.numpy) if isinstance(leaf, Tensor) else _on_host(leaf) for leaf in leaves]
    values, named = tree.unflatten(zeros)
    try:
        _formatted(text, values, named)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        message = f"debug.print: {text!r} does not take these values: {type(error).__name__}: {error}"
        advice = 'Name each value that the text has: blu.debug.print("x is {x}", x=x).'
        raise ArgumentError(message, location=user_line(), advice=advice) from None
