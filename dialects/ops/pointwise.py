"""Ops that act on each element alone, with NumPy's broadcasting between operands.

An op is a class of four lines: its name, the dtypes it takes, its NumPy meaning, and later its gradient. Its scalar
body is the row of the same name in `passes/loops/lower_to_linalg/pointwise.py`. Here are the base classes and the ops
whose operands differ in dtype; the others are in pointwise_unary.py and pointwise_binary.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from blu.dialects.batching import elementwise
from blu.dialects.core import scalar_reference
from blu.dialects.core.dtypes import (
    DTYPES,
    FLOATS,
    INTEGERS,
    MOVED,
    NUMBERS,
    DType,
    TensorType,
    bool_,
    f16,
    f32,
    f64,
    gradient_dtype,
    i32,
    u8,
)
from blu.dialects.core.op import ErrorSample, Op, Operand, OptionalOperand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.moving import MovingOp
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError

BITS = (bool_, *INTEGERS)
STEP_FUNCTION = {"vjp": "a step function, whose gradient is zero wherever it exists"}


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands under NumPy's rule, however large. Raises ShapeError naming all of them."""
    ndim = max(map(len, shapes), default=0)
    by_dimension = list(zip(*((1,) * (ndim - len(shape)) + shape for shape in shapes), strict=True))
    common = tuple(next((size for size in sizes if size != 1), 1) for sizes in by_dimension)
    if any(size not in (1, wanted) for sizes, wanted in zip(by_dimension, common, strict=True) for size in sizes):
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise ShapeError(
            f"shapes {listed} do not broadcast",
            advice="Sizes must be equal or 1, compared from the last dimension backwards.",
        )
    return common


class Pointwise(Op):
    """Base of the elementwise ops. `dtypes` lists what the operands may be; `domain` bounds the samples' values."""

    batch = staticmethod(elementwise)

    dtypes: ClassVar[tuple[DType, ...]] = NUMBERS
    domain: ClassVar[tuple[float, float]] = (-4.0, 4.0)
    keeps_weak = True
    result_dtype: ClassVar[DType | None] = None
    reference: ClassVar[Callable[..., np.ndarray]]

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        dtypes: tuple[DType, ...] | None = None,
        domain: tuple[float, float] | None = None,
        gives: DType | None = None,
        **keywords: Any,
    ) -> None:
        cls.dtypes = dtypes or cls.dtypes
        cls.domain = domain or cls.domain
        cls.result_dtype = gives or cls.result_dtype
        super().__init_subclass__(name=name, **keywords)

    @classmethod
    def infer(cls, *operands: TensorType) -> TensorType:
        first = operands[0].dtype
        if any(operand.dtype != first for operand in operands):
            raise DTypeError(f"operands must have one dtype, got {', '.join(map(str, operands))}")
        if first not in cls.dtypes:
            raise DTypeError(f"does not take {first}, only {', '.join(map(str, cls.dtypes))}")
        shape = broadcast_shapes(*(operand.shape for operand in operands))
        return TensorType(shape, cls.result_dtype or first)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        arity = len(cls.operand_fields())
        for dtype in cls.dtypes:
            for shapes in _SAMPLE_SHAPES[arity]:
                yield Sample(tuple(draw(rng, shape, dtype, *cls.domain) for shape in shapes))
            yield Sample(tuple(_along(cls.special_values(dtype, place), place, arity) for place in range(arity)))

    @classmethod
    def special_values(cls, dtype: DType, place: int) -> np.ndarray:
        """The values at which operand number `place` is most likely to go wrong."""
        return special_values(dtype)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        arity = len(cls.operand_fields())
        good = TensorType((2, 3), cls.dtypes[0])
        bad = next((dtype for dtype in DTYPES if dtype not in cls.dtypes), None)
        if bad is not None:
            yield ErrorSample((TensorType((2, 3), bad),) * arity, {}, "does not take")
        if arity > 1:
            other = next((dtype for dtype in cls.dtypes if dtype != good.dtype), FLOATS[0])
            yield ErrorSample((good.with_shape((4,)),) + (good,) * (arity - 1), {}, "do not broadcast")
            yield ErrorSample((good.with_dtype(other),) + (good,) * (arity - 1), {}, "one dtype")


def special_values(dtype: DType) -> np.ndarray:
    """NaN, infinities, zeros of both signs, the ends of the range, and the smallest numbers of a dtype."""
    if dtype == bool_:
        return np.array([False, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return np.array([limits.min, limits.max, 0, 1, max(-1, limits.min), 7], dtype.numpy)
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 6e4, 1e-7, -1e-40]
    return np.array(values, np.float64).astype(dtype.numpy)


def _along(values: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """The values along one axis of `ndim`, so that operands meet each other in all combinations."""
    return values.reshape([-1 if place == axis else 1 for place in range(ndim)])


_SAMPLE_SHAPES = {
    1: [((),), ((0, 3),), ((5,),), ((2, 3, 17),)],
    2: [((), ()), ((3, 1), (1, 4)), ((2, 0), (2, 1)), ((19,), ()), ((2, 3, 8), (8,))],
}


class Unary(Pointwise):
    """Base of the ops of one operand."""

    operand: Operand


class Binary(Pointwise):
    """Base of the ops of two operands of one dtype."""

    lhs: Operand
    rhs: Operand


class Where(MovingOp, name="where"):
    """x where the condition holds, else y."""

    batch = staticmethod(elementwise)

    condition: Operand
    x: Operand
    y: Operand

    keeps_weak = True
    reference = np.where
    vjp = staticmethod(lambda g, condition, x, y, z: (None, condition.where(g, 0), condition.where(0, g)))

    @staticmethod
    def infer(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
        if condition.dtype != bool_:
            raise DTypeError(f"the condition must be bool, got {condition}")
        if x.dtype != y.dtype:
            raise DTypeError(f"both values must have one dtype, got {x} and {y}")
        return TensorType(broadcast_shapes(condition.shape, x.shape, y.shape), x.dtype)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        shapes = [((), (), ()), ((3, 1), (1, 4), (3, 4)), ((2, 0), (2, 1), ()), ((2, 3, 8), (8,), ())]
        for dtype in MOVED:
            for first, second, third in shapes:
                condition = draw(rng, first, bool_)
                yield Sample((condition, draw(rng, second, dtype), draw(rng, third, dtype)))

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        flag, number = TensorType((2,), bool_), TensorType((3,), FLOATS[2])
        yield ErrorSample((number, number, number), {}, "condition must be bool")
        yield ErrorSample((flag, number, number), {}, "do not broadcast")
        yield ErrorSample((flag, number, flag), {}, "one dtype")


class Clip(Op, name="clip"):
    """x, but `low` where it is below, then `high` where that is above; a bound may be absent. NaN if any is NaN."""

    batch = staticmethod(elementwise)

    x: Operand
    low: OptionalOperand
    high: OptionalOperand

    keeps_weak = True

    @staticmethod
    def reference(x: np.ndarray, low: np.ndarray | None, high: np.ndarray | None) -> np.ndarray:
        raised = x if low is None else np.maximum(x, low)
        return raised if high is None else np.minimum(raised, high)

    @staticmethod
    def infer(x: TensorType, low: TensorType | None, high: TensorType | None) -> TensorType:
        operands = [operand for operand in (x, low, high) if operand is not None]
        if any(operand.dtype != x.dtype for operand in operands):
            raise DTypeError(f"operands must have one dtype, got {', '.join(map(str, operands))}")
        return x.with_shape(broadcast_shapes(*(operand.shape for operand in operands)))

    @staticmethod
    def decompose(x: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
        raised = x if low is None else x.maximum(low)
        return raised if high is None else raised.minimum(high)

    @staticmethod
    def vjp(g: Tensor, x: Tensor, low: Tensor | None, high: Tensor | None, y: Tensor) -> tuple[Tensor | None, ...]:
        """All of it to x within the bounds and on them, else to the bound that was taken, as in torch."""
        inside, of_low, of_high = g, None, None
        if low is not None:
            inside, of_low = (x >= low).where(inside, 0), (x < low).where(g, 0)
        if high is not None:
            inside, of_high = (x <= high).where(inside, 0), (x > high).where(g, 0)
        if low is not None and high is not None:  # where the bounds are crossed, the upper one is taken
            of_low, of_high = (low <= high).where(of_low, 0), (low > high).where(g, of_high)
        return inside, of_low, of_high

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        shapes = [((), (), ()), ((5,), (), ()), ((3, 1), (1, 4), (3, 4)), ((2, 0), (2, 1), ()), ((2, 3, 8), (8,), ())]
        for dtype in DTYPES:
            for first, second, third in shapes:
                x, low, high = draw(rng, first, dtype, -4, 4), draw(rng, second, dtype, -3, 1), draw(rng, third, dtype)
                yield from (Sample((x, low, high)), Sample((x, low, None)), Sample((x, None, high)))
            special = special_values(dtype)
            yield Sample((special.reshape(-1, 1, 1), special.reshape(-1, 1), special))

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        x = TensorType((2, 3), FLOATS[2])
        yield ErrorSample((x, x.with_dtype(FLOATS[3]), None), {}, "one dtype")
        yield ErrorSample((x, None, x.with_shape((4,))), {}, "do not broadcast")


class Convert(MovingOp, name="convert"):
    """The elements in another dtype, rounded to nearest even; floats become integers by truncation.

    A float outside of the integer's range gives the nearest end of the range and NaN gives 0, on every target.
    Integers keep their low bits; anything but zero (NaN too) is True.
    """

    batch = staticmethod(elementwise)

    operand: Operand
    dtype: DType

    reference = scalar_reference.convert
    vjp = staticmethod(lambda g, operand, result, dtype: g.astype(gradient_dtype(operand.dtype)))

    @staticmethod
    def infer(operand: TensorType, dtype: DType) -> TensorType:
        return operand.with_dtype(dtype)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for source in MOVED:
            for target in MOVED:
                values = np.concatenate([draw(rng, (9,), source, -300, 300), special_values(source)])
                yield Sample((values,), {"dtype": target})
            yield Sample((draw(rng, (), source),), {"dtype": FLOATS[2]})
            yield Sample((draw(rng, (0, 2), source),), {"dtype": FLOATS[2]})
        for value in (1e30, -1e30, 300.7, -0.9, 2147483648.0, -2147483649.0, 9.3e18):
            for target in (*INTEGERS, bool_):
                yield Sample((np.full((3,), value, np.float32),), {"dtype": target})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        """There is no tensor that cannot be converted."""
        return iter(())


class NearestByte(Op, name="nearest_byte"):
    """The low 8 bits of the whole number that is nearest to the operand and `above`; of two, the even one.

    So of numbers from 0 to 255 it is the number. What is 2^21 or more, or NaN, gives any byte, another one on another
    target: unlike a conversion, this compares nothing.
    """

    batch = staticmethod(elementwise)

    operand: Operand
    above: int

    @staticmethod
    def reference(operand: np.ndarray, above: int) -> np.ndarray:
        return (np.rint(operand.astype(np.float64) + above).astype(np.int64) & 255).astype(np.uint8)

    @staticmethod
    def infer(operand: TensorType, above: int) -> TensorType:
        if operand.dtype != f32:
            raise DTypeError(f"does not take {operand.dtype}, only f32")
        return operand.with_dtype(u8)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        ends = np.array([0, -0.0, 0.5, 1.5, 254.5, 255.4, 255.6, -0.4, -0.6, -27, 2.0**20, -(2.0**20)], np.float32)
        for above in (0, 27, -3):
            for shape in ((), (3, 19), (0, 2)):
                yield Sample((draw(rng, shape, f32, -99, 300),), {"above": above})
            yield Sample((ends,), {"above": above})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        for source in (f64, f16, i32):
            yield ErrorSample((TensorType((2,), source),), {"above": 0}, f"does not take {source}")
