"""Ops that carry numbers along an axis and write at every position what they have come to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import along
from blu.dialects.core.axes import check_axis
from blu.dialects.core.dtypes import (
    FLOATS,
    NUMBERS,
    DType,
    TensorType,
    bool_,
    computing_dtype,
    f32,
    f64,
    i32,
    i64,
    product,
)
from blu.dialects.core.op import ErrorSample, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.creation import Constant, Iota
from blu.dialects.ops.indexing import ScatterAdd
from blu.dialects.ops.shape import Pad
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError

_SHAPES = (((1,), 0), ((33,), 0), ((3, 5), 0), ((2, 7), 1), ((2, 3, 4), 1), ((0, 2), 0), ((2, 0), 0))


class _Running(Op):
    """Base of the ops that carry one number along `axis`, in the operand's dtype (of f16 and bf16, in f32)."""

    batch = staticmethod(along)

    operand: Operand
    axis: int

    @classmethod
    def infer(cls, operand: TensorType, axis: int) -> TensorType:
        check_axis(axis, operand)
        if operand.dtype == bool_:
            raise DTypeError("does not take bool", advice="Convert it to an integer dtype first.")
        return operand

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in NUMBERS:
            for shape, axis in _SHAPES:
                yield Sample((draw(rng, shape, dtype),), {"axis": axis})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2, 3), f32),), {"axis": -1}, "axes 0..1")
        yield ErrorSample((TensorType((2, 3), bool_),), {"axis": 0}, "does not take bool")


class Cumsum(_Running, name="cumsum"):
    """Running sums along `axis`, in the operand's dtype (f16 and bf16 keep the running sum in f32)."""

    @staticmethod
    def reference(operand: np.ndarray, axis: int) -> np.ndarray:
        return np.cumsum(operand, axis=axis, dtype=operand.dtype)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, axis: int) -> Tensor:
        return g.flip(axis).cumsum(axis).flip(axis)


class Cumprod(_Running, name="cumprod"):
    """Running products along `axis`, in the operand's dtype (f16 and bf16 keep the running product in f32)."""

    @staticmethod
    def reference(operand: np.ndarray, axis: int) -> np.ndarray:
        wide = operand if operand.dtype.kind in "iu" else operand.astype(np.longdouble)
        return np.cumprod(wide, axis=axis, dtype=wide.dtype).astype(operand.dtype)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, axis: int) -> Tensor:
        """The product before each element times what those behind it carry back, which divides by nothing."""
        wide = computing_dtype(operand.dtype)
        x, after = operand.astype(wide), _carried_back(g.astype(wide), _from(operand.astype(wide), 1, axis), axis)
        before = _behind(1, _until(Cumprod(x, axis=axis), -1, axis), operand, axis)
        return (before * after).astype(operand.dtype)


class _Extreme(_Running):
    """Base of running extremes, whose gradients go to where they come from: of equals, to the last."""

    @classmethod
    def vjp(cls, g: Tensor, operand: Tensor, result: Tensor, axis: int) -> Tensor:
        if not operand.size:
            return g
        place = place_along(operand, axis)
        moved = (where_found(operand, result, axis) - place) * product(operand.shape[axis + 1 :])
        number = Iota(shape=(operand.size,), axis=0, dtype=i64) + moved.reshape(operand.size)
        wide = computing_dtype(g.dtype)
        zeros = _number(0, wide).broadcast_to((operand.size,))
        found = ScatterAdd(zeros, number, g.astype(wide).reshape(operand.size), axis=0)
        return found.reshape(operand.shape).astype(g.dtype)


def place_along(like: Tensor, axis: int) -> Tensor:
    """The position (i64) of each element along an axis."""
    return Iota(shape=like.shape, axis=axis, dtype=i64)


def where_found(operand: Tensor, result: Tensor, axis: int) -> Tensor:
    """The position (i64) along `axis` that each running extreme was found at: of equals, and of NaN, the last."""
    is_found = operand == result
    if operand.dtype.is_float:
        is_found = is_found | operand.isnan()
    return Cummax(is_found.where(place_along(operand, axis), 0), axis=axis)


class Cummax(_Extreme, name="cummax"):
    """The largest element so far along `axis`; NaN from the first NaN on."""

    @staticmethod
    def reference(operand: np.ndarray, axis: int) -> np.ndarray:
        return np.maximum.accumulate(operand, axis=axis)


class Cummin(_Extreme, name="cummin"):
    """The smallest element so far along `axis`; NaN from the first NaN on."""

    @staticmethod
    def reference(operand: np.ndarray, axis: int) -> np.ndarray:
        return np.minimum.accumulate(operand, axis=axis)


class LogCumsumExp(_Running, name="logcumsumexp"):
    """log(cumsum(exp(x))) along `axis`, without overflow."""

    @classmethod
    def infer(cls, operand: TensorType, axis: int) -> TensorType:
        check_axis(axis, operand)
        return _float(operand)

    @staticmethod
    def reference(operand: np.ndarray, axis: int) -> np.ndarray:
        return np.logaddexp.accumulate(operand.astype(np.longdouble), axis=axis).astype(operand.dtype)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, axis: int) -> Tensor:
        """Each result's share of its sum, carried back: no exponent is above 0."""
        wide = computing_dtype(operand.dtype)
        x = operand.astype(wide)
        y = LogCumsumExp(x, axis=axis)
        base = (y == float("-inf")).where(0, y)
        shares = (_until(y, -1, axis) - _from(base, 1, axis)).exp()
        return (_carried_back(g.astype(wide), shares, axis) * (x - base).exp()).astype(operand.dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in FLOATS:
            for shape, axis in _SHAPES:
                yield Sample((draw(rng, shape, dtype),), {"axis": axis})
        special = np.array([[-np.inf, -np.inf, 2, -np.inf, 900, -900], [1, np.inf, np.inf, 1, np.nan, 2]], np.float32)
        yield Sample((special,), {"axis": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorType((2, 3), f32),), {"axis": -1}, "axes 0..1")
        yield ErrorSample((TensorType((2, 3), i32),), {"axis": 0}, "takes floats")


class Recurrence(Op, name="recurrence"):
    """y = decay * (the y before) + term along `axis`, from 0, in the operands' dtype (of f16 and bf16, in f32)."""

    batch = staticmethod(along)

    decay: Operand
    term: Operand
    axis: int

    @staticmethod
    def reference(decay: np.ndarray, term: np.ndarray, axis: int) -> np.ndarray:
        wide, total = np.moveaxis(term.astype(np.longdouble), axis, 0).copy(), np.longdouble(0)
        for place, factor in enumerate(np.moveaxis(decay.astype(np.longdouble), axis, 0)):
            wide[place] = total = factor * total + wide[place]
        return np.moveaxis(wide, 0, axis).astype(term.dtype)

    @staticmethod
    def vjp(g: Tensor, decay: Tensor, term: Tensor, result: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        after = _carried_back(g, _from(decay, 1, axis), axis)
        return after * _behind(0, _until(result, -1, axis), result, axis), after

    @staticmethod
    def infer(decay: TensorType, term: TensorType, axis: int) -> TensorType:
        check_axis(axis, term)
        if decay != term:
            raise ShapeError(f"takes a decay for each term, got {decay} and {term}")
        return _float(term)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in FLOATS:
            for shape, axis in _SHAPES:
                yield Sample((draw(rng, shape, dtype, -1, 1), draw(rng, shape, dtype)), {"axis": axis})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        type_ = TensorType((2, 3), f32)
        yield ErrorSample((type_, type_), {"axis": 2}, "axes 0..1")
        yield ErrorSample((type_, TensorType((2, 3), f64)), {"axis": 0}, "a decay for each term")
        yield ErrorSample((TensorType((2, 3), i32),) * 2, {"axis": 0}, "takes floats")


def _float(type_: TensorType) -> TensorType:
    if not type_.dtype.is_float:
        raise DTypeError(f"takes floats, got {type_}", advice="Convert it to a float dtype first.")
    return type_


def _carried_back(g: Tensor, decays: Tensor, axis: int) -> Tensor:
    """What comes back to each element: its own gradient, and `decays` (of neighbours, one fewer) of the next one's."""
    return Recurrence(_behind(0, decays.flip(axis), g, axis), g.flip(axis), axis=axis).flip(axis)


def _behind(first: int, others: Tensor, like: Tensor, axis: int) -> Tensor:
    """A tensor of the shape of `like` that begins with a number along an axis."""
    if not like.size:
        return others.reshape(like.shape)
    low = tuple(int(place == axis) for place in range(like.ndim))
    return Pad(others, _number(first, others.dtype), low=low, high=(0,) * like.ndim)


def _number(number: int, dtype: DType) -> Tensor:
    return Constant(value=np.asarray(number, dtype.numpy))


def _from(x: Tensor, start: int, axis: int) -> Tensor:
    return x[(slice(None),) * axis + (slice(start, None),)]


def _until(x: Tensor, end: int, axis: int) -> Tensor:
    return x[(slice(None),) * axis + (slice(None, end),)]
