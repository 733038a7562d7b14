"""NumPy's functions in place of the public API's, on the host: for dtypes that no kernel computes in."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import as_dtype, bool_, complex_dtype
from blu.errors import DTypeError, UnsupportedError

Function = Callable[..., Any]


def _argsort(x: np.ndarray, axis: int | None = -1, descending: bool = False, stable: bool = True) -> np.ndarray:
    """NumPy sorts upwards alone: downwards, what is flipped is sorted, so that equals keep their order."""
    if axis is None:
        return _argsort(x.ravel(), 0, descending, stable)
    if not descending:
        return np.argsort(x, axis, stable=stable)
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, stable=stable), axis)


def _sort(x: np.ndarray, axis: int | None = -1, descending: bool = False, stable: bool = True) -> np.ndarray:
    x = np.asarray(x)
    return np.take_along_axis(x, _argsort(x, axis, descending, stable), axis)


def _expm1(x: np.ndarray) -> np.ndarray:
    """Of complex numbers. NumPy's has NaN for an infinity, or for -1, where the imaginary part is 0 or not finite."""
    return np.where(np.abs(np.real(x)) < 1, np.expm1(x), np.exp(x) - 1)


LINEAR_ALGEBRA = (
    "cholesky det eigh eigvalsh inv lstsq matrix_power matrix_rank norm pinv qr slogdet solve svd svdvals cond".split()
)
# NumPy's functions where they are not those of the name in its main namespace.
NUMPYS: dict[str, Function] = {
    **{name: getattr(np.linalg, name) for name in ("diagonal", "matrix_norm", "trace", "vector_norm")},
    **{name: getattr(np.linalg, name) for name in LINEAR_ALGEBRA},
    "argsort": _argsort,
    "expm1": _expm1,
    "sort": _sort,
}
# What NumPy calls parameters: of functions, by the names that they have here.
_PARAMETERS = {
    "tril": {"offset": "k"},
    "triu": {"offset": "k"},
    "pad": {"value": "constant_values"},
    "full_like": {"value": "fill_value"},
}


def has_numpys(function: Function) -> bool:
    """Whether NumPy has a function of a function's name."""
    return function.__name__ in NUMPYS or callable(getattr(np, function.__name__, None))


def numpys(function: Function, bound: inspect.BoundArguments) -> tuple[Function, list, dict[str, Any]]:
    """NumPy's function of a function's name, and what it takes of arguments: what has a default goes by name.

    UnsupportedError where it does not take what is given.
    """
    name = function.__name__
    if bound.arguments.get("dtype") is not None:
        bound.arguments["dtype"] = _numpys_dtype(name, bound.arguments["dtype"])
    found = NUMPYS.get(name) or getattr(np, name)
    given, named = _sorted_out(bound)
    called, known = _PARAMETERS.get(name, {}), _parameters(found)
    options = {}
    for parameter, value in named.items():
        if known is None or called.get(parameter, parameter) in known:
            options[called.get(parameter, parameter)] = value
        elif value is not bound.signature.parameters[parameter].default:
            raise UnsupportedError(f"{name}: no kernel computes in this dtype, and NumPy's takes no {parameter}")
    return found, given, options


def _numpys_dtype(name: str, dtype: Any) -> np.dtype:
    """NumPy's dtype for one that users name. DTypeError where complex numbers would lose their imaginary parts."""
    if (wanted := complex_dtype(dtype)) is not None:
        return wanted.numpy
    real = as_dtype(dtype)
    if name in _CASTING and not (name == "astype" and real == bool_):
        advice = "Take blu.real or blu.absolute of them."
        raise DTypeError(f"{name}: complex numbers do not become {real}", advice=advice)
    return real.numpy


_CASTING = ("astype", "sum", "mean", "prod", "cumsum", "cumprod")
"""What makes numbers of a dtype of what it is given."""


def _sorted_out(bound: inspect.BoundArguments) -> tuple[list, dict[str, Any]]:
    """The arguments of parameters without a default in order, and the others by name."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            given.extend(value)
        elif parameter.default is parameter.empty:
            given.append(value)
        else:
            named[name] = value
    return given, named


@functools.lru_cache(maxsize=512)
def signature_of(function: Function) -> inspect.Signature:
    """What a function takes. Looking takes longer than a call on the host does."""
    return inspect.signature(function)


@functools.lru_cache(maxsize=512)
def _parameters(function: Function) -> dict[str, inspect.Parameter] | None:
    """A function's parameters by name. None of one that does not say, or that takes any names."""
    try:
        found = dict(signature_of(function).parameters)
    except ValueError:
        return None
    return None if any(item.kind is item.VAR_KEYWORD for item in found.values()) else found
