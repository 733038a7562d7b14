"""Elementwise ops of one operand."""

from __future__ import annotations

import math

import numpy as np

from blu.dialects.core import scalar_reference
from blu.dialects.core.dtypes import FLOATS, bool_
from blu.dialects.ops.pointwise import BITS, STEP_FUNCTION, Unary


# Sign and rounding.
class Negative(Unary, name="negative"):
    """-x (integers wrap)."""

    reference = np.negative
    vjp = staticmethod(lambda g, x, y: -g)


class Absolute(Unary, name="absolute"):
    """|x| (the smallest integer wraps to itself)."""

    reference = np.abs
    vjp = staticmethod(lambda g, x, y: g * x.sign())


class Sign(Unary, name="sign"):
    """-1, 0 or 1 by the sign of x; NaN stays NaN."""

    reference = np.sign
    deliberate = STEP_FUNCTION


class Floor(Unary, name="floor", dtypes=FLOATS):
    """The largest whole number not above x."""

    reference = np.floor
    deliberate = STEP_FUNCTION


class Ceil(Unary, name="ceil", dtypes=FLOATS):
    """The smallest whole number not below x."""

    reference = np.ceil
    deliberate = STEP_FUNCTION


class Trunc(Unary, name="trunc", dtypes=FLOATS):
    """x without its fraction."""

    reference = np.trunc
    deliberate = STEP_FUNCTION


class Round(Unary, name="round", dtypes=FLOATS):
    """The nearest whole number, halves to even."""

    reference = np.rint
    deliberate = STEP_FUNCTION


# Powers, exponentials and logarithms.
class Square(Unary, name="square"):
    """x * x."""

    reference = np.square
    vjp = staticmethod(lambda g, x, y: g * x * 2)


class Reciprocal(Unary, name="reciprocal", dtypes=FLOATS, domain=(0.25, 4.0)):
    """1 / x."""

    reference = np.reciprocal
    vjp = staticmethod(lambda g, x, y: -g * y * y)


class Sqrt(Unary, name="sqrt", dtypes=FLOATS, domain=(0.0, 9.0)):
    """The square root; NaN below zero."""

    reference = np.sqrt
    vjp = staticmethod(lambda g, x, y: g * 0.5 / y)


class Rsqrt(Unary, name="rsqrt", dtypes=FLOATS, domain=(0.1, 9.0)):
    """1 / sqrt(x)."""

    reference = scalar_reference.rsqrt
    vjp = staticmethod(lambda g, x, y: g * -0.5 * y * y * y)


class Cbrt(Unary, name="cbrt", dtypes=FLOATS):
    """The real cube root."""

    reference = np.cbrt
    vjp = staticmethod(lambda g, x, y: g / (3 * y * y))


class Exp(Unary, name="exp", dtypes=FLOATS):
    """e to the power x."""

    reference = np.exp
    vjp = staticmethod(lambda g, x, y: g * y)


class Exp2(Unary, name="exp2", dtypes=FLOATS):
    """2 to the power x."""

    reference = np.exp2
    vjp = staticmethod(lambda g, x, y: g * y * math.log(2))


class Expm1(Unary, name="expm1", dtypes=FLOATS):
    """exp(x) - 1, accurate near zero."""

    reference = np.expm1
    vjp = staticmethod(lambda g, x, y: g * (y + 1))


class Log(Unary, name="log", dtypes=FLOATS, domain=(0.05, 9.0)):
    """The natural logarithm."""

    reference = np.log
    vjp = staticmethod(lambda g, x, y: g / x)


class Log2(Unary, name="log2", dtypes=FLOATS, domain=(0.05, 9.0)):
    """The logarithm to base 2."""

    reference = np.log2
    vjp = staticmethod(lambda g, x, y: g / (x * math.log(2)))


class Log10(Unary, name="log10", dtypes=FLOATS, domain=(0.05, 9.0)):
    """The logarithm to base 10."""

    reference = np.log10
    vjp = staticmethod(lambda g, x, y: g / (x * math.log(10)))


class Log1p(Unary, name="log1p", dtypes=FLOATS, domain=(-0.9, 4.0)):
    """log(1 + x), accurate near zero."""

    reference = np.log1p
    vjp = staticmethod(lambda g, x, y: g / (x + 1))


# Trigonometric and hyperbolic functions.
class Sin(Unary, name="sin", dtypes=FLOATS):
    """The sine of x radians."""

    reference = np.sin
    vjp = staticmethod(lambda g, x, y: g * x.cos())


class Cos(Unary, name="cos", dtypes=FLOATS):
    """The cosine of x radians."""

    reference = np.cos
    vjp = staticmethod(lambda g, x, y: -g * x.sin())


class Tan(Unary, name="tan", dtypes=FLOATS, domain=(-1.4, 1.4)):
    """The tangent of x radians."""

    reference = np.tan
    vjp = staticmethod(lambda g, x, y: g * (1 + y * y))


class Arcsin(Unary, name="arcsin", dtypes=FLOATS, domain=(-1.0, 1.0)):
    """The angle in radians whose sine is x."""

    reference = np.arcsin
    vjp = staticmethod(lambda g, x, y: g * (1 - x * x).rsqrt())


class Arccos(Unary, name="arccos", dtypes=FLOATS, domain=(-1.0, 1.0)):
    """The angle in radians whose cosine is x."""

    reference = np.arccos
    vjp = staticmethod(lambda g, x, y: -g * (1 - x * x).rsqrt())


class Arctan(Unary, name="arctan", dtypes=FLOATS):
    """The angle in radians whose tangent is x."""

    reference = np.arctan
    vjp = staticmethod(lambda g, x, y: g / (1 + x * x))


class Sinh(Unary, name="sinh", dtypes=FLOATS):
    """The hyperbolic sine."""

    reference = np.sinh
    vjp = staticmethod(lambda g, x, y: g * x.cosh())


class Cosh(Unary, name="cosh", dtypes=FLOATS):
    """The hyperbolic cosine."""

    reference = np.cosh
    vjp = staticmethod(lambda g, x, y: g * x.sinh())


class Tanh(Unary, name="tanh", dtypes=FLOATS):
    """The hyperbolic tangent."""

    reference = np.tanh
    vjp = staticmethod(lambda g, x, y: g * (1 - y * y))


class Arcsinh(Unary, name="arcsinh", dtypes=FLOATS):
    """The inverse of sinh."""

    reference = np.arcsinh
    vjp = staticmethod(lambda g, x, y: g * (x * x + 1).rsqrt())


class Arccosh(Unary, name="arccosh", dtypes=FLOATS, domain=(1.0, 9.0)):
    """The inverse of cosh."""

    reference = np.arccosh
    vjp = staticmethod(lambda g, x, y: g * (x * x - 1).rsqrt())


class Arctanh(Unary, name="arctanh", dtypes=FLOATS, domain=(-0.9, 0.9)):
    """The inverse of tanh."""

    reference = np.arctanh
    vjp = staticmethod(lambda g, x, y: g / (1 - x * x))


class Erf(Unary, name="erf", dtypes=FLOATS):
    """The error function."""

    reference = scalar_reference.erf
    vjp = staticmethod(lambda g, x, y: g * (x * -x).exp() * (2 / math.sqrt(math.pi)))


class Erfc(Unary, name="erfc", dtypes=FLOATS):
    """1 - erf(x), accurate for large x."""

    reference = scalar_reference.erfc
    vjp = staticmethod(lambda g, x, y: g * (x * -x).exp() * (-2 / math.sqrt(math.pi)))


class Sigmoid(Unary, name="sigmoid", dtypes=FLOATS):
    """1 / (1 + exp(-x))."""

    reference = scalar_reference.sigmoid
    vjp = staticmethod(lambda g, x, y: g * y * (1 - y))


class Relu(Unary, name="relu"):
    """max(x, 0)."""

    reference = scalar_reference.relu
    vjp = staticmethod(lambda g, x, y: (y > 0).where(g, 0))  # as x > 0, which need not be kept beside y


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
