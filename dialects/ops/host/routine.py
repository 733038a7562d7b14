"""What all ops have in common that the host computes: `blu.plan.routines` has what each of them does, by its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from blu.dialects.batching import Batched
from blu.dialects.core.dtypes import TensorType, f32, f64, i32, i64
from blu.dialects.core.op import ErrorSample, Op, Operand, Sample
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError
from blu.plan.routines import run_routine

DTYPES = (f32, f64)
"""What the routines compute in."""
FOUND = TensorType((), i64)
"""What a routine that may fail gives last of all: see `blu.plan.routines`."""


class HostRoutine(Op):
    """Base of the ops whose name is that of a routine. The last dimensions are matrices, those before them batches.

    One that may fail says what it `reports`, a kind of `plan.check`, of the function that users call it by, if nobody
    knows which was called.
    """

    host_step = True
    is_checked = True
    reports: ClassVar[str] = ""
    reported_as: ClassVar[str] = ""

    @classmethod
    def reference(cls, *operands: np.ndarray, **numbers: Any) -> Any:
        """The routine itself."""
        first, *others = run_routine(cls.name, list(operands), numbers)
        return (first, *others) if others else first

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        """Slices are one more dimension of the batch; whether any of them failed is said of all."""
        results = op.emit([op.each(item) for item in op.operands])
        if getattr(op.cls, "reports", ""):
            results[-1] = results[-1].broadcast_to((op.size,))
        return results


class MatrixRoutine(HostRoutine):
    """Base of those of matrices, of which `is_square` says whether they have as many rows as columns."""

    is_square: ClassVar[bool] = True

    operand: Operand

    @classmethod
    def check(cls, operand: TensorType) -> None:
        """DTypeError or ShapeError for what are no such matrices."""
        check_dtype(operand)
        if len(operand.shape) < 2:
            raise ShapeError(f"takes matrices, of at least two dimensions, got {operand}")
        if cls.is_square and operand.shape[-1] != operand.shape[-2]:
            raise ShapeError(f"takes square matrices, got {operand}")

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        for matrices in cls.matrices():
            for options in cls.options():
                yield Sample((matrices,), options)

    @classmethod
    def matrices(cls) -> Iterator[np.ndarray]:
        """What samples are made of: matrices that are far from singular."""
        rng = np.random.default_rng(0)
        for dtype in DTYPES:
            for shape in ((1, 1), (3, 3), (2, 4, 4), (2, 1, 2, 2), (0, 0), (0, 3, 3), (2, 0, 0)):
                yield well_conditioned(rng, shape).astype(dtype.numpy)

    @classmethod
    def options(cls) -> Iterator[dict[str, Any]]:
        """The attributes that samples have."""
        yield {}

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        options, operand = next(iter(cls.options())), TensorType((3, 3), f32)
        yield ErrorSample((operand.with_dtype(i32),), options, "f32 or f64")
        yield ErrorSample((operand.with_shape((3,)),), options, "at least two dimensions")
        if cls.is_square:
            yield ErrorSample((operand.with_shape((2, 3)),), options, "square matrices")


def check_dtype(operand: TensorType) -> None:
    """DTypeError for what no routine computes in."""
    if operand.dtype not in DTYPES:
        raise DTypeError(f"the host computes in f32 or f64, got {operand}")


def well_conditioned(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Matrices whose diagonals are larger than the rest, and whose singular values are all different."""
    rows, columns = shape[-2:]
    diagonal = np.diag(np.arange(2.0, 2 + max(rows, columns)))[:rows, :columns]
    return rng.uniform(-0.5, 0.5, shape) + diagonal
