"""Ops that read or write at positions known only at run time. Sorting is in sorting.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blu.dialects.batching import Batched, along, at_the_end, in_turn, starts_of_all
from blu.dialects.core.axes import check_axis, without_axis
from blu.dialects.core.dtypes import MOVED, NUMBERS, DType, TensorType, bool_, f32, f64, gradient_dtype, i8, i32, i64
from blu.dialects.core.op import ErrorSample, Ints, Op, Operand, Sample, VariadicOperand
from blu.dialects.core.sample_values import draw
from blu.dialects.moving import MovingOp
from blu.dialects.ops.creation import Constant, Iota
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError

INDEX_DTYPES = (i32, i64)


def _check_indices(indices: TensorType) -> None:
    if indices.dtype not in INDEX_DTYPES:
        raise DTypeError(f"indices must be i32 or i64, got {indices}")


def _taken_shape(operand: TensorType, indices: TensorType, axis: int) -> tuple[int, ...]:
    """The shape of take(operand, indices, axis): the axis replaced by the indices' dimensions."""
    _check_indices(indices)
    check_axis(axis, operand)
    if indices.size and not operand.shape[axis]:
        raise ShapeError(f"{indices} has indices, but axis {axis} of {operand} is empty")
    return (*operand.shape[:axis], *indices.shape, *operand.shape[axis + 1 :])


_TAKE_CASES = [
    ((5,), (), 0),
    ((5,), (3,), 0),
    ((7, 19), (4,), 0),
    ((7, 19), (2, 3), 0),
    ((3, 5, 4), (2,), 1),
    ((3, 5), (2, 2), 1),
    ((3, 5), (0,), 0),
    ((0, 5), (2,), 1),
]


def _zeros_like(tensor: Tensor) -> Tensor:
    return Constant(value=np.zeros((), gradient_dtype(tensor.dtype).numpy)).broadcast_to(tensor.shape)


class Take(MovingOp, name="take", is_checked=True):
    """The slices of the operand at `indices` along `axis`; negative indices count from the end.

    An index outside of the axis stops the run with an IndexError.
    """

    operand: Operand
    indices: Operand
    axis: int

    @staticmethod
    def reference(operand: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
        return np.take(operand, indices, axis)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, indices: Tensor, result: Tensor, axis: int) -> tuple[Tensor, None]:
        return ScatterAdd(_zeros_like(operand), indices, g, axis=axis), None

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        operand, indices = op.operands
        axis = op.attributes["axis"]
        if not indices.is_batched:
            return op.emit([operand.tensor, indices.tensor], axis=axis + 1)
        return in_turn(op) if operand.is_batched else [op.emit([operand.tensor, indices.tensor])[0].moveaxis(axis, 0)]

    @staticmethod
    def infer(operand: TensorType, indices: TensorType, axis: int) -> TensorType:
        return operand.with_shape(_taken_shape(operand, indices, axis))

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for number, dtype in enumerate(MOVED):
            for shape, count, axis in _TAKE_CASES:
                indices = draw(rng, count, INDEX_DTYPES[number % 2], -shape[axis], shape[axis] - 1)
                yield Sample((draw(rng, shape, dtype), indices), {"axis": axis})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, indices = TensorType((0, 3), f32), TensorType((2,), i32)
        yield ErrorSample((operand, indices), {"axis": 0}, "axis 0 of f32[0, 3] is empty")
        yield ErrorSample((operand, indices), {"axis": 2}, "axes 0..1")
        yield ErrorSample((operand, indices.with_dtype(f32)), {"axis": 1}, "indices must be i32 or i64")
        yield ErrorSample((operand, indices.with_dtype(i8)), {"axis": 1}, "indices must be i32 or i64")


# As many indices along an axis are compared with its positions, in one kernel; more of them are added each.
MOST_COMPARED = 32


class TakeAlongAxis(MovingOp, name="take_along_axis", is_checked=True):
    """Each element of the result is the operand's at the same position, but at `indices` along `axis`.

    Indices have the operand's shape but for the axis. Negative ones count from the end; one outside of the axis stops
    the run with an IndexError.
    """

    batch = staticmethod(along)
    operand: Operand
    indices: Operand
    axis: int

    @staticmethod
    def reference(operand: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
        return np.take_along_axis(operand, indices, axis)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, indices: Tensor, result: Tensor, axis: int) -> tuple[Tensor, None]:
        """Each position of the operand sums the gradients of the indices that name it."""
        size, rank = operand.shape[axis], g.ndim
        if indices.shape[axis] > MOST_COMPARED:
            numbers = Iota(shape=(operand.size,), axis=0, dtype=i64).reshape(operand.shape)
            places = TakeAlongAxis(numbers, indices, axis=axis).reshape((g.size,))
            zeros = _zeros_like(operand).reshape((operand.size,))
            return ScatterAdd(zeros, places, g.reshape((g.size,)), axis=0).reshape(operand.shape), None
        wrapped = (indices < 0).where(indices + size, indices)
        column = Iota(shape=(size,), axis=0, dtype=indices.dtype).reshape([size, *[1] * (rank - axis)])
        apart = [*g.shape[:axis], 1, *g.shape[axis:]]  # the operand's positions, and then the indices
        return (wrapped.reshape(apart) == column).where(g.reshape(apart), 0).sum(axis=axis + 1), None

    @staticmethod
    def infer(operand: TensorType, indices: TensorType, axis: int) -> TensorType:
        _check_indices(indices)
        check_axis(axis, operand)
        if indices.ndim != operand.ndim or without_axis(indices.shape, axis) != without_axis(operand.shape, axis):
            raise ShapeError(f"{indices} must have the shape of {operand} but for axis {axis}")
        if indices.size and not operand.shape[axis]:
            raise ShapeError(f"{indices} has indices, but axis {axis} of {operand} is empty")
        return operand.with_shape(indices.shape)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for number, dtype in enumerate(MOVED):
            for shape, length, axis in (
                ((5,), 3, 0),
                ((4, 7), 1, 1),
                ((4, 7), 9, 0),
                ((2, 3, 4), 2, 1),
                ((0, 3), 2, 1),
                ((3,), 0, 0),
            ):
                place = (*shape[:axis], length, *shape[axis + 1 :])
                indices = draw(rng, place, INDEX_DTYPES[number % 2], -shape[axis], shape[axis] - 1)
                yield Sample((draw(rng, shape, dtype), indices), {"axis": axis})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, indices = TensorType((2, 3), f32), TensorType((2, 1), i32)
        yield ErrorSample((operand, indices), {"axis": 0}, "must have the shape of f32[2, 3] but for axis 0")
        yield ErrorSample((operand, indices.with_shape((2,))), {"axis": 1}, "must have the shape")
        yield ErrorSample((operand, indices.with_dtype(bool_)), {"axis": 1}, "indices must be i32 or i64")
        yield ErrorSample((operand.with_shape((2, 0)), indices), {"axis": 1}, "is empty")


class ScatterAdd(Op, name="scatter_add", is_checked=True):
    """The operand with `updates` added at `indices` along `axis`. Repeated indices add up, in a fixed order.

    `updates` has the shape of take(operand, indices, axis). Negative indices count from the end; one outside of the
    axis stops the run with an IndexError. f16 and bf16 are accumulated in f32 and rounded once.
    """

    kernel = True
    operand: Operand
    indices: Operand
    updates: Operand
    axis: int

    @staticmethod
    def reference(operand: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int) -> np.ndarray:
        result = operand.copy()
        place: Any = (*[slice(None)] * axis, indices)
        np.add.at(result, place, updates)
        return result

    @staticmethod
    def vjp(
        g: Tensor, operand: Tensor, indices: Tensor, updates: Tensor, result: Tensor, axis: int
    ) -> tuple[Tensor, None, Tensor]:
        return g, None, Take(g, indices, axis=axis)

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        operand, indices, updates = op.operands
        if indices.is_batched:
            return in_turn(op)
        return op.emit([op.each(operand), indices.tensor, op.each(updates)], axis=op.attributes["axis"] + 1)

    @staticmethod
    def infer(operand: TensorType, indices: TensorType, updates: TensorType, axis: int) -> TensorType:
        if operand.dtype == bool_ or updates.dtype != operand.dtype:
            raise DTypeError(f"operand and updates must have one dtype other than bool, got {operand} and {updates}")
        shape = _taken_shape(operand, indices, axis)
        if updates.shape != shape:
            raise ShapeError(
                f"updates of {operand} at {indices} along axis {axis} have shape {list(shape)}, got {updates}"
            )
        return operand

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for number, dtype in enumerate(NUMBERS):
            for shape, count, axis in _TAKE_CASES:
                indices = draw(rng, count, INDEX_DTYPES[number % 2], -shape[axis], shape[axis] - 1)
                updates = draw(rng, (*shape[:axis], *count, *shape[axis + 1 :]), dtype)
                yield Sample((draw(rng, shape, dtype), indices, updates), {"axis": axis})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, indices, updates = TensorType((5, 3), f32), TensorType((2,), i32), TensorType((2, 3), f32)
        yield ErrorSample((operand, indices, updates), {"axis": 1}, "have shape [5, 2], got f32[2, 3]")
        yield ErrorSample((operand, indices, updates.with_dtype(f64)), {"axis": 0}, "one dtype")
        yield ErrorSample((operand, indices.with_dtype(f32), updates), {"axis": 0}, "indices must be i32 or i64")
        yield ErrorSample((operand, indices, updates), {"axis": 2}, "axes 0..1")


def _check_starts(starts: list[TensorType], operand: TensorType) -> None:
    if len(starts) != operand.ndim:
        raise ShapeError(f"{operand} needs {operand.ndim} starts, one per dimension, got {len(starts)}")
    for start in starts:
        if start.ndim or start.dtype not in INDEX_DTYPES:
            raise DTypeError(f"starts must be 0-d i32 or i64, got {start}")


def _check_fits(sizes: tuple[int, ...], operand: TensorType) -> None:
    if len(sizes) != operand.ndim or any(
        not 0 <= size <= whole for size, whole in zip(sizes, operand.shape, strict=True)
    ):
        raise ShapeError(f"a window of {list(sizes)} does not fit into {operand}")


def _clamped(starts: list[np.ndarray], sizes: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The window as slices, moved inside of the shape."""
    found = [min(max(int(start), 0), whole - size) for start, size, whole in zip(starts, sizes, shape, strict=True)]
    return tuple(slice(start, start + size) for start, size in zip(found, sizes, strict=True))


_WINDOW_CASES = [
    ((), (), ()),
    ((5,), (2,), (1,)),
    ((5,), (2,), (4,)),
    ((5,), (2,), (-3,)),
    ((4, 19), (1, 19), (3, 0)),
    ((4, 6), (2, 3), (1, 2)),
    ((4, 6), (0, 3), (9, 9)),
    ((2, 8, 4), (2, 1, 4), (0, 5, 0)),
]


class DynamicSlice(MovingOp, name="dynamic_slice"):
    """A window of `sizes` whose first element is at `starts` (one 0-d integer per dimension).

    Starts are moved into 0..size - window, as in XLA: a window never reaches outside, and negative starts mean 0.
    """

    operand: Operand
    starts: VariadicOperand
    sizes: Ints

    @staticmethod
    def reference(operand: np.ndarray, starts: list[np.ndarray], sizes: tuple[int, ...]) -> np.ndarray:
        return operand[_clamped(starts, sizes, operand.shape)]

    @staticmethod
    def vjp(
        g: Tensor, operand: Tensor, starts: list[Tensor], result: Tensor, sizes: tuple[int, ...]
    ) -> tuple[Tensor, list[None]]:
        return DynamicUpdateSlice(_zeros_like(operand), g, starts), [None] * len(starts)

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        starts, sizes = starts_of_all(op), (op.size, *op.attributes["sizes"])
        return in_turn(op) if starts is None else op.emit([op.operands[0].tensor, starts], sizes=sizes)

    @staticmethod
    def infer(operand: TensorType, starts: list[TensorType], sizes: tuple[int, ...]) -> TensorType:
        _check_starts(starts, operand)
        _check_fits(sizes, operand)
        return operand.with_shape(sizes)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for number, dtype in enumerate(MOVED):
            for shape, sizes, starts in _WINDOW_CASES:
                places = [np.array(start, INDEX_DTYPES[number % 2].numpy) for start in starts]
                yield Sample((draw(rng, shape, dtype), places), {"sizes": sizes})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, start = TensorType((4, 3), f32), TensorType((), i32)
        yield ErrorSample((operand, [start]), {"sizes": (1, 1)}, "needs 2 starts")
        yield ErrorSample((operand, [start, start]), {"sizes": (5, 1)}, "does not fit into f32[4, 3]")
        yield ErrorSample((operand, [start, start]), {"sizes": (1,)}, "does not fit")
        yield ErrorSample((operand, [start, start.with_dtype(f32)]), {"sizes": (1, 1)}, "0-d i32 or i64")
        yield ErrorSample((operand, [start, start.with_shape((1,))]), {"sizes": (1, 1)}, "0-d i32 or i64")


class DynamicUpdateSlice(MovingOp, name="dynamic_update_slice"):
    """The operand with the window at `starts` replaced by `update`; starts are moved inside as in dynamic_slice."""

    operand: Operand
    update: Operand
    starts: VariadicOperand

    @staticmethod
    def reference(operand: np.ndarray, update: np.ndarray, starts: list[np.ndarray]) -> np.ndarray:
        result = np.array(operand)
        result[_clamped(starts, update.shape, operand.shape)] = update
        return result

    @staticmethod
    def vjp(
        g: Tensor, operand: Tensor, update: Tensor, starts: list[Tensor], result: Tensor
    ) -> tuple[Tensor, Tensor, list[None]]:
        hidden = DynamicUpdateSlice(g, _zeros_like(update), starts)
        return hidden, DynamicSlice(g, starts, sizes=update.shape), [None] * len(starts)

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        starts = starts_of_all(op)
        return in_turn(op) if starts is None else op.emit([*map(op.each, op.operands[:2]), starts])

    @staticmethod
    def infer(operand: TensorType, update: TensorType, starts: list[TensorType]) -> TensorType:
        if update.dtype != operand.dtype:
            raise DTypeError(f"operand and update must have one dtype, got {operand} and {update}")
        _check_starts(starts, operand)
        _check_fits(update.shape, operand)
        return operand

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for number, dtype in enumerate(MOVED):
            for shape, sizes, starts in _WINDOW_CASES:
                places = [np.array(start, INDEX_DTYPES[number % 2].numpy) for start in starts]
                yield Sample((draw(rng, shape, dtype), draw(rng, sizes, dtype), places))

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, update, start = TensorType((4, 3), f32), TensorType((1, 3), f32), TensorType((), i32)
        yield ErrorSample((operand, update, [start]), {}, "needs 2 starts")
        yield ErrorSample((operand, update.with_shape((5, 1)), [start, start]), {}, "does not fit into f32[4, 3]")
        yield ErrorSample((operand, update.with_shape((3,)), [start, start]), {}, "does not fit")
        yield ErrorSample((operand, update.with_dtype(f64), [start, start]), {}, "one dtype")


class OneHot(Op, name="one_hot"):
    """1 at the index and 0 elsewhere along a new last dimension of size `depth`; an index outside of it gives zeros."""

    batch = staticmethod(at_the_end)
    operand: Operand
    depth: int
    dtype: DType

    @staticmethod
    def reference(operand: np.ndarray, depth: int, dtype: DType) -> np.ndarray:
        return (operand[..., None] == np.arange(depth)).astype(dtype.numpy)

    @staticmethod
    def infer(operand: TensorType, depth: int, dtype: DType) -> TensorType:
        _check_indices(operand)
        if depth < 0:
            raise ShapeError(f"depth cannot be negative, got {depth}")
        return TensorType((*operand.shape, depth), dtype)

    @staticmethod
    def decompose(operand: Tensor, depth: int, dtype: DType) -> Tensor:
        from blu.dialects.ops.creation import Iota

        classes = Iota(shape=(depth,), axis=0, dtype=operand.dtype)
        return (operand.reshape((*operand.shape, 1)) == classes).astype(dtype)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for number, dtype in enumerate((bool_, *NUMBERS)):
            for shape, depth in (((), 3), ((4,), 5), ((2, 3), 17), ((0,), 2), ((2,), 0)):
                indices = draw(rng, shape, INDEX_DTYPES[number % 2], -1, depth)
                yield Sample((indices,), {"depth": depth, "dtype": dtype})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2,), f32),), {"depth": 3, "dtype": f32}, "indices must be i32 or i64")
        yield ErrorSample((TensorType((2,), i32),), {"depth": -1, "dtype": f32}, "depth cannot be negative")
