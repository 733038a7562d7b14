"""What windows see of rows, without a copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from blu.dialects.batching import in_front
from blu.dialects.core.dtypes import TensorType, bf16, f32, i32
from blu.dialects.core.op import ErrorSample, Ints, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.errors import ShapeError


class RowWindows(Op, name="row_windows"):
    """Rows of an operand [.., rows, C] at regular places: [.., *sizes, C], of which rows may be seen more than once.

    Element (i, j, ..) is row start + i * steps[0] + j * steps[1] + ... It moves no data: memory is read with these
    strides, down to the kernels that do.
    """

    deliberate: ClassVar[dict[str, str]] = {"vjp": "convolutions are differentiated before they are written with it"}
    batch = staticmethod(in_front())

    operand: Operand
    sizes: Ints
    steps: Ints
    start: int

    @staticmethod
    def reference(operand: np.ndarray, sizes: tuple[int, ...], steps: tuple[int, ...], start: int) -> np.ndarray:
        places = np.indices(sizes, sparse=True)
        rows = start + sum(step * along for step, along in zip(steps, places, strict=True))
        return np.take(operand, rows, axis=-2)

    @staticmethod
    def infer(operand: TensorType, sizes: tuple[int, ...], steps: tuple[int, ...], start: int) -> TensorType:
        if operand.ndim < 2:
            raise ShapeError(f"rows are the second last dimension, which {operand} lacks")
        if len(sizes) != len(steps) or not sizes:
            raise ShapeError(f"sizes and steps go together, one or more: got {list(sizes)} and {list(steps)}")
        if min(sizes) < 0 or min(steps) < 1 or start < 0:
            raise ShapeError(
                f"sizes and start are at least 0, steps at least 1: got {list(sizes)}, {start}, {list(steps)}"
            )
        last = start + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
        if min(sizes) and last >= operand.shape[-2]:
            raise ShapeError(f"row {last} is read of {operand}, which has {operand.shape[-2]}")
        return operand.with_shape((*operand.shape[:-2], *sizes, operand.shape[-1]))

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in (f32, bf16, i32):
            for shape, sizes, steps, start in _CASES:
                yield Sample((draw(rng, shape, dtype, -9, 9),), {"sizes": sizes, "steps": steps, "start": start})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, right = (TensorType((7, 2), f32),), {"sizes": (3, 2), "steps": (2, 1), "start": 1}
        yield ErrorSample(operand, right | {"start": 2}, "row 7 is read of f32[7, 2], which has 7")
        yield ErrorSample(operand, right | {"start": -1}, "at least 0")
        yield ErrorSample(operand, right | {"steps": (2, 0)}, "steps at least 1")
        yield ErrorSample(operand, right | {"steps": (2,)}, "go together")
        yield ErrorSample(operand, right | {"steps": (), "sizes": ()}, "one or more")
        yield ErrorSample((TensorType((7,), f32),), right, "second last dimension")


_CASES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]] = [
    ((1, 1), (1,), (1,), 0),
    ((7, 3), (3, 2), (2, 1), 1),
    ((9, 2), (4, 2, 2), (1, 3, 1), 1),
    ((2, 11, 3), (5, 2), (1, 5), 1),
    ((3, 5, 4), (2, 2), (3, 1), 0),
    ((5, 2), (0, 2), (7, 1), 9),
    ((40, 16), (30, 3), (1, 4), 0),
    ((4, 0), (2, 2), (1, 1), 0),
]
