"""Ops that fold dimensions away."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from blu.dialects.batching import along
from blu.dialects.core.axes import check_axes, check_axis
from blu.dialects.core.dtypes import DTYPES, NUMBERS, DType, TensorType, bool_, f32, i64
from blu.dialects.core.op import ErrorSample, Ints, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """`shape` with the dimensions `axes` removed, or of size 1 where `keepdims`."""
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _refuse_empty(operand: TensorType, axes: tuple[int, ...], result: TensorType) -> None:
    """No element of the result may be a choice among nothing, which has no value."""
    if result.size and any(operand.shape[axis] == 0 for axis in axes):
        raise ShapeError(
            f"{operand} has no elements along axes {list(axes)} to choose from",
            advice="Give at least one element, or treat the empty case in Python: shapes are known there.",
        )


class Reduction(Op):
    """Base of the reductions. `numpy` is the NumPy function of the same meaning."""

    batch = staticmethod(along)

    operand: Operand
    axes: Ints
    keepdims: bool

    dtypes: ClassVar[tuple[DType, ...]] = NUMBERS
    numpy: ClassVar[Callable[..., np.ndarray]]
    needs_elements: ClassVar[bool] = False

    @classmethod
    def reference(cls, operand: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        if cls.needs_elements and not operand.size:  # NumPy refuses even where nothing is to be chosen
            return np.zeros(reduced_shape(operand.shape, axes, keepdims), operand.dtype)
        return cls.numpy(operand, axis=axes, keepdims=keepdims)

    @classmethod
    def infer(cls, operand: TensorType, axes: tuple[int, ...], keepdims: bool) -> TensorType:
        if operand.dtype not in cls.dtypes:
            raise DTypeError(f"does not take {operand.dtype}, only {', '.join(map(str, cls.dtypes))}")
        check_axes(axes, operand)
        result = operand.with_shape(reduced_shape(operand.shape, axes, keepdims))
        if cls.needs_elements:
            _refuse_empty(operand, axes, result)
        return result

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in cls.dtypes:
            for shape, axes, keepdims in cls._sample_cases():
                yield Sample((draw(rng, shape, dtype, -2, 2),), {"axes": axes, "keepdims": keepdims})
        yield from cls._special_samples()

    @classmethod
    def _sample_cases(cls) -> list[tuple[tuple[int, ...], tuple[int, ...], bool]]:
        cases = [
            ((), (), False),
            ((1,), (0,), False),
            ((37,), (0,), False),
            ((3, 5), (), True),
            ((3, 5), (0,), True),
            ((3, 19), (1,), False),
            ((2, 3, 4), (0, 2), False),
            ((2, 3, 4), (0, 1, 2), True),
            ((0, 4), (1,), False),
        ]
        without = [((0, 0), (0,), False), ((0, 3, 0), (0,), True)]
        return [*cases, *(without if cls.needs_elements else [((0, 4), (0,), False), ((0,), (0,), True)])]

    @classmethod
    def _special_samples(cls) -> Iterator[Sample]:
        if f32 not in cls.dtypes:
            return
        rows = [[1, np.nan, 2], [np.inf, 1, -1], [-np.inf, -1, np.inf], [-0.0, 0.0, -0.0], [-np.inf, -np.inf, -np.inf]]
        yield Sample((np.array(rows, np.float32),), {"axes": (1,), "keepdims": False})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        operand = TensorType((2, 0), cls.dtypes[-1])
        yield ErrorSample((operand,), {"axes": (2,), "keepdims": False}, "axes 0..1")
        yield ErrorSample((operand,), {"axes": (-1,), "keepdims": False}, "axes 0..1")
        yield ErrorSample((operand,), {"axes": (1, 0), "keepdims": False}, "sorted")
        yield ErrorSample((operand.with_shape(()),), {"axes": (0,), "keepdims": False}, "no dimensions")
        for dtype in set(DTYPES) - set(cls.dtypes):
            yield ErrorSample((operand.with_dtype(dtype),), {"axes": (0,), "keepdims": False}, "does not take")
        if cls.needs_elements:
            yield ErrorSample((operand,), {"axes": (1,), "keepdims": False}, "no elements along axes [1]")


def _spread(tensor: Tensor, operand: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A reduction's result (or its gradient) as it stands beside the operand: reduced dimensions have size 1."""
    return tensor.reshape([1 if dim in axes else size for dim, size in enumerate(operand.shape)])


class Sum(Reduction, name="sum"):
    """The sum, in the operand's dtype (integers wrap; f16 and bf16 are accumulated in f32 and rounded once)."""

    @staticmethod
    def numpy(operand: np.ndarray, **keywords: typing.Any) -> np.ndarray:
        return np.sum(operand, dtype=operand.dtype, **keywords)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        return _spread(g, operand, axes).broadcast_to(operand.shape)


class Prod(Reduction, name="prod"):
    """The product, in the operand's dtype (integers wrap; f16 and bf16 are accumulated in f32 and rounded once)."""

    @staticmethod
    def numpy(operand: np.ndarray, **keywords: typing.Any) -> np.ndarray:
        return np.prod(operand, dtype=operand.dtype, **keywords)

    @staticmethod
    def vjp(g: Tensor, operand: Tensor, result: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        """The product of the other elements; where one element is 0, only its own gradient is not."""
        is_zero = operand == 0
        zeros = is_zero.astype("i32").sum(axis=axes, keepdims=True)
        others = is_zero.where(1, operand)
        product = others.prod(axis=axes, keepdims=True)
        of_zero = (zeros == 1).where(product, 0)
        of_rest = (zeros == 0).where(product, 0) / others
        return _spread(g, operand, axes) * is_zero.where(of_zero, of_rest)


def _extreme_gradient(g: Tensor, operand: Tensor, result: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The gradient goes to the elements that are the extreme, in equal shares."""
    is_extreme = operand == _spread(result, operand, axes)
    count = is_extreme.astype(operand.dtype).sum(axis=axes, keepdims=True)
    return is_extreme.where(_spread(g, operand, axes) / count, 0)


class Max(Reduction, name="max"):
    """The largest element; NaN if any is NaN."""

    dtypes = DTYPES
    numpy = np.max
    needs_elements = True
    vjp = staticmethod(_extreme_gradient)


class Min(Reduction, name="min"):
    """The smallest element; NaN if any is NaN."""

    dtypes = DTYPES
    numpy = np.min
    needs_elements = True
    vjp = staticmethod(_extreme_gradient)


class Any(Reduction, name="any"):
    """Whether at least one element is true."""

    dtypes = (bool_,)
    numpy = np.any


class All(Reduction, name="all"):
    """Whether every element is true."""

    dtypes = (bool_,)
    numpy = np.all


class ArgReduction(Op):
    """Base of the ops that find a position along one axis."""

    batch = staticmethod(along)

    operand: Operand
    axis: int
    keepdims: bool

    numpy: ClassVar[Callable[..., np.ndarray]]

    @classmethod
    def reference(cls, operand: np.ndarray, axis: int, keepdims: bool) -> np.ndarray:
        if not operand.size:
            return np.zeros(reduced_shape(operand.shape, (axis,), keepdims), np.int64)
        return cls.numpy(operand, axis=axis, keepdims=keepdims)

    @classmethod
    def infer(cls, operand: TensorType, axis: int, keepdims: bool) -> TensorType:
        check_axis(axis, operand)
        if operand.dtype not in NUMBERS:
            raise DTypeError(f"does not take {operand.dtype}, only {', '.join(map(str, NUMBERS))}")
        result = TensorType(reduced_shape(operand.shape, (axis,), keepdims), i64)
        _refuse_empty(operand, (axis,), result)
        return result

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in NUMBERS:
            for shape, axis, keepdims in (
                ((1,), 0, False),
                ((37,), 0, True),
                ((3, 19), 1, False),
                ((4, 3, 2), 0, False),
                ((2, 5, 3), 1, True),
                ((0, 4), 1, False),
            ):
                yield Sample((draw(rng, shape, dtype, -3, 3),), {"axis": axis, "keepdims": keepdims})
        rows = [[1, np.nan, np.nan], [np.inf, 1, np.inf], [-np.inf, -np.inf, 1], [-0.0, 0.0, -0.0], [np.nan, 5, -5]]
        yield Sample((np.array(rows, np.float32),), {"axis": 1, "keepdims": False})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        operand = TensorType((2, 0), f32)
        yield ErrorSample((operand,), {"axis": 2, "keepdims": False}, "axes 0..1")
        yield ErrorSample((operand,), {"axis": 1, "keepdims": False}, "no elements along axes [1]")
        yield ErrorSample((operand.with_dtype(bool_),), {"axis": 0, "keepdims": False}, "does not take bool")
        yield ErrorSample((operand.with_shape(()),), {"axis": 0, "keepdims": False}, "no dimensions")


class Argmax(ArgReduction, name="argmax"):
    """The position of the largest element, the first of equals; a NaN counts as larger than any number."""

    numpy = np.argmax


class Argmin(ArgReduction, name="argmin"):
    """The position of the smallest element, the first of equals; a NaN counts as smaller than any number."""

    numpy = np.argmin
