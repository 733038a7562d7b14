"""Losses."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp

import numpy as np

from blu.dialects.batching import folded, in_turn
from blu.dialects.core.dtypes import FLOATS, TensorType, bf16, computing_dtype, f16, f32, f64, i32, i64
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


# Rows of losses up to this are taken as they are given: f32 and bf16 hold e to its power, and products of it.
LARGEST_LOSS = 60.0


class SettleRows(Op, name="settle_rows"):
    """What is left to do of a softmax's gradient when a product has made exponentials: of logits x w^T [N, V].

    `terms` [N, V] (f32 or bf16) are exp(logit - that of the row's target), and `sums` [N] (f32) their sums by
    rows without the target's. x is [N, K], w [V, K], both of the dtype of the terms, and targets [N] (i32 or i64) in
    0..V-1.

    The results are the terms, but at the target, whatever is there, -sum of the others; sums of all terms; and
    -log(softmax) at the targets (f32). So the first by the second is the gradient of the third with respect to the
    logits. Rows with sums that are not finite, or of a loss above 60, have terms and sums relative to their own largest
    logit.
    """

    batch = staticmethod(in_turn)

    kernel = True
    terms: Operand
    sums: Operand
    x: Operand
    w: Operand
    targets: Operand
    num_results = 3

    @staticmethod
    def reference(
        terms: np.ndarray, sums: np.ndarray, x: np.ndarray, w: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        logits = x @ w.T
        is_target = np.arange(w.shape[0]) == targets[:, None]
        largest = logits.max(axis=1, keepdims=True, initial=-np.inf)
        again, is_kept = np.exp(logits - largest), sums <= exp(LARGEST_LOSS)
        others = np.where(is_kept, sums, again.sum(axis=1, where=~is_target))
        own = np.where(is_kept, 1.0, again.sum(axis=1, where=is_target))
        result = np.where(is_kept[:, None], terms, again)
        far = (largest - logits).sum(axis=1, where=is_target) + np.log(others + own)
        loss = np.where(is_kept, np.log1p(sums), far)
        return np.where(is_target, -others[:, None], result), others + own, loss

    @staticmethod
    def infer(
        terms: TensorType, sums: TensorType, x: TensorType, w: TensorType, targets: TensorType
    ) -> tuple[TensorType, TensorType, TensorType]:
        if terms.dtype not in (f32, bf16):
            raise DTypeError(f"terms must be f32 or bf16, got {terms}")
        if terms.ndim != 2 or x.ndim != 2 or terms.shape[1] < 1:
            raise ShapeError(f"terms must be [N, V] and x [N, K], got {terms} and {x}")
        rows, width = terms.shape[0], x.shape[1]
        expected = {
            "x": (x, x.with_shape((rows, width)).with_dtype(terms.dtype)),
            "w": (w, x.with_shape((terms.shape[1], width)).with_dtype(terms.dtype)),
            "sums": (sums, TensorType((rows,), f32)),
        }
        for name, (given, wanted) in expected.items():
            if given != wanted:
                raise ShapeError(f"{name} must be {wanted}, got {given}")
        if targets.shape != (rows,) or targets.dtype not in INDEX_DTYPES:
            raise ShapeError(f"targets must be {rows} numbers of i32 or i64, got {targets}")
        return terms, sums, sums

    @staticmethod
    def decompose(terms: Tensor, sums: Tensor, x: Tensor, w: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The plain formula with all logits again, for targets without a kernel."""
        from blu.dialects.ops.creation import Iota
        from blu.dialects.tensor.arithmetic import matmul, where

        logits = matmul(x.astype(f32), w.astype(f32).transpose(1, 0), "highest")
        largest = logits.max(axis=1, keepdims=True)
        again, is_kept = (logits - largest).exp(), sums <= exp(LARGEST_LOSS)
        is_target = Iota(shape=(1, w.shape[0]), axis=1, dtype=targets.dtype) == targets.expand_dims(1)
        others = where(is_kept, sums, where(is_target, 0.0, again).sum(axis=1))
        total = others + where(is_kept, 1.0, where(is_target, again, 0.0).sum(axis=1))
        far = where(is_target, largest - logits, 0.0).sum(axis=1) + total.log()
        result = where(is_kept.expand_dims(1), terms.astype(f32), again)
        result = where(is_target, -others.expand_dims(1), result)
        return result.astype(terms.dtype), total, where(is_kept, sums.log1p(), far)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for number, dtype in enumerate((f32, bf16)):
            for rows, classes, width in ((1, 1, 1), (3, 19, 4), (9, 4, 3), (0, 3, 2)):
                x, w = draw(rng, (rows, width), dtype, -2, 2), draw(rng, (classes, width), dtype, -2, 2)
                targets = draw(rng, (rows,), INDEX_DTYPES[number], 0, classes - 1)
                logits = x.astype(np.float64) @ w.T.astype(np.float64)
                own = np.take_along_axis(logits, targets.astype(np.int64)[:, None], axis=1)
                terms = np.exp(logits - own)
                sums = (terms.sum(axis=1) - 1).clip(0).astype(np.float32)
                sums[1::3], sums[2::3] = np.inf, np.nan
                yield Sample((terms.astype(dtype.numpy), sums, x, w, targets))

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        terms, sums, x, w = (TensorType(shape, f32) for shape in ((4, 9), (4,), (4, 2), (9, 2)))
        targets = TensorType((4,), i64)
        yield ErrorSample((terms.with_dtype(f16), sums, x, w, targets), {}, "terms must be f32 or bf16")
        yield ErrorSample((terms.with_shape((4,)), sums, x, w, targets), {}, "terms must be [N, V]")
        yield ErrorSample((terms, sums, x.with_dtype(bf16), w, targets), {}, "x must be f32[4, 2]")
        yield ErrorSample((terms, sums, x, x, targets), {}, "w must be f32[9, 2]")
        yield ErrorSample((terms, targets, x, w, targets), {}, "sums must be f32[4]")
        yield ErrorSample((terms, sums, x, w, sums), {}, "targets must be 4 numbers")
