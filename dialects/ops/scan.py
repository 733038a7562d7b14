"""Ops that carry a value along an axis and write at every position what it has come to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.core.axes import check_axis
from blu.dialects.core.dtypes import NUMBERS, TensorType, bool_, f32
from blu.dialects.core.op import ErrorSample, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError


class Cumsum(Op, name="cumsum"):
    """Running sums along `axis`, in the operand's dtype (f16 and bf16 keep the running sum in f32)."""

    operand: Operand
    axis: int

    @staticmethod
    def reference(operand: np.ndarray, axis: int) -> np.ndarray:
        return np.cumsum(operand, axis=axis, dtype=operand.dtype)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, axis: int) -> Tensor:
        return g.flip(axis).cumsum(axis).flip(axis)

    @staticmethod
    def infer(operand: TensorType, axis: int) -> TensorType:
        check_axis(axis, operand)
        if operand.dtype == bool_:
            raise DTypeError("does not take bool", advice="Convert it to an integer dtype first.")
        return operand

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in NUMBERS:
            for shape, axis in (
                ((1,), 0),
                ((33,), 0),
                ((3, 5), 0),
                ((2, 7), 1),
                ((2, 3, 4), 1),
                ((0, 2), 0),
                ((2, 0), 0),
            ):
                yield Sample((draw(rng, shape, dtype),), {"axis": axis})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2, 3), f32),), {"axis": -1}, "axes 0..1")
        yield ErrorSample((TensorType((2, 3), bool_),), {"axis": 0}, "does not take bool")
