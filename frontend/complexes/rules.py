"""How a function on real tensors is one on complex tensors: by a function of its own, or by its parts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import DType
from blu.dialects.tensor.complex_tensor import Complex, is_complex
from blu.dialects.tensor.function import COMPLEX_RULES
from blu.dialects.tensor.promotion import as_tensor, is_python_scalar
from blu.dialects.tensor.refusals import bound, shown
from blu.errors import ArgumentError
from blu.frontend.complexes.parts import made, parts_of, zeros_of

Function = Callable[..., Any]


def complex_of(*functions: Function) -> Callable[[Function], Function]:
    """Let a function be what public functions are of complex numbers."""

    def register(rule: Function) -> Function:
        COMPLEX_RULES.update({function: _with_real_options(function, rule) for function in functions})
        return rule

    return register


# Parameters by which no function takes complex numbers. That they are none is asked here: a rule passes them on, to the
# function that it is a rule of, which would ask the rule again.
_OPTIONS = frozenset("rows columns axis axes keepdims correction offset ord norm size shape precision n m".split())


def _with_real_options(function: Function, rule: Function) -> Function:
    @functools.wraps(rule)
    def run(*arguments: Any, **keywords: Any) -> Any:
        given = bound(_signature(function), function.__name__, arguments, keywords).arguments
        for name, value in given.items():
            is_array = name == "dtype" and not isinstance(value, str | type | np.dtype | DType | None)
            if is_array or (name in _OPTIONS and is_complex(value)):
                reason = "no dtype" if is_array else "not real"
                raise ArgumentError(f"{name} is {shown(value)}, and {reason}")
        return rule(*arguments, **keywords)

    return run


@cache
def _signature(function: Function) -> inspect.Signature:
    return inspect.signature(function)


def by_parts(names: str, *functions: Function) -> None:
    """Let functions do to the imaginary part what they do to the real one, of the parameters in `names`.

    Such a function moves numbers, or adds them up: it is linear in all of these parameters taken together.
    """
    for function in functions:
        COMPLEX_RULES[function] = _by_parts(function, names.split())


def _by_parts(function: Function, names: Sequence[str]) -> Function:
    def run(*arguments: Any, **keywords: Any) -> Any:
        bound = _signature(function).bind(*arguments, **keywords)
        given = {name: bound.arguments[name] for name in names if name in bound.arguments}
        if not any(map(is_complex, given.values())):
            return function.__wrapped__(*arguments, **keywords)  # type: ignore[attr-defined]
        halves = {name: _halves(value) for name, value in given.items()}
        return _together(*(_called(function, bound, {name: halves[name][part] for name in given}) for part in (0, 1)))

    return run


def _called(function: Function, bound: inspect.BoundArguments, instead: dict[str, Any]) -> Any:
    changed = inspect.BoundArguments(bound.signature, bound.arguments | instead)  # type: ignore[arg-type]
    return function(*changed.args, **changed.kwargs)


def _halves(value: Any) -> tuple[Any, Any]:
    """The real parts and the imaginary ones of a value, or of those in a list: zeros of real numbers."""
    if value is None:
        return None, None
    if isinstance(value, list | tuple) and any(map(_holds_tensor, value)):
        pairs = list(map(_halves, value))
        return [real for real, _ in pairs], [imag for _, imag in pairs]
    if isinstance(value, list | tuple):
        value = np.asarray(value)
    real, imag = parts_of(value)
    if imag is not None:
        return real, imag
    return (real, type(real)(0)) if is_python_scalar(real) else (real, zeros_of(as_tensor(real)))


def _holds_tensor(value: Any) -> bool:
    return hasattr(value, "shape")


def _together(real: Any, imag: Any) -> Any:
    """Complex tensors in the nesting that both results have."""
    if isinstance(real, list | tuple):
        return type(real)(_together(*pair) for pair in zip(real, imag, strict=True))
    return made(real, imag)


def multilinear(names: str, *functions: Function) -> None:
    """Let functions, which are linear in each of the parameters in `names`, take complex numbers there.

    The result is the sum of those of all parts. For two complex factors these are four real products, and not the
    three of Gauss: those round the sums of parts, so that a small part has the error of a large one.
    """
    for function in functions:
        COMPLEX_RULES[function] = _multilinear(function, names.split())


def _multilinear(function: Function, names: Sequence[str]) -> Function:
    def run(*arguments: Any, **keywords: Any) -> Any:
        bound = _signature(function).bind(*arguments, **keywords)
        for name in names:
            if name in bound.arguments and is_complex(value := bound.arguments[name]):
                real, imag = _factor_parts(value)
                return _sum_of_parts(*(_called(function, bound, {name: part}) for part in (real, imag)))
        return function.__wrapped__(*arguments, **keywords)  # type: ignore[attr-defined]

    return run


def _factor_parts(value: Any) -> tuple[Any, Any]:
    """The parts of the first complex number among the operands of a variadic parameter, or of one operand."""
    if not isinstance(value, tuple):
        return parts_of(value)
    place = next(place for place, item in enumerate(value) if is_complex(item))
    real, imag = ((*value[:place], part, *value[place + 1 :]) for part in parts_of(value[place]))
    return real, imag


def _sum_of_parts(real: Any, imag: Any) -> Any:
    """real + i * imag, where both may be complex."""
    if not isinstance(imag, Complex):
        return made(real, imag)
    return Complex(real.real - imag.imag, real.imag + imag.real)


def each(rules: Iterable[tuple[str, Sequence[Function]]], how: Callable[..., None]) -> None:
    """Make the rules of a table."""
    for names, functions in rules:
        how(names, *functions)
