"""Rounding to fewer bits without another dtype."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import elementwise
from blu.dialects.core.dtypes import DType, TensorType, bf16, f16, f32, f64, i32
from blu.dialects.core.op import ErrorSample, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError


class ReducePrecision(Op, name="reduce_precision"):
    """The elements rounded to f16 or bf16 and back: what storing them in that dtype does to their numbers.

    The gradient passes in the operand's own dtype, as it is or, with `rounds_gradient`, rounded in the same way.
    """

    batch = staticmethod(elementwise)

    operand: Operand
    dtype: DType
    rounds_gradient: bool

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, dtype: DType, rounds_gradient: bool) -> Tensor:
        return ReducePrecision(g, dtype=dtype, rounds_gradient=True) if rounds_gradient else g

    @staticmethod
    def reference(operand: np.ndarray, dtype: DType, rounds_gradient: bool) -> np.ndarray:
        return operand.astype(dtype.numpy).astype(operand.dtype)

    @staticmethod
    def infer(operand: TensorType, dtype: DType, rounds_gradient: bool) -> TensorType:
        if operand.dtype not in (f32, f64):
            raise DTypeError(f"does not take {operand.dtype}, only f32, f64")
        if dtype not in (f16, bf16):
            raise DTypeError(f"rounds to f16 or bf16, not to {dtype}")
        return operand

    @staticmethod
    def decompose(operand: Tensor, dtype: DType, rounds_gradient: bool) -> Tensor:
        return operand.astype(dtype).astype(operand.dtype)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        special = np.array([1 + 2.0**-9, 65520.0, -65519.0, 1e-40, -0.0, np.inf, np.nan, 3.4e38], np.float32)
        for dtype in (f16, bf16):
            for shape in ((), (3, 19), (0, 2)):
                yield Sample((draw(rng, shape, f32, -9, 9),), {"dtype": dtype, "rounds_gradient": False})
            yield Sample((special,), {"dtype": dtype, "rounds_gradient": False})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        for source, target, message in (
            (i32, bf16, "does not take i32"),
            (f16, bf16, "does not take f16"),
            (f32, f64, "rounds to f16 or bf16, not to f64"),
        ):
            yield ErrorSample((TensorType((2,), source),), {"dtype": target, "rounds_gradient": False}, message)
