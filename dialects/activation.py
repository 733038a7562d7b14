"""Composite elementwise ops: activation functions. f16 and bf16 are computed in f32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from blu.dialects import scalar_reference
from blu.dialects.dtypes import FLOATS, TensorType, computing_dtype, f32, i32
from blu.dialects.normalization import check_float
from blu.dialects.op import ErrorSample, Op, Operand, Sample
from blu.dialects.sampling import draw
from blu.dialects.tensor import Tensor
from blu.errors import BluError

APPROXIMATIONS = ("tanh", "erf")
_CUBIC = 0.044715
_TWICE = 2 * math.sqrt(2 / math.pi)


def _doubled(x: Tensor) -> Tensor:
    """Twice the argument of GPT-2's tanh."""
    return (x * x * (_TWICE * _CUBIC) + _TWICE) * x


def _samples(attributes: dict[str, str]) -> Iterator[Sample]:
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        for shape in ((), (1,), (0, 3), (37,), (2, 3, 8)):
            yield Sample((draw(rng, shape, dtype, -6, 6),), attributes)
    yield Sample((np.array([0.0, -0.0, np.nan, 30, -30, 1e-20, -1e-20, np.inf], np.float32),), attributes)


class Gelu(Op, name="gelu"):
    """x times the normal distribution's probability below x: by "erf" exactly, by "tanh" in GPT-2's approximation."""

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
        return (x * 0.5 * (x * -math.sqrt(0.5)).erfc()).astype(operand.dtype)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, approximate: str) -> Tensor:
        x = operand.astype(computing_dtype(operand.dtype))
        if approximate == "tanh":
            share = _doubled(x).sigmoid()
            slope = share + x * share * (1.0 - share) * (x * x * (3 * _TWICE * _CUBIC) + _TWICE)
        else:
            slope = (x * -math.sqrt(0.5)).erfc() * 0.5 + x * (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
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
