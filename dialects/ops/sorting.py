"""Ops that order elements along an axis. NaN comes last in both directions; equal elements keep their order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import along, at_the_end
from blu.dialects.core.axes import check_axis
from blu.dialects.core.dtypes import NUMBERS, TensorType, bool_, f32, i64
from blu.dialects.core.op import ErrorSample, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.indexing import TakeAlongAxis
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError


def stable_order(operand: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Positions in sorted order along `axis`: stable, NaN last."""
    if not descending:
        return np.argsort(operand, axis, kind="stable")
    # The order of the reversed array, read backwards, is descending and stable, but has NaN first: move them behind.
    last = operand.shape[axis] - 1
    backwards = last - np.flip(np.argsort(np.flip(operand, axis), axis, kind="stable"), axis)
    is_nan = np.isnan(np.take_along_axis(operand, backwards, axis)) if operand.dtype.kind == "f" else np.zeros(1, bool)
    nan_last = np.argsort(np.broadcast_to(is_nan, operand.shape), axis, kind="stable")
    return np.take_along_axis(backwards, nan_last, axis)


def _check(operand: TensorType, axis: int) -> None:
    check_axis(axis, operand)
    if operand.dtype == bool_:
        raise DTypeError("does not take bool", advice="Convert it to u8 first.")


class _Ordering(Op):
    """Base of sort and argsort."""

    batch = staticmethod(along)

    operand: Operand
    axis: int
    descending: bool

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in NUMBERS:
            for shape, axis, descending in (
                ((1,), 0, False),
                ((37,), 0, False),
                ((37,), 0, True),
                ((3, 9), 1, True),
                ((9, 4), 0, False),
                ((2, 5, 3), 1, True),
                ((0, 3), 0, False),
                ((0, 3), 1, True),
            ):
                yield Sample((draw(rng, shape, dtype, -3, 3),), {"axis": axis, "descending": descending})
        row = np.array([1, np.nan, -0.0, np.inf, 0.0, -np.inf, np.nan, -0.0, 1e-40], np.float32)
        for descending in (False, True):
            yield Sample((row,), {"axis": 0, "descending": descending})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2, 3), f32),), {"axis": 2, "descending": False}, "axes 0..1")
        yield ErrorSample((TensorType((), f32),), {"axis": 0, "descending": False}, "no dimensions")
        yield ErrorSample((TensorType((2, 3), bool_),), {"axis": 0, "descending": True}, "does not take bool")


class Sort(_Ordering, name="sort"):
    """The elements in order along `axis`: stable, NaN last in both directions."""

    @staticmethod
    def reference(operand: np.ndarray, axis: int, descending: bool) -> np.ndarray:
        return np.take_along_axis(operand, stable_order(operand, axis, descending), axis)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, axis: int, descending: bool) -> Tensor:
        """Each element's gradient stands where the element went."""
        order = Argsort(operand, axis=axis, descending=descending)
        went = Argsort(order, axis=axis, descending=False)
        return TakeAlongAxis(g, went, axis=axis)

    @staticmethod
    def infer(operand: TensorType, axis: int, descending: bool) -> TensorType:
        _check(operand, axis)
        return operand


class Argsort(_Ordering, name="argsort"):
    """The positions (i64) of the elements in the order that sort gives."""

    kernel = True
    reference = staticmethod(stable_order)

    @staticmethod
    def infer(operand: TensorType, axis: int, descending: bool) -> TensorType:
        _check(operand, axis)
        return operand.with_dtype(i64)


class ArgTopK(Op, name="arg_top_k"):
    """The positions (i64) of the k largest elements along the last axis in descending order, or of the k smallest.

    They are the first k of a stable sort: of equals the lower index comes first, NaN comes last.
    """

    batch = staticmethod(at_the_end)

    kernel = True
    operand: Operand
    k: int
    largest: bool

    @staticmethod
    def reference(operand: np.ndarray, k: int, largest: bool) -> np.ndarray:
        return stable_order(operand, operand.ndim - 1, descending=largest)[..., :k]

    @staticmethod
    def infer(operand: TensorType, k: int, largest: bool) -> TensorType:
        _check(operand, operand.ndim - 1)
        if not 0 <= k <= operand.shape[-1]:
            raise ShapeError(f"k must be in 0..{operand.shape[-1]} for {operand}, got {k}")
        return operand.with_shape((*operand.shape[:-1], k)).with_dtype(i64)

    @staticmethod
    def samples() -> Iterator[Sample]:
        for sample in TopK.samples():
            for largest in (False, True):
                yield Sample(sample.operands, {**sample.attributes, "largest": largest})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        for sample in TopK.error_samples():
            yield ErrorSample(sample.operands, {**sample.attributes, "largest": True}, sample.message)


class TopK(Op, name="top_k"):
    """The k largest elements along the last axis in descending order, and their positions (i64): (values, indices).

    They are the first k of the stable descending sort: of equals the lower index comes first, NaN comes last.
    """

    batch = staticmethod(at_the_end)

    num_results = 2
    operand: Operand
    k: int

    num_results = 2

    @staticmethod
    def reference(operand: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        order = stable_order(operand, operand.ndim - 1, descending=True)[..., :k]
        return np.take_along_axis(operand, order, -1), order

    @staticmethod
    def infer(operand: TensorType, k: int) -> tuple[TensorType, TensorType]:
        indices = ArgTopK.infer(operand, k, largest=True)
        return indices.with_dtype(operand.dtype), indices

    @staticmethod
    def decompose(operand: Tensor, k: int) -> tuple[Tensor, Tensor]:
        indices = ArgTopK(operand, k=k, largest=True)
        return TakeAlongAxis(operand, indices, axis=operand.ndim - 1), indices

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in NUMBERS:
            for shape, k in (((1,), 1), ((37,), 5), ((3, 9), 9), ((2, 3, 8), 2), ((4,), 0), ((0, 3), 2)):
                yield Sample((draw(rng, shape, dtype, -3, 3),), {"k": k})
        yield Sample((np.array([1, np.nan, 3, -np.inf, 3, np.inf], np.float32),), {"k": 6})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2, 3), f32),), {"k": 4}, "k must be in 0..3")
        yield ErrorSample((TensorType((2, 3), f32),), {"k": -1}, "k must be in 0..3")
        yield ErrorSample((TensorType((), f32),), {"k": 1}, "no dimensions")
        yield ErrorSample((TensorType((2, 3), bool_),), {"k": 1}, "does not take bool")
