"""Composite elementwise ops: activation functions. f16 and bf16 are computed in f32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import elementwise
from blu.dialects.core import scalar_reference
from blu.dialects.core.dtypes import FLOATS, DType, TensorType, computing_dtype, f32, f64, i32
from blu.dialects.core.op import ErrorSample, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.normalization import check_float
from blu.dialects.tensor.tensor import Tensor
from blu.errors import BluError

APPROXIMATIONS = ("tanh", "erf")
_CUBIC = 0.044715
_TWICE = 2 * math.sqrt(2 / math.pi)
_ROOT_HALF = math.sqrt(0.5)
# The same in two parts: few bits, so that products with half the bits of a number are exact, and what is left.
_ROOT_HALF_HIGH, _ROOT_HALF_LOW = 0.70703125, 7.55311865475244e-05
_LOWEST = -40.0
"""Below it the normal distribution is 0 in every dtype."""


def _doubled(x: Tensor) -> Tensor:
    """Twice the argument of GPT-2's tanh."""
    return (x * x * (_TWICE * _CUBIC) + _TWICE) * x


def _twice_probability(x: Tensor, wanted: DType) -> Tensor:
    """erfc(-x / sqrt(2)), twice the normal distribution's probability below x, to the accuracy of the dtype `wanted`.

    An argument t that is off by d makes erfc(t) wrong by 2 t d, relative to it: hundreds of units in the last place of
    x's dtype, which disappear in halves. So what rounding took from t is found (Dekker, 1971) and erfc(t) (1 - 2 t d)
    formed.
    """
    argument = x * -_ROOT_HALF
    if wanted != x.dtype:
        return argument.erfc()
    low = x.clip(_LOWEST, 0.0)
    high, rest = _halves(low)
    rounded = low * -_ROOT_HALF
    lost = (high * -_ROOT_HALF_HIGH - rounded) - rest * _ROOT_HALF_HIGH - low * _ROOT_HALF_LOW
    result = argument.erfc()
    return result - result * (rounded * lost * 2.0)


def _gauss(x: Tensor, wanted: DType) -> Tensor:
    """exp(-x^2 / 2), mended by what rounding takes from the square, as in `_twice_probability`."""
    if wanted != x.dtype:
        return (x * x * -0.5).exp()
    x = x.clip(_LOWEST, -_LOWEST)
    high, rest = _halves(x)
    square = x * x
    lost = (high * high - square) + high * rest * 2.0 + rest * rest
    result = (square * -0.5).exp()
    return result - result * (lost * 0.5)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers with half the bits of x, whose sum it is (Veltkamp, 1968)."""
    scaled = x * float((1 << 27 if x.dtype == f64 else 1 << 12) + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _samples(attributes: dict[str, str]) -> Iterator[Sample]:
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        for shape in ((), (1,), (0, 3), (37,), (2, 3, 8)):
            yield Sample((draw(rng, shape, dtype, -6, 6),), attributes)
    yield Sample((np.array([0.0, -0.0, np.nan, 30, -30, 1e-20, -1e-20, np.inf], np.float32),), attributes)


class Gelu(Op, name="gelu"):
    """x times the normal distribution's probability below x: by "erf" exactly, by "tanh" in GPT-2's approximation."""

    batch = staticmethod(elementwise)

    operand: Operand
    approximate: str

    @staticmethod
    def reference(operand: np.ndarray, approximate: str) -> np.ndarray:
        if approximate == "erf":
            return 0.5 * operand * scalar_reference.erfc(-operand * math.sqrt(0.5))
        inner = math.sqrt(2 / math.pi) * (operand + _CUBIC * operand**3)
        return 0.5 * operand * (1 + np.tanh(inner))

    @staticmethod
    def infer(operand: TensorType, approximate: str) -> TensorType:
        check_float(operand)
        if approximate not in APPROXIMATIONS:
            raise BluError(f"approximate must be one of {', '.join(APPROXIMATIONS)}, got {approximate!r}")
        return operand

    @staticmethod
    def decompose(operand: Tensor, approximate: str) -> Tensor:
        """0.5 * (1 + tanh(u)) is sigmoid(2 * u), which is cheaper and keeps its digits where tanh(u) is near -1."""
        x = operand.astype(computing_dtype(operand.dtype))
        if approximate == "tanh":
            return (x * _doubled(x).sigmoid()).astype(operand.dtype)
        half = x * 0.5
        return (half * _twice_probability(x, operand.dtype)).astype(operand.dtype)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, approximate: str) -> Tensor:
        x = operand.astype(computing_dtype(operand.dtype))
        if approximate == "tanh":
            share = _doubled(x).sigmoid()
            weighted = x * share
            slope = share + (weighted - weighted * share) * (x * x * (3 * _TWICE * _CUBIC) + _TWICE)
        else:
            slope = _twice_probability(x, operand.dtype) * 0.5
            slope = slope + x * _gauss(x, operand.dtype) * (1 / math.sqrt(2 * math.pi))
        return (g.astype(slope.dtype) * slope).astype(operand.dtype)

    @staticmethod
    def samples() -> Iterator[Sample]:
        for approximate in APPROXIMATIONS:
            yield from _samples({"approximate": approximate})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2,), f32),), {"approximate": "none"}, "must be one of tanh, erf")
        yield ErrorSample((TensorType((2,), i32),), {"approximate": "tanh"}, "does not take i32")


class Silu(Op, name="silu"):
    """x * sigmoid(x)."""

    batch = staticmethod(elementwise)

    operand: Operand

    @staticmethod
    def reference(operand: np.ndarray) -> np.ndarray:
        return operand / (1 + np.exp(-operand))

    @staticmethod
    def infer(operand: TensorType) -> TensorType:
        check_float(operand)
        return operand

    @staticmethod
    def decompose(operand: Tensor) -> Tensor:
        x = operand.astype(computing_dtype(operand.dtype))
        return (x * x.sigmoid()).astype(operand.dtype)

    @staticmethod
    def samples() -> Iterator[Sample]:
        return _samples({})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2,), i32),), {}, "does not take i32")
