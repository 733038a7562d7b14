"""The op that normalises by mean and variance along any dimensions, and gives these as well."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import along
from blu.dialects.core.axes import check_axes
from blu.dialects.core.dtypes import FLOATS, TensorType, bf16, computing_dtype, f16, f32, f64, i32, product
from blu.dialects.core.op import ErrorSample, Ints, Op, Operand, OptionalOperand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.convolution.products import cut
from blu.dialects.ops.identity import Barrier
from blu.dialects.ops.normalization import check_float
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError

_SHAPES = (((1,), (0,)), ((37,), (0,)), ((5, 3), (0,)), ((2, 3, 4), (0, 2)), ((2, 2, 3, 5), (1, 2)), ((0, 4), (0,)))
Parts = tuple[Tensor | None, ...]


def _beside(operand: TensorType, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what is the same along the axes."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(operand.shape))


def _moments(operand: Tensor, axes: tuple[int, ...], count: float) -> tuple[Tensor, Tensor]:
    """Mean and variance along the axes.

    Those of halves come of two sums in one pass, of differences from the first element: so little cancels that the
    variance is as near as by another pass. That is a pass of its own, since who makes the operand would write wide
    squares for it.
    """
    if operand.dtype in (bf16, f16) and operand.size:
        limits = tuple(1 if axis in axes else size for axis, size in enumerate(operand.shape))
        first = cut(operand, (0,) * operand.ndim, limits).astype(f32)
        apart = Barrier(operand).astype(f32) - first
        mean, squares = (item.sum(axis=axes, keepdims=True) / count for item in (apart, apart.square()))
        return mean + first, (squares - mean.square()).maximum(0.0)
    wide = operand.astype(computing_dtype(operand.dtype))
    mean = wide.sum(axis=axes, keepdims=True) / count
    return mean, (wide - mean).square().sum(axis=axes, keepdims=True) / count


class Standardize(Op, name="standardize"):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias, where mean and variance are those over `axes`.

    Gives that, the mean and the variance, with sizes of one along the axes and in f32 at least. weight and bias, which
    may be absent, have as many dimensions as x and are the same along the axes.
    """

    batch = staticmethod(along)

    num_results = 3
    operand: Operand
    weight: OptionalOperand
    bias: OptionalOperand
    axes: Ints
    epsilon: float

    @staticmethod
    def reference(
        operand: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, axes: tuple[int, ...], epsilon: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        count = max(product(tuple(operand.shape[axis] for axis in axes)), 1)
        mean = operand.sum(axis=axes, keepdims=True) / count
        variance = np.square(operand - mean).sum(axis=axes, keepdims=True) / count
        result = (operand - mean) / np.sqrt(variance + epsilon)
        result = result if weight is None else result * weight
        return (result if bias is None else result + bias), mean, variance

    @staticmethod
    def infer(
        operand: TensorType, weight: TensorType | None, bias: TensorType | None, axes: tuple[int, ...], epsilon: float
    ) -> tuple[TensorType, TensorType, TensorType]:
        check_float(operand)
        check_axes(axes, operand)
        beside = _beside(operand, axes)
        for name, parameter in (("weight", weight), ("bias", bias)):
            if parameter is None:
                continue
            pairs = zip(parameter.shape, beside, strict=False)
            if parameter.ndim != operand.ndim or any(size not in (1, own) for size, own in pairs):
                raise ShapeError(f"{name} must fit {list(beside)}, got {parameter}")
            if parameter.dtype != computing_dtype(operand.dtype):
                raise DTypeError(f"{name} must be {computing_dtype(operand.dtype)} for {operand}, got {parameter}")
        moment = TensorType(beside, computing_dtype(operand.dtype))
        return operand, moment, moment

    @staticmethod
    def decompose(
        operand: Tensor, weight: Tensor | None, bias: Tensor | None, axes: tuple[int, ...], epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        count = float(max(product(tuple(operand.shape[axis] for axis in axes)), 1))
        mean, variance = _moments(operand, axes, count)
        # Another pass over the operand, rather than over a wide copy of it that the first one writes.
        result = (Barrier(operand).astype(mean.dtype) - mean) * (variance + epsilon).rsqrt()
        result = result if weight is None else result * weight
        return (result if bias is None else result + bias).astype(operand.dtype), mean, variance

    @staticmethod
    def saving(*operands: Tensor | None, **attributes: object) -> None:
        """Its gradient reads what it has read, and the moments."""

    @staticmethod
    def vjp(
        g: Parts,
        operand: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        result: Tensor,
        mean: Tensor,
        variance: Tensor,
        axes: tuple[int, ...],
        epsilon: float,
    ) -> Parts:
        """With y the standardized operand: (h - mean(h) - y * mean(h * y)) / deviation for h = g * weight.

        mean(h) and mean(h * y) come of the sums that are the gradients of bias and weight.
        """
        of_result, of_mean, of_variance = g
        share = 1.0 / max(product(tuple(operand.shape[axis] for axis in axes)), 1)
        centered = operand.astype(mean.dtype) - mean
        terms, of_weight, of_bias = [], None, None
        if of_result is not None:
            factor = (variance + epsilon).rsqrt()
            # As in `decompose`: whoever makes g keeps it as it is, and each pass reads it again.
            kept = Barrier(of_result)
            wide, standard = kept.astype(mean.dtype), centered * factor
            of_bias, of_weight = (item.sum(axis=axes, keepdims=True) for item in (wide, wide * standard))
            wide = Barrier(kept).astype(mean.dtype)
            centered = Barrier(operand).astype(mean.dtype) - mean
            standard = centered * factor
            inner = wide - of_bias * share - standard * (of_weight * share)
            terms.append(inner * (factor if weight is None else factor * weight))
        if of_mean is not None:
            terms.append((of_mean * share).broadcast_to(operand.shape))
        if of_variance is not None:
            terms.append(centered * (of_variance * (2.0 * share)))
        total = terms[0] if len(terms) == 1 else sum(terms[1:], terms[0])
        return (
            total.astype(operand.dtype),
            of_weight if weight is not None else None,
            of_bias if bias is not None else None,
        )

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in FLOATS:
            for shape, axes in _SHAPES:
                beside = _beside(TensorType(shape, dtype), axes)
                operand = draw(rng, shape, dtype)
                weight, bias = (draw(rng, beside, computing_dtype(dtype)) for _ in range(2))
                for present in ((weight, bias), (weight, None), (None, None)):
                    yield Sample((operand, *present), {"axes": axes, "epsilon": 1e-5})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, weight = TensorType((2, 3), f32), TensorType((1, 3), f32)
        attributes = {"axes": (0,), "epsilon": 1e-5}
        yield ErrorSample((operand, weight.with_shape((2, 3)), None), attributes, "weight must fit [1, 3]")
        yield ErrorSample((operand, weight, weight.with_dtype(f64)), attributes, "bias must be f32")
        yield ErrorSample((operand.with_dtype(i32), None, None), attributes, "does not take i32")
        yield ErrorSample((operand, None, None), {"axes": (2,), "epsilon": 1e-5}, "axes 0..1")
