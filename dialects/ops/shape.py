"""Ops that move elements without computing: most become views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from blu.dialects.batching import Batched, along, in_front
from blu.dialects.core.axes import check_axes, check_axis, without_axis
from blu.dialects.core.dtypes import MOVED, TensorType, f32, i32, product
from blu.dialects.core.op import ErrorSample, Ints, Operand, Sample, VariadicOperand
from blu.dialects.core.sample_values import draw
from blu.dialects.moving import MovingOp
from blu.dialects.ops.creation import Constant
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError


def _samples(cases: Sequence[tuple[tuple[int, ...], dict[str, object]]]) -> Iterator[Sample]:
    """One sample per dtype and case of an operand's shape and the attributes."""
    rng = np.random.default_rng(0)
    for dtype in MOVED:
        for shape, attributes in cases:
            yield Sample((draw(rng, shape, dtype),), attributes)


def _check_count(what: str, values: Sequence[int], operand: TensorType) -> None:
    if len(values) != operand.ndim:
        raise ShapeError(f"{what} must have one entry per dimension of {operand}, got {list(values)}")


class Reshape(MovingOp, name="reshape"):
    """The same elements in row-major order in another shape."""

    batch = staticmethod(in_front(shape="size"))

    operand: Operand
    shape: Ints

    @staticmethod
    def reference(operand: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return operand.reshape(shape)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, shape: tuple[int, ...]) -> Tensor:
        return g.reshape(operand.shape)

    @staticmethod
    def infer(operand: TensorType, shape: tuple[int, ...]) -> TensorType:
        if product(shape) != operand.size:
            raise ShapeError(
                f"{operand} has {operand.size} elements, but shape {list(shape)} has room for {product(shape)}"
            )
        return operand.with_shape(shape)

    @staticmethod
    def samples() -> Iterator[Sample]:
        cases = [((), (1, 1)), ((1,), ()), ((0, 3), (5, 0)), ((6, 4), (2, 3, 4)), ((2, 3, 4), (4, 6)), ((12,), (3, 4))]
        return _samples([(source, {"shape": target}) for source, target in cases])

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2, 3), f32),), {"shape": (4, 2)}, "6 elements, but shape [4, 2] has room for 8")
        yield ErrorSample((TensorType((2, 3), f32),), {"shape": (-2, -3)}, "negative size")


class Transpose(MovingOp, name="transpose"):
    """Dimension i of the result is dimension permutation[i] of the operand."""

    operand: Operand
    permutation: Ints

    @staticmethod
    def reference(operand: np.ndarray, permutation: tuple[int, ...]) -> np.ndarray:
        return operand.transpose(permutation)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, permutation: tuple[int, ...]) -> Tensor:
        return g.transpose([permutation.index(dim) for dim in range(g.ndim)])

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        permutation = (0, *(axis + 1 for axis in op.attributes["permutation"]))
        return op.emit([op.each(op.operands[0])], permutation=permutation)

    @staticmethod
    def infer(operand: TensorType, permutation: tuple[int, ...]) -> TensorType:
        if sorted(permutation) != list(range(operand.ndim)):
            raise ShapeError(f"{list(permutation)} is not a permutation of the {operand.ndim} dimensions of {operand}")
        return operand.with_shape(operand.shape[axis] for axis in permutation)

    @staticmethod
    def samples() -> Iterator[Sample]:
        cases = [
            ((), ()),
            ((3,), (0,)),
            ((2, 0), (1, 0)),
            ((3, 17), (1, 0)),
            ((2, 3, 4), (2, 0, 1)),
            ((1, 2, 3), (0, 1, 2)),
        ]
        return _samples([(shape, {"permutation": permutation}) for shape, permutation in cases])

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2, 3), f32),), {"permutation": (0, 0)}, "not a permutation")
        yield ErrorSample((TensorType((2, 3), f32),), {"permutation": (0, 1, 2)}, "not a permutation")


class BroadcastTo(MovingOp, name="broadcast_to"):
    """The operand repeated along dimensions of size 1 and along missing leading dimensions."""

    operand: Operand
    shape: Ints

    @staticmethod
    def reference(operand: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(operand, shape)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The walk back sums a gradient over what its operand was broadcast along."""
        return g

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        shape = op.attributes["shape"]
        return op.emit([op.aligned(op.operands[0], len(shape))], shape=(op.size, *shape))

    @staticmethod
    def infer(operand: TensorType, shape: tuple[int, ...]) -> TensorType:
        tail = shape[len(shape) - operand.ndim :] if operand.ndim <= len(shape) else None
        if tail is None or any(old not in (1, size) for old, size in zip(operand.shape, tail, strict=True)):
            raise ShapeError(
                f"{operand} does not broadcast to shape {list(shape)}",
                advice="Its sizes must be 1 or those of the shape, compared from the last dimension backwards.",
            )
        return operand.with_shape(shape)

    @staticmethod
    def samples() -> Iterator[Sample]:
        cases = [
            ((), ()),
            ((), (3,)),
            ((1,), (0,)),
            ((3,), (2, 3)),
            ((2, 1), (4, 2, 5)),
            ((1, 17), (3, 17)),
            ((0, 1), (0, 2)),
        ]
        return _samples([(source, {"shape": target}) for source, target in cases])

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2, 3), f32),), {"shape": (3,)}, "does not broadcast to shape [3]")
        yield ErrorSample((TensorType((2,), f32),), {"shape": (2, 3)}, "does not broadcast to shape [2, 3]")
        yield ErrorSample((TensorType((1,), f32),), {"shape": (-2,)}, "negative size")
        yield ErrorSample((TensorType((1,), f32),), {"shape": (1 << 62,)}, "bytes")


def _with_zeros(tensor: Tensor, low: Sequence[int], high: Sequence[int]) -> Tensor:
    zero = Constant(value=np.zeros((), tensor.dtype.numpy))
    return Pad(tensor, zero, low=tuple(low), high=tuple(high))


def _dilate(tensor: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Zeros between the elements, so that neighbours are `strides` apart."""
    for dim, stride in enumerate(strides):
        if stride == 1 or tensor.shape[dim] <= 1:
            continue
        shape = tensor.shape
        apart = tensor.reshape([*shape[: dim + 1], 1, *shape[dim + 1 :]])
        after = [stride - 1 if place == dim + 1 else 0 for place in range(apart.ndim)]
        apart = _with_zeros(apart, [0] * apart.ndim, after)
        joined = apart.reshape([*shape[:dim], shape[dim] * stride, *shape[dim + 1 :]])
        limits = tuple(size - (stride - 1 if place == dim else 0) for place, size in enumerate(joined.shape))
        tensor = Slice(joined, starts=(0,) * joined.ndim, limits=limits, strides=(1,) * joined.ndim)
    return tensor


class Slice(MovingOp, name="slice"):
    """Per dimension the elements starts, starts + strides, ... before limits."""

    batch = staticmethod(in_front(starts=0, limits="size", strides=1))

    operand: Operand
    starts: Ints
    limits: Ints
    strides: Ints

    @staticmethod
    def reference(
        operand: np.ndarray, starts: tuple[int, ...], limits: tuple[int, ...], strides: tuple[int, ...]
    ) -> np.ndarray:
        return operand[tuple(map(slice, starts, limits, strides))]

    @staticmethod
    def vjp(
        g: Tensor,
        operand: Tensor,
        result: Tensor,
        starts: tuple[int, ...],
        limits: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Tensor:
        """Zeros around the slice, and between its elements where it has strides."""
        spread = _dilate(g, strides)
        sizes = zip(operand.shape, starts, spread.shape, strict=True)
        high = [size - start - extent for size, start, extent in sizes]
        return _with_zeros(spread, starts, high)

    @staticmethod
    def infer(
        operand: TensorType, starts: tuple[int, ...], limits: tuple[int, ...], strides: tuple[int, ...]
    ) -> TensorType:
        for what, values in (("starts", starts), ("limits", limits), ("strides", strides)):
            _check_count(what, values, operand)
        for axis, (start, limit, size) in enumerate(zip(starts, limits, operand.shape, strict=True)):
            if not 0 <= start <= limit <= size:
                raise ShapeError(
                    f"{start}:{limit} is not a range of axis {axis} of {operand}: 0 <= start <= limit <= size"
                )
        if any(stride < 1 for stride in strides):
            raise ShapeError(f"strides must be at least 1, got {list(strides)}")
        ranges = zip(starts, limits, strides, strict=True)
        return operand.with_shape(-((start - limit) // stride) for start, limit, stride in ranges)

    @staticmethod
    def samples() -> Iterator[Sample]:
        cases = [
            ((), (), (), ()),
            ((7,), (2,), (7,), (1,)),
            ((7,), (1,), (6,), (2,)),
            ((5,), (3,), (3,), (1,)),
            ((4, 19), (1, 2), (3, 19), (1, 1)),
            ((4, 6), (0, 1), (4, 6), (3, 2)),
            ((0, 2), (0, 0), (0, 1), (1, 1)),
        ]
        return _samples(
            [(case[0], dict(zip(("starts", "limits", "strides"), case[1:], strict=True))) for case in cases]
        )

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand = (TensorType((4,), f32),)
        yield ErrorSample(operand, {"starts": (1,), "limits": (5,), "strides": (1,)}, "1:5 is not a range of axis 0")
        yield ErrorSample(operand, {"starts": (-1,), "limits": (2,), "strides": (1,)}, "-1:2 is not a range of axis 0")
        yield ErrorSample(operand, {"starts": (0,), "limits": (2,), "strides": (0,)}, "at least 1")
        yield ErrorSample(operand, {"starts": (0, 0), "limits": (2,), "strides": (1,)}, "one entry per dimension")


class Pad(MovingOp, name="pad"):
    """The operand with `low` copies of `value` before it and `high` after it, per dimension."""

    batch = staticmethod(in_front(low=0, high=0))

    operand: Operand
    value: Operand
    low: Ints
    high: Ints

    @staticmethod
    def reference(operand: np.ndarray, value: np.ndarray, low: tuple[int, ...], high: tuple[int, ...]) -> np.ndarray:
        result = np.full([sum(sizes) for sizes in zip(low, operand.shape, high, strict=True)], value, operand.dtype)
        result[tuple(slice(start, start + size) for start, size in zip(low, operand.shape, strict=True))] = operand
        return result

    @staticmethod
    def vjp(
        g: Tensor, operand: Tensor, value: Tensor, result: Tensor, low: tuple[int, ...], high: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        limits = tuple(start + size for start, size in zip(low, operand.shape, strict=True))
        inside = Slice(g, starts=low, limits=limits, strides=(1,) * g.ndim)
        return inside, g.sum() - inside.sum()

    @staticmethod
    def infer(operand: TensorType, value: TensorType, low: tuple[int, ...], high: tuple[int, ...]) -> TensorType:
        if value.ndim or value.dtype != operand.dtype:
            raise DTypeError(f"the value must be {operand.with_shape(())}, got {value}")
        _check_count("low", low, operand)
        _check_count("high", high, operand)
        if any(count < 0 for count in (*low, *high)):
            raise ShapeError(f"padding cannot be negative, got low {list(low)} and high {list(high)}")
        return operand.with_shape(sum(sizes) for sizes in zip(low, operand.shape, high, strict=True))

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in MOVED:
            for shape, low, high in (
                ((), (), ()),
                ((3,), (0,), (0,)),
                ((17,), (2,), (1,)),
                ((2, 3), (1, 0), (0, 4)),
                ((0, 2), (3, 1), (0, 0)),
            ):
                operands = (draw(rng, shape, dtype), draw(rng, (), dtype))
                yield Sample(operands, {"low": low, "high": high})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, value = TensorType((4,), f32), TensorType((), f32)
        yield ErrorSample((operand, value), {"low": (-1,), "high": (0,)}, "cannot be negative")
        yield ErrorSample((operand, value), {"low": (1, 1), "high": (0,)}, "one entry per dimension")
        yield ErrorSample((operand, operand), {"low": (1,), "high": (0,)}, "the value must be f32[]")
        yield ErrorSample((operand, value.with_dtype(i32)), {"low": (1,), "high": (0,)}, "the value must be f32[]")


class Concatenate(MovingOp, name="concatenate"):
    """The operands one after the other along `axis`."""

    batch = staticmethod(along)

    operands: VariadicOperand
    axis: int

    @staticmethod
    def reference(operands: list[np.ndarray], axis: int) -> np.ndarray:
        return np.concatenate(operands, axis)

    @staticmethod
    def vjp(g: Tensor, operands: list[Tensor], result: Tensor, axis: int) -> tuple[list[Tensor]]:
        parts, position = [], 0
        for operand in operands:
            starts = tuple(position if dim == axis else 0 for dim in range(g.ndim))
            limits = tuple(start + size for start, size in zip(starts, operand.shape, strict=True))
            parts.append(Slice(g, starts=starts, limits=limits, strides=(1,) * g.ndim))
            position += operand.shape[axis]
        return (parts,)

    @staticmethod
    def infer(operands: list[TensorType], axis: int) -> TensorType:
        if not operands:
            raise ShapeError("needs at least one operand")
        first = operands[0]
        check_axis(axis, first)
        for other in operands[1:]:
            if other.dtype != first.dtype:
                raise DTypeError(f"operands must have one dtype, got {first} and {other}")
            if other.ndim != first.ndim or without_axis(other.shape, axis) != without_axis(first.shape, axis):
                raise ShapeError(f"{first} and {other} must have the same shape but for axis {axis}")
        total = sum(operand.shape[axis] for operand in operands)
        return first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :]))

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        cases = [([(3,)], 0), ([(2, 3), (1, 3), (0, 3)], 0), ([(2, 3), (2, 17)], 1), ([(2, 1, 2), (2, 4, 2)], 1)]
        for dtype in MOVED:
            for shapes, axis in cases:
                yield Sample(([draw(rng, shape, dtype) for shape in shapes],), {"axis": axis})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        first, other = TensorType((2, 3), f32), TensorType((2, 4), f32)
        yield ErrorSample(([],), {"axis": 0}, "at least one operand")
        yield ErrorSample(([first, other],), {"axis": 0}, "same shape but for axis 0")
        yield ErrorSample(([first, first.with_dtype(i32)],), {"axis": 0}, "one dtype")
        yield ErrorSample(([first, first],), {"axis": 2}, "axes 0..1")


class Reverse(MovingOp, name="reverse"):
    """Elements in reverse order along `axes`."""

    batch = staticmethod(along)

    operand: Operand
    axes: Ints

    @staticmethod
    def reference(operand: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        return np.flip(operand, axes)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, axes: tuple[int, ...]) -> Tensor:
        return Reverse(g, axes=axes)

    @staticmethod
    def infer(operand: TensorType, axes: tuple[int, ...]) -> TensorType:
        check_axes(axes, operand)
        return operand

    @staticmethod
    def samples() -> Iterator[Sample]:
        cases = [
            ((), ()),
            ((1,), (0,)),
            ((0,), (0,)),
            ((19,), (0,)),
            ((3, 5), (1,)),
            ((3, 5), (0, 1)),
            ((2, 3, 4), (0,)),
        ]
        return _samples([(shape, {"axes": axes}) for shape, axes in cases])

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((4,), f32),), {"axes": (1,)}, "axes 0..0")
        yield ErrorSample((TensorType((4, 2), f32),), {"axes": (1, 1)}, "different from each other")
