"""Arguments of a call by the names of the parameters, as Python binds them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any

from blu.errors import ArgumentError, suggestion
from blu.frontend.tracing.tree import Static, flatten, is_array


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


def bind(
    name: str, parameters: inspect.Signature, arguments: tuple, keywords: dict[str, Any], static: Collection[str] = ()
) -> dict[str, Any]:
    """The arguments of a call by parameter; those that are `static` as such. ArgumentError names what is wrong.

    Parameters that are left to their defaults are not among them: the function sees those as it is traced, as the
    Python values that they are (`axis=-1` is then no tensor). Only defaults that hold arrays count as given.
    """
    try:
        bound = parameters.bind(*arguments, **keywords)
    except TypeError as error:
        raise ArgumentError(f"{name}{parameters}: {error}", advice=_advice(parameters, keywords)) from None
    given = set(bound.arguments)
    bound.apply_defaults()
    found = {key: value for key, value in bound.arguments.items() if key in given or _holds_arrays(value)}
    return found | {key: _as_static(key, found[key]) for key in static if key in found}


def _as_static(name: str, value: Any) -> Static:
    """A value that is part of the program. ArgumentError where it cannot be: programs are told apart by such values."""
    if _holds_arrays(value):
        raise ArgumentError(
            f"{name} is in static_argnames, and is or holds an array",
            advice=f"Leave {name} out of static_argnames: arrays are values at run time.",
        )
    return Static(value)


def without_static(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the function takes them: of what is part of the program its value."""
    return {key: value.value if isinstance(value, Static) else value for key, value in arguments.items()}


def check_names(name: str, parameters: inspect.Signature, names: str | Collection[str], what: str) -> frozenset[str]:
    """Names of parameters, or one name, that something is said of. ArgumentError for those that are none."""
    names = (names,) if isinstance(names, str) else names
    unknown = sorted(set(names) - set(parameters.parameters))
    if unknown:
        guess = suggestion(unknown[0], list(parameters.parameters), most=1)
        advice = guess[:1].upper() + guess[1:]
        raise ArgumentError(f"{name} has no parameter {', '.join(unknown)} {what}", advice=advice)
    return frozenset(names)


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
