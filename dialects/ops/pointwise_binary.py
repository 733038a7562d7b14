"""Elementwise ops of two operands."""

from __future__ import annotations

import numpy as np

from blu.dialects.core import scalar_reference
from blu.dialects.core.dtypes import DTYPES, FLOATS, INTEGERS, DType, bool_
from blu.dialects.ops.pointwise import BITS, STEP_FUNCTION, Binary
from blu.dialects.tensor.tensor import Tensor


class Compare(Binary, gives=bool_, dtypes=DTYPES):
    """Base of comparisons."""


class Exponent(Binary):
    """Base of ops whose second operand, where it is an integer, must not be negative."""

    @classmethod
    def special_values(cls, dtype: DType, place: int) -> np.ndarray:
        if place == 0 or dtype.is_float:
            return super().special_values(dtype, place)
        return np.array([0, 1, 2, 7, dtype.bits - 1, dtype.bits, dtype.bits + 3], dtype.numpy)


def _share(g: Tensor, one: Tensor, other: Tensor, chosen: Tensor) -> Tensor:
    """The part of a maximum's or minimum's gradient that is `one`'s: all, half where both are equal, nothing."""
    return (one == chosen).where((one == other).where(g * 0.5, g), 0)


# Arithmetic of two operands.
class Add(Binary, name="add"):
    """x + y (integers wrap)."""

    reference = np.add
    vjp = staticmethod(lambda g, x, y, z: (g, g))


class Subtract(Binary, name="subtract"):
    """x - y (integers wrap)."""

    reference = np.subtract
    vjp = staticmethod(lambda g, x, y, z: (g, -g))


class Multiply(Binary, name="multiply"):
    """x * y (integers wrap)."""

    reference = np.multiply
    vjp = staticmethod(lambda g, x, y, z: (g * y, g * x))


class Divide(Binary, name="divide", dtypes=FLOATS, domain=(0.25, 4.0)):
    """x / y."""

    reference = np.divide
    vjp = staticmethod(lambda g, x, y, z: (g / y, -g * z / y))


class FloorDivide(Binary, name="floor_divide"):
    """The largest whole number not above x / y; an integer divided by zero gives 0 and a warning."""

    is_checked = True
    reference = scalar_reference.floor_divide
    deliberate = STEP_FUNCTION


class Remainder(Binary, name="remainder"):
    """x - floor_divide(x, y) * y, with the sign of y; an integer modulo zero gives 0 and a warning."""

    is_checked = True
    reference = scalar_reference.remainder
    vjp = staticmethod(lambda g, x, y, z: (g, -g * (x // y)))


class Power(Exponent, name="power", domain=(0.0, 4.0)):
    """x to the power y; a negative integer exponent gives the truncated quotient."""

    reference = scalar_reference.power

    @staticmethod
    def vjp(g: Tensor, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Constant where the exponent is 0. 0 to the power y is 0 for all y above 0, and infinitely steep below."""
        base = (y == 0).where(0, g * y * x ** (y - 1))
        return base, ((x == 0) & (y > 0)).where(0, g * z * x.log())


class Arctan2(Binary, name="arctan2", dtypes=FLOATS):
    """The angle in radians of the point (y, x) given as (x, y) in NumPy's argument order."""

    reference = np.arctan2

    @staticmethod
    def vjp(g: Tensor, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """(y, -x) over the squared distance from the origin, without over- or underflow of squares; 0 at the origin."""
        size = abs(x).maximum(abs(y))
        scale = (size == 0).where(1, size)
        x, y = x / scale, y / scale
        slope = g / (scale * (size == 0).where(1, x * x + y * y))
        return y * slope, -x * slope


class Copysign(Binary, name="copysign", dtypes=FLOATS):
    """|x| with the sign of y."""

    reference = np.copysign
    vjp = staticmethod(lambda g, x, y, z: (g * x.sign() * z.sign(), None))


class Maximum(Binary, name="maximum", dtypes=DTYPES):
    """The larger of x and y; NaN if either is NaN."""

    reference = np.maximum
    vjp = staticmethod(lambda g, x, y, z: (_share(g, x, y, z), _share(g, y, x, z)))


class Minimum(Binary, name="minimum", dtypes=DTYPES):
    """The smaller of x and y; NaN if either is NaN."""

    reference = np.minimum
    vjp = staticmethod(lambda g, x, y, z: (_share(g, x, y, z), _share(g, y, x, z)))


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


class LeftShift(Exponent, name="left_shift", dtypes=INTEGERS, domain=(0, 6)):
    """x * 2**y; 0 where y is not below the number of bits."""

    reference = np.left_shift


class RightShift(Exponent, name="right_shift", dtypes=INTEGERS, domain=(0, 6)):
    """x / 2**y rounded down; the sign fills where y is not below the number of bits."""

    reference = np.right_shift
