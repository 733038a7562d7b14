"""What the gradient of `max_pool` is made of: where windows found their largest elements, and what goes back there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from blu.dialects.batching import folded
from blu.dialects.core.dtypes import FLOATS, DType, TensorType, f32, i32, i64, product, u8
from blu.dialects.core.op import ErrorSample, Ints, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.convolution.products import cut, padded
from blu.dialects.ops.convolution.windows import Dimension
from blu.dialects.ops.creation import Constant
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError

WINDOWS = ("window", "strides", "low", "high", "dilation")
LOWEST = float("-inf")
NOWHERE = -1
"""The place of a window that lies in the padding: all bits are set, so that it is 255 as a u8."""
# Shape of the operand, window, strides, low, high, dilation.
_CASES = (
    ((2, 7, 3), (3,), (2,), (1,), (1,), (1,)),
    ((1, 4, 6, 2), (2, 3), (2, 3), (0, 0), (0, 0), (1, 1)),
    ((2, 4, 5, 2), (3, 3), (2, 2), (1, 1), (1, 0), (1, 1)),
    ((1, 6, 2), (2,), (3,), (0,), (0,), (2,)),
    ((1, 9, 2), (3,), (1,), (2,), (0,), (2,)),
    ((0, 4, 2), (2,), (2,), (0,), (0,), (1,)),
)


def dimensions_of(sizes: tuple[int, ...], along: dict[str, Any]) -> list[Dimension]:
    """The spatial dimensions of so many elements, by the attributes of an op."""
    return list(map(Dimension, sizes, *(along[name] for name in WINDOWS)))


def infer_max_pool(operand: TensorType, **along: Any) -> TensorType:
    """The result's type."""
    if operand.dtype not in FLOATS:
        raise DTypeError(f"does not take {operand.dtype}, only {', '.join(map(str, FLOATS))}")
    for name, values in along.items():
        if len(values) != operand.ndim - 2:
            raise ShapeError(f"{name} must have one number per spatial dimension of {operand}, got {list(values)}")
        least = 0 if name in ("low", "high") else 1
        if min(values, default=least) < least:
            raise ShapeError(f"{name} must be at least {least}, got {list(values)}")
    dims = dimensions_of(operand.shape[1:-1], along)
    for axis, dim in enumerate(dims):
        if dim.extent > dim.padded:
            raise ShapeError(
                f"a window reaches over {dim.extent} elements of spatial dimension {axis}, which has "
                f"{dim.padded} with its padding"
            )
    return operand.with_shape((operand.shape[0], *(dim.count for dim in dims), operand.shape[-1]))


def seen_from(dims: list[Dimension], place: tuple[int, ...]) -> tuple[slice, ...]:
    """What a place of all windows sees of the padded operand [N, *sizes, C]."""
    starts = [at * dim.dilation for at, dim in zip(place, dims, strict=True)]
    spans = zip(starts, dims, strict=True)
    return (slice(None), *(slice(start, start + (dim.count - 1) * dim.stride + 1, dim.stride) for start, dim in spans))


def padding_of(dims: list[Dimension]) -> list[tuple[int, int]]:
    """What lies around an operand [N, *sizes, C], as NumPy's pad takes it."""
    return [(0, 0), *((dim.low, dim.high) for dim in dims), (0, 0)]


def _samples() -> Iterator[tuple[DType, np.ndarray, dict[str, Any]]]:
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        for shape, *along in _CASES:
            yield dtype, draw(rng, shape, dtype), dict(zip(WINDOWS, along, strict=True))


def dtype_of_place(window: Sequence[int]) -> DType:
    """A byte for windows of fewer than 256 places, which are kept for the gradient."""
    return u8 if product(window) < 1 << 8 else i32


class MaxPoolPlace(Op, name="max_pool_place"):
    """Which place of each window of `max_pool` has the first of the largest elements, counted in row-major order.

    A u8 for each result, [N, *counts, C], or an i32 where windows have more than 255 places. A NaN is largest; 255,
    or -1, says that a window sees padding only.
    """

    batch = staticmethod(folded("operand"))

    operand: Operand
    window: Ints
    strides: Ints
    low: Ints
    high: Ints
    dilation: Ints

    @staticmethod
    def reference(operand: np.ndarray, **along: Any) -> np.ndarray:
        dims = dimensions_of(operand.shape[1:-1], along)
        seen = np.pad(operand, padding_of(dims), constant_values=-np.inf)
        is_inside = np.pad(np.ones(operand.shape, np.bool_), padding_of(dims))
        found, best = None, None
        for number, place in enumerate(np.ndindex(*along["window"])):
            view, inside = (item[seen_from(dims, place)] for item in (seen, is_inside))
            if found is None or best is None:
                found, best = np.where(inside, 0, NOWHERE).astype(np.int32), view.copy()
                continue
            better = inside & ((found == NOWHERE) | (view > best) | (np.isnan(view) & ~np.isnan(best)))
            found, best = np.where(better, np.int32(number), found), np.where(better, view, best)
        assert found is not None
        return found.astype(dtype_of_place(along["window"]).numpy)

    @staticmethod
    def infer(operand: TensorType, **along: Any) -> TensorType:
        return infer_max_pool(operand, **along).with_dtype(dtype_of_place(along["window"]))

    @staticmethod
    def samples() -> Iterator[Sample]:
        for _, operand, along in _samples():
            yield Sample((operand,), along)
        special = np.array([[1, np.nan, 2, -np.inf, np.nan, 0.0, 0.0, -np.inf]], np.float32).reshape((1, 8, 1))
        yield Sample((special,), {"window": (3,), "strides": (1,), "low": (1,), "high": (1,), "dilation": (1,)})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        plain = {"window": (3,), "strides": (1,), "low": (0,), "high": (0,), "dilation": (1,)}
        operand = TensorType((1, 5, 2), f32)
        yield ErrorSample((operand,), plain | {"dilation": (3,)}, "reaches over 7 elements of spatial dimension 0")
        yield ErrorSample((operand.with_dtype(i32),), plain, "does not take i32")


class MaxPoolGradient(Op, name="max_pool_gradient"):
    """Each element of g [N, *counts, C] added to that which its window has chosen: [N, *sizes, C].

    `place` is what `max_pool_place` gives. Sums are formed in f32 at least, and rounded once.
    """

    batch = staticmethod(folded("g", "place"))

    g: Operand
    place: Operand
    sizes: Ints
    window: Ints
    strides: Ints
    low: Ints
    high: Ints
    dilation: Ints

    @staticmethod
    def reference(g: np.ndarray, place: np.ndarray, sizes: tuple[int, ...], **along: Any) -> np.ndarray:
        dims = dimensions_of(sizes, along)
        padded = [dim.low + dim.size + dim.high for dim in dims]
        total = np.zeros((g.shape[0], *padded, g.shape[-1]), g.dtype)
        for number, at in enumerate(np.ndindex(*along["window"])):
            total[seen_from(dims, at)] += np.where(place == number, g, 0)
        inner = [slice(dim.low, dim.low + dim.size) for dim in dims]
        return total[(slice(None), *inner)]

    @staticmethod
    def infer(g: TensorType, place: TensorType, sizes: tuple[int, ...], **along: Any) -> TensorType:
        dtype = dtype_of_place(along["window"])
        if g.ndim < 2 or place.dtype != dtype:
            raise DTypeError(f"place must be {dtype}, got {place} for {g}")
        operand = g.with_shape((g.shape[0], *sizes, g.shape[-1]))
        expected = infer_max_pool(operand, **along)
        if g != expected or place.shape != expected.shape:
            raise ShapeError(f"g and place must be {list(expected.shape)} for {list(operand.shape)}, got {g}, {place}")
        return operand

    @staticmethod
    def vjp(
        h: Tensor, g: Tensor, place: Tensor, result: Tensor, sizes: tuple[int, ...], **along: Any
    ) -> tuple[Tensor, None]:
        """What each window has chosen of h."""
        dims = dimensions_of(sizes, along)
        around = [0, *along["low"], 0], [0, *along["high"], 0]
        wide, total = padded(h, *around), None
        for number, at in enumerate(np.ndindex(*along["window"])):
            own = seen_from(dims, at)[1:]
            starts, limits = [0, *(one.start for one in own), 0], [wide.shape[0], *(one.stop for one in own)]
            view = cut(wide, starts, [*limits, wide.shape[-1]], [1, *(one.step for one in own), 1])
            chosen = (place == Constant(value=np.asarray(number, place.dtype.numpy))).where(view, 0)
            total = chosen if total is None else total + chosen
        assert total is not None
        return total, None

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(1)
        for dtype, operand, along in _samples():
            place = MaxPoolPlace.reference(operand, **along)
            g = draw(rng, place.shape, dtype)
            yield Sample((g, place), {"sizes": operand.shape[1:-1], **along})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        along = {"sizes": (5,), "window": (3,), "strides": (1,), "low": (0,), "high": (0,), "dilation": (1,)}
        g, place = TensorType((1, 3, 2), f32), TensorType((1, 3, 2), u8)
        yield ErrorSample((g, place.with_dtype(i64)), along, "place must be u8")
        yield ErrorSample((g.with_shape((1, 2, 2)), place), along, "g and place must be [1, 3, 2]")
