"""Elementwise functions by the standard's names, which are mostly `blu`'s own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.dialects.core.dtypes import bool_
from blu.dialects.tensor import arithmetic
from blu.dialects.tensor.arithmetic import (
    absolute,
    add,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor_divide,
    greater,
    greater_equal,
    invert,
    isfinite,
    isinf,
    isnan,
    left_shift,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    reciprocal,
    remainder,
    right_shift,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
)
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.frontend.functional.pointwise import conj, hypot, imag, nextafter, positive, real, signbit

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

abs, pow = absolute, power
acos, acosh, asin, asinh, atan, atan2, atanh = arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh
bitwise_invert, bitwise_left_shift, bitwise_right_shift = invert, left_shift, right_shift


def _rounding(function: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """A function of floats that leaves integers, and here bools, as they are."""

    def rounded(x: Any, /) -> Tensor:
        return x if isinstance(x, Tensor) and x.dtype == bool_ else function(x)

    rounded.__name__ = rounded.__qualname__ = function.__name__
    rounded.__doc__ = function.__doc__
    return public(rounded)


floor, ceil, trunc, round = map(_rounding, (arithmetic.floor, arithmetic.ceil, arithmetic.trunc, arithmetic.round))


@public
def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """x with everything below `min` raised to it and everything above `max` lowered to it, in x's dtype."""
    tensor = as_tensor(x)
    return arithmetic.astype(arithmetic.clip(tensor, min, max), tensor.dtype)
