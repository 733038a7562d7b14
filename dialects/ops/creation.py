"""Ops that make tensors from attributes alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.core.axes import check_axis
from blu.dialects.core.dtypes import MOVED, NUMBERS, DType, TensorType, as_dtype, bool_, f32
from blu.dialects.core.op import Array, ErrorSample, Ints, Op, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.moving import MovingOp
from blu.errors import DTypeError


class Constant(MovingOp, name="constant"):
    """Numbers written in the program."""

    value: Array

    @staticmethod
    def reference(value: np.ndarray) -> np.ndarray:
        return value

    @staticmethod
    def infer(value: np.ndarray) -> TensorType:
        return TensorType(value.shape, as_dtype(value.dtype))

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in MOVED:
            for shape in ((), (1,), (0, 2), (2, 3)):
                yield Sample((), {"value": draw(rng, shape, dtype)})
            yield Sample((), {"value": np.full((2, 2), 3, dtype.numpy)})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((), {"value": np.zeros(2, np.complex64)}, "not a dtype")


class Iota(Op, name="iota"):
    """0, 1, 2, ... along `axis`, the same in all other positions; numbers that do not fit the dtype wrap or round."""

    shape: Ints
    axis: int
    dtype: DType

    @staticmethod
    def reference(shape: tuple[int, ...], axis: int, dtype: DType) -> np.ndarray:
        along = [size if position == axis else 1 for position, size in enumerate(shape)]
        counts = np.arange(shape[axis], dtype=np.int64).astype(np.float64 if dtype.is_float else np.int64)
        return np.broadcast_to(counts.astype(dtype.numpy).reshape(along), shape)

    @staticmethod
    def infer(shape: tuple[int, ...], axis: int, dtype: DType) -> TensorType:
        result = TensorType(shape, dtype)
        check_axis(axis, result)
        if dtype == bool_:
            raise DTypeError("does not take bool")
        return result

    @staticmethod
    def samples() -> Iterator[Sample]:
        for dtype in NUMBERS:
            for shape, axis in (((0,), 0), ((1,), 0), ((2, 17), 1), ((5, 3, 2), 0), ((300,), 0)):
                yield Sample((), {"shape": shape, "axis": axis, "dtype": dtype})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((), {"shape": (), "axis": 0, "dtype": f32}, "no dimensions")
        yield ErrorSample((), {"shape": (2,), "axis": 1, "dtype": f32}, "axes 0..0")
        yield ErrorSample((), {"shape": (2,), "axis": 0, "dtype": bool_}, "does not take bool")
        yield ErrorSample((), {"shape": (2, -1), "axis": 0, "dtype": f32}, "negative size")
        yield ErrorSample((), {"shape": (1 << 40, 1 << 40), "axis": 0, "dtype": f32}, "bytes")
