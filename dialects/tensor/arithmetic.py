"""Elementwise functions as NumPy has them: promotion of dtypes and Python numbers first, then the op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from blu.dialects.core.dtypes import DType, as_dtype, bool_, computing_dtype, f64, i8, i32, i64, u64
from blu.dialects.core.op import Op
from blu.dialects.ops import pointwise_binary as binary
from blu.dialects.ops import pointwise_unary as unary
from blu.dialects.ops.contraction import Matmul
from blu.dialects.ops.pointwise import Clip, Where
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import (
    as_tensor,
    as_tensors,
    common_dtype,
    converted,
    is_python_scalar,
    promoted,
    promoted_floats,
    strengthened,
    strong,
)
from blu.dialects.tensor.tensor import METHODS, Tensor
from blu.errors import DTypeError

__all__ = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "astype",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
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
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "reciprocal",
    "relu",
    "remainder",
    "right_shift",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]

Function = Callable[..., Tensor]


def _named(function: Function, op: type[Op], note: str = "") -> Function:
    """Give a function made from an op the op's name and documentation, and make it a tensor method."""
    function.__name__ = function.__qualname__ = op.name
    function.__module__ = __name__
    function.__doc__ = f"{op.__doc__}{note}"
    return method(function)


def _float_unary(op: type[Op]) -> Function:
    return _named(lambda x: op(*promoted_floats(x)), op, " Integers are computed as floats.")


def _number_unary(op: type[Op]) -> Function:
    return _named(lambda x: op(*promoted(x)), op)


def _rounding(op: type[Op]) -> Function:
    def function(x: Any) -> Tensor:
        (tensor,) = promoted(x)
        return op(tensor) if tensor.dtype.is_float else tensor

    return _named(function, op, " Integers stay as they are.")


negative = _number_unary(unary.Negative)
sign = _number_unary(unary.Sign)
relu = _number_unary(unary.Relu)
invert = _number_unary(unary.Invert)
floor, ceil, trunc, _rounded = map(_rounding, (unary.Floor, unary.Ceil, unary.Trunc, unary.Round))
reciprocal, sqrt, rsqrt, cbrt = map(_float_unary, (unary.Reciprocal, unary.Sqrt, unary.Rsqrt, unary.Cbrt))
exp, exp2, expm1 = map(_float_unary, (unary.Exp, unary.Exp2, unary.Expm1))
log, log2, log10, log1p = map(_float_unary, (unary.Log, unary.Log2, unary.Log10, unary.Log1p))
sin, cos, tan = map(_float_unary, (unary.Sin, unary.Cos, unary.Tan))
arcsin, arccos, arctan = map(_float_unary, (unary.Arcsin, unary.Arccos, unary.Arctan))
sinh, cosh, tanh = map(_float_unary, (unary.Sinh, unary.Cosh, unary.Tanh))
arcsinh, arccosh, arctanh = map(_float_unary, (unary.Arcsinh, unary.Arccosh, unary.Arctanh))
erf, erfc, sigmoid = map(_float_unary, (unary.Erf, unary.Erfc, unary.Sigmoid))
isnan, isinf, isfinite = map(_float_unary, (unary.IsNan, unary.IsInf, unary.IsFinite))


@method
def absolute(x: Any) -> Tensor:
    """|x|; a bool stays as it is, and the smallest integer wraps to itself."""
    (tensor,) = promoted(x)
    return tensor if tensor.dtype == bool_ else unary.Absolute(tensor)


@method
def round(x: Any, decimals: int = 0) -> Tensor:
    """The nearest whole number, or with `decimals` the nearest with so many of them (or zeros, where negative).

    Halves go to even. Integers stay as they are, but for negative `decimals`.
    """
    (tensor,) = promoted(x)
    if not decimals or (decimals > 0 and not tensor.dtype.is_float):
        return _rounded(tensor)
    scale = 10.0 ** abs(decimals)
    wide = converted(tensor, f64 if tensor.dtype.is_integer else computing_dtype(tensor.dtype))
    moved = _rounded(wide * scale if decimals > 0 else wide / scale)
    return converted(moved / scale if decimals > 0 else moved * scale, tensor.dtype)


@method
def square(x: Any) -> Tensor:
    """x * x; bools are squared as i8."""
    (tensor,) = promoted(x)
    return unary.Square(converted(tensor, i8) if tensor.dtype == bool_ else tensor)


@method
def astype(x: Any, dtype: Any) -> Tensor:
    """x in another dtype, rounded to nearest even; floats become integers by truncation.

    A float outside of the integer's range gives the nearest end of the range and NaN gives 0, on every target.
    """
    return strong(as_tensor(x, as_dtype(dtype)))


def _binary(op: type[Op], for_bool: type[Op] | DType | None = None) -> Function:
    """A function of two operands of any number dtype. Bools are given to another op, or converted first."""

    def function(x: Any, y: Any) -> Tensor:
        left, right = promoted(x, y)
        if left.dtype != bool_ or for_bool is None:
            return op(left, right)
        if isinstance(for_bool, DType):
            return op(converted(left, for_bool), converted(right, for_bool))
        return for_bool(left, right)

    return _named(function, op)


def _float_binary(op: type[Op]) -> Function:
    return _named(lambda x, y: op(*promoted_floats(x, y)), op, " Integers are computed as floats.")


add = _binary(binary.Add, for_bool=binary.BitwiseOr)
multiply = _binary(binary.Multiply, for_bool=binary.BitwiseAnd)
floor_divide = _binary(binary.FloorDivide, for_bool=i8)
remainder = _binary(binary.Remainder, for_bool=i8)
maximum, minimum = _binary(binary.Maximum), _binary(binary.Minimum)
bitwise_and, bitwise_or, bitwise_xor = map(_binary, (binary.BitwiseAnd, binary.BitwiseOr, binary.BitwiseXor))
left_shift, right_shift = _binary(binary.LeftShift, for_bool=i8), _binary(binary.RightShift, for_bool=i8)
arctan2, copysign = _float_binary(binary.Arctan2), _float_binary(binary.Copysign)


@method
def subtract(x: Any, y: Any) -> Tensor:
    """x - y (integers wrap). DTypeError for bools."""
    left, right = promoted(x, y)
    if left.dtype == bool_:
        raise DTypeError(
            "subtract: does not take bool",
            advice="Use logical_xor, or convert to an integer dtype first.",
        )
    return binary.Subtract(left, right)


@method
def divide(x: Any, y: Any) -> Tensor:
    """x / y; integers of any width are divided as f64, as in NumPy."""
    left, right = promoted(x, y)
    dtype = left.dtype if left.dtype.is_float else f64
    return binary.Divide(*as_tensors((left, right), dtype))


@method
def power(x: Any, y: Any) -> Tensor:
    """x to the power y. Small whole exponents given as Python numbers become multiplications, 0.5 a square root.

    DTypeError for integers to a negative power that is a Python number.
    """
    if is_python_scalar(y) and not is_python_scalar(x) and not isinstance(y, bool):
        special = _scalar_power(promoted(x)[0], y)
        if special is not None:
            return special
    left, right = promoted(x, y)
    if left.dtype == bool_:
        left, right = converted(left, i8), converted(right, i8)
    return binary.Power(left, right)


def _scalar_power(x: Tensor, y: float) -> Tensor | None:
    """x to a Python number's power by cheaper ops; None where there is none. `x` ** -1 of integers is refused."""
    if x.dtype.is_integer and isinstance(y, int) and y < 0:
        raise DTypeError(
            f"power: {x.type} cannot be raised to {y}: integers have no negative powers",
            advice="Convert to a float dtype first.",
        )
    (base,) = as_tensors([x], common_dtype(x, y))
    if y in (1, 2, 3, 4) and base.dtype != bool_:
        second = base if y == 1 else base * base
        return second if y <= 2 else second * base if y == 3 else second * second
    if y == -1 and base.dtype.is_float:
        return unary.Reciprocal(base)
    return unary.Sqrt(base) if y == 0.5 else None


# Of i64, to which a u64 is brought down beside an integer that is known only at run time.
_LARGEST = (1 << 63) - 1


def _comparison(op: type[Op]) -> Function:
    def function(x: Any, y: Any) -> Tensor:
        return op(*_comparable(x, y))

    return _named(function, op)


def _comparable(x: Any, y: Any) -> list[Tensor]:
    """The operands in one dtype; an integer that does not fit the tensor's dtype, or may not, is compared as i64.

    Beside u64, and beyond i64, it is infinite, since only its side counts.
    """
    mixed = strengthened(x, y)
    if _may_not_fit(*mixed):
        return as_tensors([minimum(item, _LARGEST) if _is_widest(item) else item for item in mixed], i64)
    try:
        return promoted(*mixed)
    except DTypeError:
        if not any(_is_widest(item) or (is_python_scalar(item) and abs(item) > _LARGEST) for item in mixed):
            return as_tensors(mixed, i64)
    far = [(math.inf if item > 0 else -math.inf) if is_python_scalar(item) else item for item in mixed]
    return as_tensors(far, f64)


def _is_widest(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == u64


def _may_not_fit(*values: Any) -> bool:
    """Whether one is an integer that is known only at run time, and the other a tensor of narrower integers."""
    numbers = [value for value in values if isinstance(value, Tensor) and value.is_weak and value.dtype == i64]
    return bool(numbers) and common_dtype(*values).is_integer


equal, not_equal = _comparison(binary.Equal), _comparison(binary.NotEqual)
less, less_equal = _comparison(binary.Less), _comparison(binary.LessEqual)
greater, greater_equal = _comparison(binary.Greater), _comparison(binary.GreaterEqual)


def as_bool(x: Any) -> Tensor:
    """Whether each element is nonzero (NaN is)."""
    return as_tensors([x], bool_)[0]


@method
def logical_not(x: Any) -> Tensor:
    """Whether x is zero or false."""
    return unary.LogicalNot(as_bool(x))


@method
def logical_and(x: Any, y: Any) -> Tensor:
    """Whether both are true (nonzero)."""
    return binary.BitwiseAnd(as_bool(x), as_bool(y))


@method
def logical_or(x: Any, y: Any) -> Tensor:
    """Whether at least one is true (nonzero)."""
    return binary.BitwiseOr(as_bool(x), as_bool(y))


@method
def logical_xor(x: Any, y: Any) -> Tensor:
    """Whether exactly one is true (nonzero)."""
    return binary.BitwiseXor(as_bool(x), as_bool(y))


@method
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where the condition is true (nonzero), else y; all three broadcast.

    In a compiled function, what is chosen of two Python numbers takes the dtype of what it meets, as they do.
    """
    x, y = promoted(x, y)
    return Tensor(Where(as_bool(condition), x, y).value, is_weak=x.is_weak and y.is_weak)


@method
def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """x with everything below `min` raised to it and everything above `max` lowered to it; NaN stays NaN.

    The gradient of what lies on a bound is that of x.
    """
    bounds = [bound for bound in (min, max) if bound is not None]
    if not bounds:
        return promoted(x)[0]
    tensor, *bounds = promoted(x, *bounds)
    low = None if min is None else bounds[0]
    return Clip(tensor, low, None if max is None else bounds[-1])


@public
def logaddexp(x: Any, y: Any) -> Tensor:
    """log(exp(x) + exp(y)) without overflow."""
    left, right = promoted_floats(x, y)
    larger = binary.Maximum(left, right)
    distance = absolute(where(left == right, 0.0, left - right))
    return larger + log1p(exp(-distance))


def factors(x: Any, y: Any, dtype: Any = None) -> list[Tensor]:
    """The factors of a product as tensors of one dtype, or of fp8. DTypeError where others are given a `dtype`."""
    found = strengthened(x, y)
    if all(isinstance(item, Tensor) and item.dtype.is_stored_only for item in found):
        return found
    if dtype is not None:
        kinds = " and ".join(str(getattr(item, "dtype", item)) for item in found)
        message = f"dtype = {dtype!r} is that of a product of fp8, not of {kinds}"
        raise DTypeError(message, advice="Convert the factors, or the result, by astype.")
    return promoted(*found)


@method
def matmul(x: Any, y: Any, precision: str = "highest", dtype: Any = None) -> Tensor:
    """NumPy's matrix product: the last two dimensions are matrices, the others are broadcast; 1-d operands are vectors.

    `precision` says how products of f32 are formed: "highest", or from operands rounded to "tf32", "bf16" or
    "f16". Factors may be f8e4m3 and f8e5m2, also one of each, whose products are summed in f32, or with "fast" in the
    fewer bits of tensor cores for fp8: `dtype` is that of their result, f32 if none is given, to which sums are rounded
    once. DTypeError for a `dtype` of other factors.
    """
    left, right = factors(x, y, dtype)
    if left.dtype.is_stored_only:
        return converted(Matmul(left, right, precision=precision), as_dtype(dtype or "f32"))
    if left.dtype == bool_:
        return as_bool(Matmul(converted(left, i32), converted(right, i32), precision=precision))
    return Matmul(left, right, precision=precision)


METHODS["abs"] = absolute
