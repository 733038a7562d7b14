"""Indices that are looked at before they are used: each in the axis that the user meant, under the name they know."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from blu.dialects.batching import elementwise
from blu.dialects.core.dtypes import TensorType, f32, i32, i64
from blu.dialects.core.op import ErrorSample, Ints, Op, Sample, VariadicOperand
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.errors import DTypeError, ShapeError

INDEX_DTYPES = (i32, i64)


class CheckedIndex(Op, name="checked_index"):
    """The row-major position (i64) of indices, one operand for each axis, in axes of `sizes`.

    Negative indices count from the end if `from_end`. One outside of its own axis stops the run with an IndexError:
    where several axes are read as one, it may lie inside of that. The error names the function that was called, or
    `reported_as` where nobody knows that.
    """

    batch = staticmethod(elementwise)

    is_checked = True
    operands: VariadicOperand
    sizes: Ints
    from_end: bool
    reported_as: str

    @staticmethod
    def reference(operands: list[np.ndarray], sizes: tuple[int, ...], from_end: bool, reported_as: str) -> np.ndarray:
        for item, size in zip(operands, sizes, strict=True):
            if np.any((item < (-size if from_end else 0)) | (item >= size)):
                raise IndexError(f"{reported_as}: an index is out of bounds for axis of size {size}")
        wrapped = [np.where(item < 0, item + size, item) for item, size in zip(operands, sizes, strict=True)]
        total = wrapped[0].astype(np.int64)
        for item, size in zip(wrapped[1:], sizes[1:], strict=True):
            total = total * size + item
        return np.asarray(total)

    @staticmethod
    def infer(operands: list[TensorType], sizes: tuple[int, ...], from_end: bool, reported_as: str) -> TensorType:
        if not operands or len(operands) != len(sizes) or any(size < 1 for size in sizes):
            raise ShapeError(f"needs one operand for each of the sizes {list(sizes)}, which are at least 1")
        for operand in operands:
            if operand.dtype not in INDEX_DTYPES:
                raise DTypeError(f"indices must be i32 or i64, got {operand}")
        return TensorType(broadcast_shapes(*(operand.shape for operand in operands)), i64)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtypes in pairwise((*INDEX_DTYPES, *INDEX_DTYPES)):
            for shapes, sizes in (
                ([()], (4,)),
                ([(3,)], (5,)),
                ([(0,), (1,)], (5, 2)),
                ([(3, 1), (4,)], (5, 7)),
                ([(2,), (), (3, 2)], (2, 3, 9)),
            ):
                pairs = zip(shapes, sizes, dtypes * 2, strict=False)
                operands = [draw(rng, shape, dtype, -size, size - 1) for shape, size, dtype in pairs]
                yield Sample((operands,), {"sizes": sizes, "from_end": True, "reported_as": "take"})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        index, options = TensorType((2,), i64), {"from_end": True, "reported_as": "take"}
        yield ErrorSample(([index, index],), {"sizes": (3,), **options}, "one operand for each of the sizes [3]")
        yield ErrorSample(([index],), {"sizes": (0,), **options}, "at least 1")
        yield ErrorSample(([index.with_dtype(f32)],), {"sizes": (3,), **options}, "indices must be i32 or i64")
        yield ErrorSample(([index, index.with_shape((3,))],), {"sizes": (3, 2), **options}, "do not broadcast")
