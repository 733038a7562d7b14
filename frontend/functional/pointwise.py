"""Elementwise functions that are made of others: signs, parts of complex numbers, neighbours, closeness."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from blu.dialects.core.dtypes import DType, bool_, computing_dtype, i8
from blu.dialects.ops.identity import stop_gradient
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.arithmetic import (
    absolute,
    copysign,
    equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    maximum,
    minimum,
    not_equal,
    remainder,
    sqrt,
    where,
)
from blu.dialects.tensor.arrangement import broadcast_to
from blu.dialects.tensor.complex_tensor import Complex
from blu.dialects.tensor.folding import all as all_of
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import converted, promoted, promoted_floats, scalar_constant, strong
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError

__all__ = [
    "allclose",
    "angle",
    "complex",
    "conj",
    "fmod",
    "hypot",
    "imag",
    "isclose",
    "nan_to_num",
    "nextafter",
    "positive",
    "real",
    "signbit",
]


@method
def positive(x: Any) -> Tensor:
    """x as it is; of bools there is none, as in NumPy. DTypeError for bools."""
    (tensor,) = promoted(x)
    if tensor.dtype == bool_:
        raise DTypeError("positive: does not take bool", advice="Convert it to an integer dtype first.")
    return tensor


@public
def complex(real: Any, imag: Any) -> Any:
    """Complex numbers of their real and imaginary parts, which are promoted and broadcast: complex64 of f32 and halves,
    else complex128."""
    left, right = promoted_floats(real, imag)
    dtype, shape = computing_dtype(left.dtype), broadcast_shapes(left.shape, right.shape)
    return Complex(*(broadcast_to(converted(strong(part), dtype), shape) for part in (left, right)))


@method
def angle(x: Any) -> Tensor:
    """The angle of complex numbers, from -pi to pi: of real ones 0, or pi where they are negative. At 0 its gradient is
    0."""
    (tensor,) = promoted_floats(x)
    return where(isnan(tensor), tensor, where(tensor < 0, scalar_constant(math.pi, tensor.dtype), 0))


@method
def conj(x: Any) -> Tensor:
    """The complex conjugate: real numbers as they are."""
    return promoted(x)[0]


@method
def real(x: Any) -> Tensor:
    """The real part: real numbers as they are."""
    return promoted(x)[0]


@method
def imag(x: Any) -> Tensor:
    """The imaginary part: zeros of real numbers."""
    (tensor,) = promoted(x)
    return scalar_constant(0, tensor.dtype).broadcast_to(tensor.shape)


@method
def signbit(x: Any) -> Tensor:
    """Whether the sign is minus, that of -0.0 and of a NaN included. DTypeError for bools."""
    (tensor,) = promoted(x)
    if tensor.dtype == bool_:
        raise DTypeError("signbit: does not take bool", advice="Convert it to an integer dtype first.")
    return less(copysign(scalar_constant(1, tensor.dtype), tensor) if tensor.dtype.is_float else tensor, 0)


@public
def fmod(x: Any, y: Any) -> Tensor:
    """What is left of x after as many y as fit in it, with the sign of x; an integer modulo zero gives 0."""
    left, right = promoted(x, y)
    if left.dtype.is_float:
        return copysign(remainder(absolute(left), absolute(right)), left)
    left, right = (converted(side, i8) if side.dtype == bool_ else side for side in (left, right))
    rest = remainder(left, right)  # which has the sign of y
    return where(not_equal(rest, 0) & not_equal(left < 0, right < 0), rest - right, rest)


@public
def hypot(x: Any, y: Any) -> Tensor:
    """sqrt(x * x + y * y) without overflow; infinite where one of them is, even beside NaN. Its gradient at 0 is 0."""
    left, right = promoted_floats(x, y)
    dtype = left.dtype
    one, other = (absolute(converted(side, computing_dtype(dtype))) for side in (left, right))
    longer, shorter = maximum(one, other), minimum(one, other)
    ratio = shorter / where(longer == 0, 1, longer)
    found = where(isinf(one) | isinf(other), float("inf"), longer * sqrt(1 + ratio * ratio))
    return converted(found, dtype)


@public
def nextafter(x: Any, y: Any) -> Tensor:
    """The number after x in the direction of y, in their common dtype; y where they are equal. It has no gradient.

    Neighbours are found by rounding (Rump, Zimmermann, Boldo, Melquiond, "Computing predecessor and successor in
    rounding to nearest").
    """
    left, right = promoted_floats(x, y)
    wide = computing_dtype(left.dtype)
    start, end = (converted(stop_gradient(side), wide) for side in (left, right))
    size, outward = absolute(start), equal(start < end, start > 0)
    grown, shrunk = (_neighbour(size, sign, left.dtype) for sign in (1, -1))
    stepped = copysign(where(outward, grown, shrunk), start)
    from_zero = copysign(scalar_constant(float(_limits(left.dtype).smallest_subnormal), wide), end)
    found = where(start == 0, from_zero, stepped)
    found = where(equal(start, end), end, found)
    return converted(where(isnan(start) | isnan(end), start + end, found), left.dtype)


def _limits(dtype: DType) -> Any:
    return ml_dtypes.finfo(dtype.numpy)


def _neighbour(size: Tensor, sign: int, dtype: DType) -> Tensor:
    """The next larger (sign 1) or smaller (-1) number than `size`, which is not negative, among those of `dtype`."""
    limits = _limits(dtype)
    unit, least = float(limits.eps) / 2, float(limits.smallest_subnormal)
    slope = unit * (1 + 2 * unit)
    usual = size + sign * (size * slope)
    scaled = size * (1 / unit)
    small = (scaled + sign * (scaled * slope)) * unit
    found = where(size >= least / unit / unit / 2, usual, where(size < least / unit, size + sign * least, small))
    if sign < 0:
        return where(isinf(size), float(limits.max), found)
    # The largest number's neighbour: in a wider dtype, it has others.
    return where(size >= float(limits.max), float("inf"), found)


@method
def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x with `nan` in place of NaN, and its dtype's largest and smallest numbers, or those given, of infinities."""
    (tensor,) = promoted(x)
    if not tensor.dtype.is_float:
        return tensor
    limits = _limits(tensor.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    ends = (scalar_constant(end, tensor.dtype) for end in (high, low))
    finite = where(isinf(tensor), where(tensor > 0, *ends), tensor)
    return where(isnan(tensor), nan, finite)


@public
def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether |x - y| <= atol + rtol * |y|; infinities are close to themselves, NaN to NaN only with `equal_nan`."""
    left, right = promoted_floats(x, y)
    close = less_equal(absolute(left - right), atol + rtol * absolute(right)) & isfinite(right) & isfinite(left)
    found = close | equal(left, right)
    return found | (isnan(left) & isnan(right)) if equal_nan else found


@public
def allclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close to those of y, which broadcasts: see `isclose`."""
    return all_of(isclose(x, y, rtol, atol, equal_nan))
