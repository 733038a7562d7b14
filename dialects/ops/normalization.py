"""Composite ops that normalise along a dimension. f16 and bf16 are computed in f32 and rounded once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import along, at_the_end
from blu.dialects.core.axes import check_axis
from blu.dialects.core.dtypes import FLOATS, DType, TensorType, computing_dtype, f32, f64, i32
from blu.dialects.core.op import ErrorSample, Op, Operand, OptionalOperand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.identity import Barrier
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError


def check_float(operand: TensorType) -> None:
    """Raise DTypeError unless the operand is of a float dtype."""
    if not operand.dtype.is_float:
        raise DTypeError(f"does not take {operand.dtype}, only {', '.join(map(str, FLOATS))}")


def _softmax_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        for shape, axis in (((1,), 0), ((37,), 0), ((3, 19), 1), ((5, 4), 0), ((2, 3, 4), 1), ((0, 3), 1), ((3, 0), 1)):
            yield Sample((draw(rng, shape, dtype),), {"axis": axis})
    infinity = np.inf
    rows = [
        [1000, -1000, 999],
        [-infinity, 0, 1],
        [-infinity] * 3,
        [np.nan, 0, 1],
        [infinity, 0, 1],
        [1e-30, -1e-30, 0],
    ]
    yield Sample((np.array(rows, np.float32),), {"axis": 1})


def _softmax_error_samples() -> Iterator[ErrorSample]:
    yield ErrorSample((TensorType((2, 3), f32),), {"axis": 2}, "axes 0..1")
    yield ErrorSample((TensorType((), f32),), {"axis": 0}, "no dimensions")
    yield ErrorSample((TensorType((2, 3), i32),), {"axis": 0}, "does not take i32")


def _infer_softmax(operand: TensorType, axis: int) -> TensorType:
    check_float(operand)
    check_axis(axis, operand)
    return operand


def _shifted(operand: np.ndarray, axis: int) -> np.ndarray:
    """The operand less its largest element along the axis, which keeps exp in range."""
    return operand - operand.max(axis=axis, keepdims=True, initial=-np.inf)


class Softmax(Op, name="softmax"):
    """exp(x) / sum(exp(x)) along `axis`. A row that is all -inf, or holds NaN or +inf, gives NaN, as in torch."""

    batch = staticmethod(along)

    operand: Operand
    axis: int

    infer = staticmethod(_infer_softmax)
    samples = staticmethod(_softmax_samples)
    error_samples = staticmethod(_softmax_error_samples)

    @staticmethod
    def reference(operand: np.ndarray, axis: int) -> np.ndarray:
        weights = np.exp(_shifted(operand, axis))
        return weights / weights.sum(axis=axis, keepdims=True)

    @staticmethod
    def decompose(operand: Tensor, axis: int) -> Tensor:
        if not operand.size:
            return operand
        wide = operand.astype(computing_dtype(operand.dtype))
        weights = (wide - wide.max(axis=axis, keepdims=True)).exp()
        return (weights * (1 / weights.sum(axis=axis, keepdims=True))).astype(operand.dtype)


class LogSoftmax(Op, name="log_softmax"):
    """log(softmax(x)) along `axis`, without forming softmax; NaN where softmax is NaN."""

    batch = staticmethod(along)

    operand: Operand
    axis: int

    infer = staticmethod(_infer_softmax)
    samples = staticmethod(_softmax_samples)
    error_samples = staticmethod(_softmax_error_samples)

    @staticmethod
    def reference(operand: np.ndarray, axis: int) -> np.ndarray:
        shifted = _shifted(operand, axis)
        return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))

    @staticmethod
    def decompose(operand: Tensor, axis: int) -> Tensor:
        if not operand.size:
            return operand
        wide = operand.astype(computing_dtype(operand.dtype))
        shifted = wide - wide.max(axis=axis, keepdims=True)
        return (shifted - shifted.exp().sum(axis=axis, keepdims=True).log()).astype(operand.dtype)


def _check_norm(operand: TensorType, parameters: dict[str, TensorType | None]) -> None:
    check_float(operand)
    check_axis(operand.ndim - 1, operand)
    for name, parameter in parameters.items():
        if parameter is not None and parameter.shape != operand.shape[-1:]:
            raise ShapeError(f"{name} must have shape {list(operand.shape[-1:])} to fit {operand}, got {parameter}")
        if parameter is not None and parameter.dtype != operand.dtype:
            raise DTypeError(f"{name} must be {operand.dtype} as the operand is, got {parameter}")


def _widened(tensor: Tensor | None, dtype: DType) -> Tensor | None:
    return None if tensor is None else tensor.astype(dtype)


def _standardized(wide: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Less its mean and divided by its deviation along the last dimension; and one over the deviation."""
    share = 1.0 / wide.shape[-1]
    centered = wide - wide.sum(axis=-1, keepdims=True) * share
    factor = (centered.square().sum(axis=-1, keepdims=True) * share + epsilon).rsqrt()
    return centered * factor, factor


_NORM_SHAPES = [(1,), (37,), (3, 19), (2, 3, 8), (0, 4)]


class LayerNorm(Op, name="layer_norm"):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension; weight and bias may be absent."""

    batch = staticmethod(at_the_end)

    operand: Operand
    weight: OptionalOperand
    bias: OptionalOperand
    epsilon: float

    @staticmethod
    def reference(
        operand: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, epsilon: float
    ) -> np.ndarray:
        centered = operand - operand.mean(axis=-1, keepdims=True)
        result = centered / np.sqrt(np.square(centered).mean(axis=-1, keepdims=True) + epsilon)
        result = result if weight is None else result * weight
        return result if bias is None else result + bias

    @staticmethod
    def infer(operand: TensorType, weight: TensorType | None, bias: TensorType | None, epsilon: float) -> TensorType:
        _check_norm(operand, {"weight": weight, "bias": bias})
        return operand

    @staticmethod
    def decompose(operand: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
        if not operand.size:
            return operand
        dtype = computing_dtype(operand.dtype)
        weight, bias = _widened(weight, dtype), _widened(bias, dtype)
        result, _ = _standardized(operand.astype(dtype), epsilon)
        result = result if weight is None else result * weight
        return (result if bias is None else result + bias).astype(operand.dtype)

    @staticmethod
    def vjp(
        g: Tensor, operand: Tensor, weight: Tensor | None, bias: Tensor | None, result: Tensor, epsilon: float
    ) -> tuple[Tensor | None, ...]:
        """With y the standardized operand: (h - mean(h) - y * mean(h * y)) / deviation for h = g * weight."""
        if not operand.size:
            return tuple(None if item is None else item * 0.0 for item in (operand, weight, bias))
        dtype = computing_dtype(operand.dtype)
        share, wide, weight = 1.0 / operand.shape[-1], g.astype(dtype), _widened(weight, dtype)
        standard, factor = _standardized(operand.astype(dtype), epsilon)
        leading = tuple(range(operand.ndim - 1))
        of_weight = None if weight is None else (wide * standard).sum(axis=leading).astype(operand.dtype)
        of_bias = None if bias is None else wide.sum(axis=leading).astype(operand.dtype)
        inner = wide if weight is None else wide * weight
        mean, slope = (item.sum(axis=-1, keepdims=True) * share for item in (inner, inner * standard))
        return ((inner - mean - standard * slope) * factor).astype(operand.dtype), of_weight, of_bias

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in FLOATS:
            for shape in _NORM_SHAPES:
                operand, weight, bias = (draw(rng, place, dtype) for place in (shape, shape[-1:], shape[-1:]))
                for present in ((weight, bias), (weight, None), (None, None)):
                    yield Sample((operand, *present), {"epsilon": 1e-5})
        yield Sample((np.full((2, 8), 1e4, np.float32) + np.arange(8, dtype=np.float32), None, None), {"epsilon": 1e-5})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, weight = TensorType((2, 3), f32), TensorType((3,), f32)
        yield ErrorSample((operand, weight.with_shape((2,)), None), {"epsilon": 1e-5}, "weight must have shape [3]")
        yield ErrorSample((operand, weight, weight.with_dtype(f64)), {"epsilon": 1e-5}, "bias must be f32")
        yield ErrorSample((operand.with_dtype(i32), None, None), {"epsilon": 1e-5}, "does not take i32")
        yield ErrorSample((operand.with_shape(()), None, None), {"epsilon": 1e-5}, "no dimensions")


class RmsNorm(Op, name="rms_norm"):
    """x / sqrt(mean(x * x) + epsilon) * weight over the last dimension; the weight may be absent."""

    batch = staticmethod(at_the_end)

    operand: Operand
    weight: OptionalOperand
    epsilon: float

    @staticmethod
    def reference(operand: np.ndarray, weight: np.ndarray | None, epsilon: float) -> np.ndarray:
        result = operand / np.sqrt(np.square(operand).mean(axis=-1, keepdims=True) + epsilon)
        return result if weight is None else result * weight

    @staticmethod
    def infer(operand: TensorType, weight: TensorType | None, epsilon: float) -> TensorType:
        _check_norm(operand, {"weight": weight})
        return operand

    @staticmethod
    def decompose(operand: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
        if not operand.size:
            return operand
        dtype = computing_dtype(operand.dtype)
        wide, weight = operand.astype(dtype), _widened(weight, dtype)
        mean_square = wide.square().sum(axis=-1, keepdims=True) * (1.0 / operand.shape[-1])
        result = wide * (mean_square + epsilon).rsqrt()
        return (result if weight is None else result * weight).astype(operand.dtype)

    @staticmethod
    def vjp(
        g: Tensor, operand: Tensor, weight: Tensor | None, result: Tensor, epsilon: float
    ) -> tuple[Tensor | None, ...]:
        """With y the operand divided by its deviation: (h - y * mean(h * y)) / deviation for h = g * weight.

        g is kept as it is, so that one kernel of rows reads it, rather than what a product in front makes of it.
        """
        if not operand.size:
            return tuple(None if item is None else item * 0.0 for item in (operand, weight))
        dtype = computing_dtype(operand.dtype)
        share, wide, weight = 1.0 / operand.shape[-1], Barrier(g).astype(dtype), _widened(weight, dtype)
        x = operand.astype(dtype)
        factor = (x.square().sum(axis=-1, keepdims=True) * share + epsilon).rsqrt()
        standard = x * factor
        leading = tuple(range(operand.ndim - 1))
        of_weight = None if weight is None else (wide * standard).sum(axis=leading).astype(operand.dtype)
        inner = wide if weight is None else wide * weight
        slope = (inner * standard).sum(axis=-1, keepdims=True) * share
        return ((inner - standard * slope) * factor).astype(operand.dtype), of_weight

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in FLOATS:
            for shape in _NORM_SHAPES:
                operand, weight = draw(rng, shape, dtype), draw(rng, shape[-1:], dtype)
                for present in (weight, None):
                    yield Sample((operand, present), {"epsilon": 1e-6})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, weight = TensorType((2, 3), f32), TensorType((3,), f32)
        yield ErrorSample((operand, weight.with_shape((2, 3))), {"epsilon": 1e-5}, "weight must have shape [3]")
        yield ErrorSample((operand, weight.with_dtype(f64)), {"epsilon": 1e-5}, "weight must be f32")
        yield ErrorSample((operand.with_dtype(i32), None), {"epsilon": 1e-5}, "does not take i32")
