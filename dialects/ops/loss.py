"""Losses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import folded
from blu.dialects.core.dtypes import FLOATS, TensorType, computing_dtype, f32, f64, i32, i64
from blu.dialects.core.op import ErrorSample, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.indexing import INDEX_DTYPES
from blu.dialects.ops.normalization import check_float
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError


class CrossEntropy(Op, name="cross_entropy"):
    """-log(softmax(logits)[target]) for each row: logits [N, V], targets [N] (i32 or i64), result [N].

    The result is f32 (f64 for f64 logits). Rows whose target is `ignore_index` give 0; any other target outside of
    0..V-1 stops the run with an IndexError.
    """

    batch = staticmethod(folded("logits", "targets"))

    logits: Operand
    targets: Operand
    ignore_index: int

    @staticmethod
    def reference(logits: np.ndarray, targets: np.ndarray, ignore_index: int) -> np.ndarray:
        kept = targets != ignore_index
        shifted = logits - logits.max(axis=1, keepdims=True, initial=-np.inf)
        picked = np.take_along_axis(shifted, np.where(kept, targets, 0)[:, None], axis=1)[:, 0]
        return np.where(kept, np.log(np.exp(shifted).sum(axis=1)) - picked, 0)

    @staticmethod
    def infer(logits: TensorType, targets: TensorType, ignore_index: int) -> TensorType:
        check_float(logits)
        if logits.ndim != 2 or targets.ndim != 1 or logits.shape[0] != targets.shape[0]:
            raise ShapeError(f"logits must be [N, V] and targets [N], got {logits} and {targets}")
        if targets.dtype not in INDEX_DTYPES:
            raise DTypeError(f"targets must be i32 or i64, got {targets}")
        if not logits.shape[1] and logits.shape[0]:
            raise ShapeError(f"{logits} has no classes")
        return TensorType(targets.shape, computing_dtype(logits.dtype))

    @staticmethod
    def decompose(logits: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
        from blu.dialects.ops.index_check import CheckedIndex
        from blu.dialects.ops.indexing import TakeAlongAxis
        from blu.dialects.tensor.arithmetic import where

        wide = logits.astype(computing_dtype(logits.dtype))
        if not logits.size:
            return wide.sum(axis=1)
        classes = logits.shape[1]
        kept = targets != ignore_index
        column = where(kept, targets, 0).expand_dims(1)
        checked = CheckedIndex([column], sizes=(classes,), from_end=False, reported_as="cross_entropy")
        largest = wide.max(axis=1, keepdims=True)
        picked = (TakeAlongAxis(wide, checked, axis=1) - largest).reshape(targets.shape)
        total = (wide - largest).exp().sum(axis=1, keepdims=True)
        return where(kept, total.reshape(targets.shape).log() - picked, 0.0)

    @staticmethod
    def vjp(g: Tensor, logits: Tensor, targets: Tensor, result: Tensor, ignore_index: int) -> tuple[Tensor | None, ...]:
        """softmax(logits), less 1 at the target."""
        from blu.dialects.ops.creation import Iota
        from blu.dialects.tensor.arithmetic import where

        wide = logits.astype(computing_dtype(logits.dtype))
        if not logits.size:
            return logits * 0.0, None
        weights = (wide - wide.max(axis=1, keepdims=True)).exp()
        total = weights.sum(axis=1, keepdims=True)
        share = where(targets != ignore_index, g, 0.0).expand_dims(1)
        classes = Iota(shape=(1, logits.shape[1]), axis=1, dtype=targets.dtype)
        is_target = classes == targets.expand_dims(1)
        return (weights * (share / total) - where(is_target, share, 0.0)).astype(logits.dtype), None

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for number, dtype in enumerate(FLOATS):
            for rows, classes in ((1, 1), (3, 19), (9, 4), (0, 3)):
                targets = draw(rng, (rows,), INDEX_DTYPES[number % 2], 0, classes - 1)
                targets[2:3] = -100
                yield Sample((draw(rng, (rows, classes), dtype), targets), {"ignore_index": -100})
        logits = np.array([[1000, -1000, 0], [-np.inf, 0, 1], [0, np.nan, 1], [5, 5, 5]], np.float32)
        yield Sample((logits, np.array([1, 0, 2, 0], np.int64)), {"ignore_index": 0})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        logits, targets = TensorType((4, 9), f32), TensorType((4,), i64)
        yield ErrorSample((logits, targets.with_shape((5,))), {"ignore_index": -100}, "logits must be [N, V]")
        yield ErrorSample((logits.with_shape((4,)), targets), {"ignore_index": -100}, "logits must be [N, V]")
        yield ErrorSample((logits, targets.with_dtype(f64)), {"ignore_index": -100}, "targets must be i32 or i64")
        yield ErrorSample((logits.with_dtype(i32), targets), {"ignore_index": -100}, "does not take i32")
        yield ErrorSample((logits.with_shape((4, 0)), targets), {"ignore_index": -100}, "no classes")
