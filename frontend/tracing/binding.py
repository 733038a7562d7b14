"""Arguments of a call by the names of the parameters, as Python binds them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from blu.errors import ArgumentError
from blu.frontend.tracing.tree import flatten, is_array


def parameters_of(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a function that can be traced. ArgumentError says why one cannot."""
    name = getattr(function, "__name__", repr(function))
    if not callable(function):
        raise ArgumentError(f"blu.jit takes a function, not a {type(function).__name__}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        kind = "a generator" if inspect.isgeneratorfunction(function) else "asynchronous"
        raise ArgumentError(
            f"{name} is {kind}, which cannot be compiled", advice="Compile a function that returns its results."
        )
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        raise ArgumentError(
            f"Python does not tell the parameters of {name}", advice="Call it in a function of your own."
        ) from None


def bind(name: str, parameters: inspect.Signature, arguments: tuple, keywords: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by parameter. ArgumentError names the parameters that are wrong.

    Parameters that are left to their defaults are not among them: the function sees those as it is traced, as the
    Python values that they are (`axis=-1` is then no tensor). Only defaults that hold arrays count as given.
    """
    try:
        bound = parameters.bind(*arguments, **keywords)
    except TypeError as error:
        raise ArgumentError(f"{name}{parameters}: {error}", advice=_advice(parameters, keywords)) from None
    given = set(bound.arguments)
    bound.apply_defaults()
    return {key: value for key, value in bound.arguments.items() if key in given or _holds_arrays(value)}


def _holds_arrays(value: Any) -> bool:
    return any(is_array(leaf) for leaf in flatten(value)[0])


def _advice(parameters: inspect.Signature, keywords: dict[str, Any]) -> str:
    """What is said of keywords that the function does not have."""
    sentences = []
    for keyword in keywords:
        if keyword not in parameters.parameters:
            close = get_close_matches(keyword, list(parameters.parameters), n=1)
            sentences.append(f"There is no {keyword!r}" + (f": did you mean {close[0]!r}?" if close else "."))
    return " ".join(sentences)
