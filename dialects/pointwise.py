"""Ops that act on each element alone, with NumPy's broadcasting between operands.

An op is a class of four lines: its name, the dtypes it takes, its NumPy meaning, and later its gradient. Its scalar body
is the row of the same name in `passes/lower_to_linalg/pointwise.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from blu.dialects import scalar_reference
from blu.dialects.dtypes import DTYPES, FLOATS, INTEGERS, NUMBERS, DType, TensorType, bool_
from blu.dialects.op import ErrorSample, Op, Operand, Sample
from blu.errors import DTypeError, ShapeError


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands under NumPy's rule. Raises ShapeError naming all of them."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise ShapeError(
            f"shapes {listed} do not broadcast",
            advice="Sizes must be equal or 1, compared from the last dimension backwards.",
        ) from None


class Pointwise(Op):
    """Base of the elementwise ops. `dtypes` lists what the operands may be; `domain` bounds the samples' values."""

    dtypes: ClassVar[tuple[DType, ...]] = NUMBERS
    domain: ClassVar[tuple[float, float]] = (-4.0, 4.0)
    result_dtype: ClassVar[DType | None] = None
    reference: ClassVar[Callable[..., np.ndarray]]

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        dtypes: tuple[DType, ...] | None = None,
        domain: tuple[float, float] | None = None,
        gives: DType | None = None,
        **keywords: Any,
    ) -> None:
        cls.dtypes = dtypes or cls.dtypes
        cls.domain = domain or cls.domain
        cls.result_dtype = gives or cls.result_dtype
        super().__init_subclass__(name=name, **keywords)

    @classmethod
    def infer(cls, *operands: TensorType) -> TensorType:
        first = operands[0].dtype
        if any(operand.dtype != first for operand in operands):
            raise DTypeError(f"operands must have one dtype, got {', '.join(map(str, operands))}")
        if first not in cls.dtypes:
            raise DTypeError(f"does not take {first}, only {', '.join(map(str, cls.dtypes))}")
        shape = broadcast_shapes(*(operand.shape for operand in operands))
        return TensorType(shape, cls.result_dtype or first)

    @classmethod
    def draw(cls, rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Sample values of the op's domain in a dtype."""
        low, high = cls.domain
        if dtype == bool_:
            return rng.integers(0, 2, shape).astype(np.bool_)
        if dtype.is_integer:
            low = max(low, np.iinfo(dtype.numpy).min)
            return rng.integers(int(np.ceil(low)), int(high), shape, endpoint=True).astype(dtype.numpy)
        return rng.uniform(low, high, shape).astype(dtype.numpy)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        arity = len(cls.operand_fields())
        for dtype in cls.dtypes:
            for shapes in _SAMPLE_SHAPES[arity]:
                yield Sample(tuple(cls.draw(rng, shape, dtype) for shape in shapes))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        arity = len(cls.operand_fields())
        good = TensorType((2, 3), cls.dtypes[0])
        bad = next((dtype for dtype in DTYPES if dtype not in cls.dtypes), None)
        if bad is not None:
            yield ErrorSample((TensorType((2, 3), bad),) * arity, {}, "does not take")
        if arity > 1:
            yield ErrorSample((good.with_shape((4,)),) + (good,) * (arity - 1), {}, "do not broadcast")


_SAMPLE_SHAPES = {
    1: [((),), ((0, 3),), ((5,),), ((2, 3, 17),)],
    2: [((), ()), ((3, 1), (1, 4)), ((2, 0), (2, 1)), ((19,), ()), ((2, 3, 8), (8,))],
    3: [((), (), ()), ((3, 1), (1, 4), (3, 4)), ((2, 0), (2, 1), ()), ((2, 3, 8), (8,), ())],
}


class Unary(Pointwise):
    operand: Operand


class Binary(Pointwise):
    lhs: Operand
    rhs: Operand


class Compare(Binary, gives=bool_, dtypes=DTYPES):
    """Base of comparisons."""


SIGNED = tuple(dtype for dtype in NUMBERS if dtype.kind != "unsigned")
BITS = (bool_, *INTEGERS)


# Sign and rounding.
class Negative(Unary, name="negative"):
    """-x (integers wrap)."""

    reference = np.negative


class Absolute(Unary, name="absolute"):
    """|x| (the smallest integer wraps to itself)."""

    reference = np.abs


class Sign(Unary, name="sign"):
    """-1, 0 or 1 by the sign of x; NaN stays NaN."""

    reference = np.sign


class Floor(Unary, name="floor", dtypes=FLOATS):
    """The largest whole number not above x."""

    reference = np.floor


class Ceil(Unary, name="ceil", dtypes=FLOATS):
    """The smallest whole number not below x."""

    reference = np.ceil


class Trunc(Unary, name="trunc", dtypes=FLOATS):
    """x without its fraction."""

    reference = np.trunc


class Round(Unary, name="round", dtypes=FLOATS):
    """The nearest whole number, halves to even."""

    reference = np.rint


# Powers, exponentials and logarithms.
class Square(Unary, name="square"):
    """x * x."""

    reference = np.square


class Reciprocal(Unary, name="reciprocal", dtypes=FLOATS, domain=(0.25, 4.0)):
    """1 / x."""

    reference = np.reciprocal


class Sqrt(Unary, name="sqrt", dtypes=FLOATS, domain=(0.0, 9.0)):
    """The square root; NaN below zero."""

    reference = np.sqrt


class Rsqrt(Unary, name="rsqrt", dtypes=FLOATS, domain=(0.1, 9.0)):
    """1 / sqrt(x)."""

    reference = scalar_reference.rsqrt


class Cbrt(Unary, name="cbrt", dtypes=FLOATS):
    """The real cube root."""

    reference = np.cbrt


class Exp(Unary, name="exp", dtypes=FLOATS):
    """e to the power x."""

    reference = np.exp


class Exp2(Unary, name="exp2", dtypes=FLOATS):
    """2 to the power x."""

    reference = np.exp2


class Expm1(Unary, name="expm1", dtypes=FLOATS):
    """exp(x) - 1, accurate near zero."""

    reference = np.expm1


class Log(Unary, name="log", dtypes=FLOATS, domain=(0.05, 9.0)):
    """The natural logarithm."""

    reference = np.log


class Log2(Unary, name="log2", dtypes=FLOATS, domain=(0.05, 9.0)):
    """The logarithm to base 2."""

    reference = np.log2


class Log10(Unary, name="log10", dtypes=FLOATS, domain=(0.05, 9.0)):
    """The logarithm to base 10."""

    reference = np.log10


class Log1p(Unary, name="log1p", dtypes=FLOATS, domain=(-0.9, 4.0)):
    """log(1 + x), accurate near zero."""

    reference = np.log1p


# Trigonometric and hyperbolic functions.
class Sin(Unary, name="sin", dtypes=FLOATS):
    """The sine of x radians."""

    reference = np.sin


class Cos(Unary, name="cos", dtypes=FLOATS):
    """The cosine of x radians."""

    reference = np.cos


class Tan(Unary, name="tan", dtypes=FLOATS, domain=(-1.4, 1.4)):
    """The tangent of x radians."""

    reference = np.tan


class Arcsin(Unary, name="arcsin", dtypes=FLOATS, domain=(-1.0, 1.0)):
    """The angle in radians whose sine is x."""

    reference = np.arcsin


class Arccos(Unary, name="arccos", dtypes=FLOATS, domain=(-1.0, 1.0)):
    """The angle in radians whose cosine is x."""

    reference = np.arccos


class Arctan(Unary, name="arctan", dtypes=FLOATS):
    """The angle in radians whose tangent is x."""

    reference = np.arctan


class Sinh(Unary, name="sinh", dtypes=FLOATS):
    """The hyperbolic sine."""

    reference = np.sinh


class Cosh(Unary, name="cosh", dtypes=FLOATS):
    """The hyperbolic cosine."""

    reference = np.cosh


class Tanh(Unary, name="tanh", dtypes=FLOATS):
    """The hyperbolic tangent."""

    reference = np.tanh


class Arcsinh(Unary, name="arcsinh", dtypes=FLOATS):
    """The inverse of sinh."""

    reference = np.arcsinh


class Arccosh(Unary, name="arccosh", dtypes=FLOATS, domain=(1.0, 9.0)):
    """The inverse of cosh."""

    reference = np.arccosh


class Arctanh(Unary, name="arctanh", dtypes=FLOATS, domain=(-0.9, 0.9)):
    """The inverse of tanh."""

    reference = np.arctanh


class Erf(Unary, name="erf", dtypes=FLOATS):
    """The error function."""

    reference = scalar_reference.erf


class Erfc(Unary, name="erfc", dtypes=FLOATS):
    """1 - erf(x), accurate for large x."""

    reference = scalar_reference.erfc


class Sigmoid(Unary, name="sigmoid", dtypes=FLOATS):
    """1 / (1 + exp(-x))."""

    reference = scalar_reference.sigmoid


class Relu(Unary, name="relu"):
    """max(x, 0)."""

    reference = scalar_reference.relu


# Questions about one element.
class IsNan(Unary, name="isnan", dtypes=FLOATS, gives=bool_):
    """Whether x is not a number."""

    reference = np.isnan


class IsInf(Unary, name="isinf", dtypes=FLOATS, gives=bool_):
    """Whether x is infinite."""

    reference = np.isinf


class IsFinite(Unary, name="isfinite", dtypes=FLOATS, gives=bool_):
    """Whether x is neither infinite nor NaN."""

    reference = np.isfinite


class LogicalNot(Unary, name="logical_not", dtypes=(bool_,)):
    """not x."""

    reference = np.logical_not


class Invert(Unary, name="invert", dtypes=BITS):
    """All bits flipped."""

    reference = np.invert


# Arithmetic of two operands.
class Add(Binary, name="add"):
    """x + y (integers wrap)."""

    reference = np.add


class Subtract(Binary, name="subtract"):
    """x - y (integers wrap)."""

    reference = np.subtract


class Multiply(Binary, name="multiply"):
    """x * y (integers wrap)."""

    reference = np.multiply


class Divide(Binary, name="divide", dtypes=FLOATS, domain=(0.25, 4.0)):
    """x / y."""

    reference = np.divide


class FloorDivide(Binary, name="floor_divide"):
    """The largest whole number not above x / y; an integer divided by zero gives 0 and a warning."""

    reference = scalar_reference.floor_divide


class Remainder(Binary, name="remainder"):
    """x - floor_divide(x, y) * y, with the sign of y; an integer modulo zero gives 0 and a warning."""

    reference = scalar_reference.remainder


class Power(Binary, name="power", domain=(0.0, 4.0)):
    """x to the power y; a negative integer exponent gives the truncated quotient."""

    reference = scalar_reference.power


class Arctan2(Binary, name="arctan2", dtypes=FLOATS):
    """The angle in radians of the point (y, x) given as (x, y) in NumPy's argument order."""

    reference = np.arctan2


class Copysign(Binary, name="copysign", dtypes=FLOATS):
    """|x| with the sign of y."""

    reference = np.copysign


class Maximum(Binary, name="maximum", dtypes=DTYPES):
    """The larger of x and y; NaN if either is NaN."""

    reference = np.maximum


class Minimum(Binary, name="minimum", dtypes=DTYPES):
    """The smaller of x and y; NaN if either is NaN."""

    reference = np.minimum


# Comparisons.
class Equal(Compare, name="equal"):
    """x == y."""

    reference = np.equal


class NotEqual(Compare, name="not_equal"):
    """x != y."""

    reference = np.not_equal


class Less(Compare, name="less"):
    """x < y."""

    reference = np.less


class LessEqual(Compare, name="less_equal"):
    """x <= y."""

    reference = np.less_equal


class Greater(Compare, name="greater"):
    """x > y."""

    reference = np.greater


class GreaterEqual(Compare, name="greater_equal"):
    """x >= y."""

    reference = np.greater_equal


# Bits.
class BitwiseAnd(Binary, name="bitwise_and", dtypes=BITS):
    """The bits set in both."""

    reference = np.bitwise_and


class BitwiseOr(Binary, name="bitwise_or", dtypes=BITS):
    """The bits set in either."""

    reference = np.bitwise_or


class BitwiseXor(Binary, name="bitwise_xor", dtypes=BITS):
    """The bits set in exactly one."""

    reference = np.bitwise_xor


class LeftShift(Binary, name="left_shift", dtypes=INTEGERS, domain=(0, 6)):
    """x * 2**y; 0 where y is not below the number of bits."""

    reference = np.left_shift


class RightShift(Binary, name="right_shift", dtypes=INTEGERS, domain=(0, 6)):
    """x / 2**y rounded down; the sign fills where y is not below the number of bits."""

    reference = np.right_shift


class Where(Pointwise, name="where", dtypes=DTYPES):
    """x where the condition holds, else y."""

    condition: Operand
    x: Operand
    y: Operand

    reference = np.where

    @classmethod
    def infer(cls, condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
        if condition.dtype != bool_:
            raise DTypeError(f"the condition must be bool, got {condition}")
        if x.dtype != y.dtype:
            raise DTypeError(f"both values must have one dtype, got {x} and {y}")
        return TensorType(broadcast_shapes(condition.shape, x.shape, y.shape), x.dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in cls.dtypes:
            for first, second, third in _SAMPLE_SHAPES[3]:
                condition = rng.integers(0, 2, first).astype(np.bool_)
                yield Sample((condition, cls.draw(rng, second, dtype), cls.draw(rng, third, dtype)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        flag, number = TensorType((2,), bool_), TensorType((3,), FLOATS[2])
        yield ErrorSample((number, number, number), {}, "condition must be bool")
        yield ErrorSample((flag, number, number), {}, "do not broadcast")


class Convert(Op, name="convert"):
    """The elements in another dtype, rounded to nearest even; floats become integers by truncation.

    A float outside of the integer's range gives the nearest end of the range and NaN gives 0, on every target.
    """

    operand: Operand
    dtype: DType

    reference = scalar_reference.convert

    @staticmethod
    def infer(operand: TensorType, dtype: DType) -> TensorType:
        return operand.with_dtype(dtype)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for source in DTYPES:
            for target in DTYPES:
                yield Sample((Convert.draw(rng, (2, 9), source),), {"dtype": target})
        for value in (np.nan, np.inf, -np.inf, 1e30, -1e30, 300.7, -0.0):
            for target in (*INTEGERS, bool_):
                yield Sample((np.full((3,), value, np.float32),), {"dtype": target})

    draw = Pointwise.__dict__["draw"]
    domain = (-4.0, 4.0)

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        return iter(())


def names(base: type[Op] = Pointwise) -> list[str]:
    """The names of all registered ops derived from `base`, in declaration order."""
    from blu.dialects.op import OPS

    return [name for name, cls in OPS.items() if issubclass(cls, base)]
