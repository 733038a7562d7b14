"""Arguments that a public function cannot use at all: Python's errors about them, told as errors of the function.

Nothing is looked at before something has failed. Then the parameters' annotations say which argument is at fault.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any

from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, BluError, OutOfRangeError, ShapeError, suggestion

Function = Callable[..., Any]


def bound(
    signature: inspect.Signature, name: str, arguments: tuple, keywords: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments by parameter. TypeError in Python's words for those that there are not, with what may be meant."""
    try:
        return signature.bind(*arguments, **keywords)
    except TypeError as error:
        unknown = next((word for word in keywords if word not in signature.parameters), None)
        guess = suggestion(unknown, list(signature.parameters), most=1) if unknown else ""
        raise TypeError(f"{name}() {error}" + (f": {guess}" if guess else "")) from None


def refusal(function: Function, arguments: tuple, keywords: dict[str, Any], error: Exception) -> BluError:
    """The error for arguments that made Python raise one: which of them is not what its parameter says, or that one.

    TypeError for arguments that there are not.
    """
    given = bound(inspect.signature(function), function.__name__, arguments, keywords)
    for name, value in given.arguments.items():
        parameter = given.signature.parameters[name]
        if not fits(value, str(parameter.annotation)):
            wanted = " or ".join(str(parameter.annotation).split(" | "))
            return ArgumentError(f"{name} is {shown(value)}, and not {wanted}")
    kind = next(ours for theirs, ours in _KINDS.items() if isinstance(error, theirs))
    return kind(f"does not take {', '.join(map(shown, given.arguments.values()))}: {error}")


def fits(value: Any, annotation: str) -> bool:
    """Whether a value is what an annotation says; of those that are not looked at, each is."""
    return any(_CHECKS[kind](value) if kind in _CHECKS else True for kind in _kinds(annotation))


def shown(value: Any) -> str:
    """An argument in an error: an array by its shape and dtype, others as Python prints them, cut."""
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type):
        return str(value.type) if isinstance(value, Tensor) else f"{value.dtype}{list(value.shape)}"
    text = value.__name__ if isinstance(value, type) or inspect.isroutine(value) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_LONGEST = 60
# What Python raises of arguments that are something else than what a function takes, and what that is for users.
_KINDS = {
    TypeError: ArgumentError,
    AttributeError: ArgumentError,
    KeyError: ArgumentError,
    ValueError: ShapeError,
    IndexError: OutOfRangeError,
}
OF_ARGUMENTS = tuple(_KINDS)


def _kinds(annotation: str) -> list[str]:
    """The alternatives of an annotation, of which collections are told apart by nothing but their names."""
    return [each.strip().partition("[")[0] for each in annotation.split(" | ")]


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not getattr(value, "shape", ())


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes | complex) or getattr(value, "shape", ()):
        return False
    return isinstance(value, Tensor) or hasattr(value, "__float__") or hasattr(value, "__index__")


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | int) or (str(getattr(value, "dtype", "")) == "bool" and not value.shape)


def _is_collection(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": _is_integer,
    "float": _is_number,
    "bool": _is_truth,
    "str": lambda value: isinstance(value, str),
    "None": lambda value: value is None,
    **dict.fromkeys(("Sequence", "tuple", "list", "Iterable"), _is_collection),
    "Callable": callable,
}
