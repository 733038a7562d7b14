"""Fourier transforms, by NumPy's on the host. Complex numbers are pairs: their real and their imaginary parts.

A transform is a linear function of the numbers of such pairs, and its gradient the transposed one: the transform the
other way, with the other factor in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import TensorType, f32, f64, i32
from blu.dialects.core.op import ErrorSample, Operand, Sample
from blu.dialects.ops.creation import Iota
from blu.dialects.ops.host.routine import HostRoutine, check_dtype
from blu.dialects.tensor.arithmetic import where
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError, ShapeError

NORMS = ("backward", "ortho", "forward")
"""Which way has the factor of one over the number of elements in front: that back, that forth, or both its root."""
_OTHER: dict[str, str] = dict(zip(NORMS, NORMS[::-1], strict=True))


class _Transform(HostRoutine):
    """Base of the transforms over the last `ndim` dimensions."""

    ndim: int
    norm: str

    @classmethod
    def check(cls, operands: tuple[TensorType, ...], ndim: int, norm: str) -> None:
        """What all transforms ask of what they take."""
        first, *others = operands
        check_dtype(first)
        if any(other.dtype != first.dtype for other in others):
            raise DTypeError(f"real and imaginary parts must have one dtype, got {', '.join(map(str, operands))}")
        if any(other.shape != first.shape for other in others):
            raise ShapeError(f"real and imaginary parts must have one shape, got {', '.join(map(str, operands))}")
        if not 1 <= ndim <= len(first.shape):
            raise ShapeError(f"{first} has no {ndim} dimensions to transform")
        if 0 in first.shape[len(first.shape) - ndim :]:
            raise ShapeError(f"there is nothing to transform in {first}")
        if norm not in NORMS:
            raise ArgumentError(f"norm must be one of {', '.join(NORMS)}, got {norm!r}")

    @classmethod
    def cases(cls) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        """Shapes and attributes of samples."""
        shapes = (((1,), 1), ((6,), 1), ((2, 5), 1), ((2, 4), 2), ((2, 3, 5), 2), ((2, 1, 4, 2), 3), ((0, 3), 1))
        for number, (shape, ndim) in enumerate(shapes):
            yield shape, {"ndim": ndim, "norm": NORMS[number % 3]}

    @classmethod
    def options(cls, shape: tuple[int, ...]) -> dict[str, Any]:
        """The further attributes of a sample."""
        return {}

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(4)
        for dtype in (f32, f64):
            for shape, options in cls.cases():
                count = len(cls.operand_fields())
                parts = tuple(rng.uniform(-2, 2, shape).astype(dtype.numpy) for _ in range(count))
                yield Sample(parts, {**options, **cls.options(shape)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        count, right = len(cls.operand_fields()), {"ndim": 1, "norm": "ortho", **cls.options((2, 3))}
        given = TensorType((2, 3), f32)
        yield ErrorSample((given.with_dtype(i32),) * count, right, "f32 or f64")
        yield ErrorSample((given.with_shape((3, 0)),) * count, right, "nothing to transform")
        yield ErrorSample((given,) * count, {**right, "ndim": 3}, "has no 3 dimensions")
        yield ErrorSample((given,) * count, {**right, "norm": "both"}, "norm must be one of")
        if count > 1:
            yield ErrorSample((given, given.with_dtype(f64)), right, "one dtype")
            yield ErrorSample((given, given.with_shape((3, 2))), right, "one shape")


class Fourier(_Transform, name="fourier"):
    """The transform of complex numbers over the last `ndim` dimensions, or with `inverse` the one back."""

    num_results = 2

    real: Operand
    imag: Operand
    inverse: bool

    @staticmethod
    def infer(real: TensorType, imag: TensorType, ndim: int, norm: str, inverse: bool) -> tuple[TensorType, ...]:
        Fourier.check((real, imag), ndim, norm)
        return real, imag

    @staticmethod
    def vjp(
        g: tuple[Tensor, Tensor],
        real: Tensor,
        imag: Tensor,
        to_real: Tensor,
        to_imag: Tensor,
        ndim: int,
        norm: str,
        inverse: bool,
    ) -> tuple[Tensor, ...]:
        return Fourier(*g, ndim=ndim, norm=_OTHER[norm], inverse=not inverse)

    @classmethod
    def options(cls, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"inverse": len(shape) % 2 == 0}


class RealFourier(_Transform, name="real_fourier"):
    """The transform of real numbers, of which half says all along the last dimension: N // 2 + 1 of N."""

    num_results = 2

    operand: Operand

    @staticmethod
    def infer(operand: TensorType, ndim: int, norm: str) -> tuple[TensorType, TensorType]:
        RealFourier.check((operand,), ndim, norm)
        half = operand.with_shape((*operand.shape[:-1], operand.shape[-1] // 2 + 1))
        return half, half

    @staticmethod
    def vjp(g: tuple[Tensor, Tensor], operand: Tensor, real: Tensor, imag: Tensor, ndim: int, norm: str) -> Tensor:
        """What stands for two in the way back is told half."""
        size = operand.shape[-1]
        parts = (_weighted(part, size, 0.5) for part in g)
        return InverseRealFourier(*parts, ndim=ndim, norm=_OTHER[norm], size=size)


class InverseRealFourier(_Transform, name="inverse_real_fourier"):
    """The real numbers, `size` along the last dimension, that have such a transform."""

    real: Operand
    imag: Operand
    size: int

    @staticmethod
    def infer(real: TensorType, imag: TensorType, ndim: int, norm: str, size: int) -> TensorType:
        InverseRealFourier.check((real, imag), ndim, norm)
        if size < 1 or size // 2 + 1 != real.shape[-1]:
            raise ShapeError(f"{size} real numbers have a transform of {size // 2 + 1}, got {real}")
        return real.with_shape((*real.shape[:-1], size))

    @staticmethod
    def vjp(
        g: Tensor, real: Tensor, imag: Tensor, result: Tensor, ndim: int, norm: str, size: int
    ) -> tuple[Tensor, ...]:
        """What stands for two is told twice."""
        return tuple(_weighted(part, size, 2.0) for part in RealFourier(g, ndim=ndim, norm=_OTHER[norm]))

    @classmethod
    def options(cls, shape: tuple[int, ...]) -> dict[str, Any]:
        last = shape[-1]
        return {"size": 2 * last - 1 if last % 2 else 2 * last - 2}

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        half = TensorType((2, 3), f32)
        yield ErrorSample((half, half), {"ndim": 1, "norm": "ortho", "size": 6}, "have a transform of 4")


def _weighted(part: Tensor, size: int, weight: float) -> Tensor:
    """Times a weight, but for the numbers that stand for one: the first along the last dimension, and of an even
    `size` the last."""
    place = Iota(shape=(part.shape[-1],), axis=0, dtype=i32)
    stands_for_one = place * 2 == 0 if size % 2 else place * 2 % size == 0
    return where(stands_for_one, part, part * weight)
