"""Convolution over any number of spatial dimensions, channels last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blu.dialects.batching import folded
from blu.dialects.core.dtypes import FLOATS, TensorType, f32, f64, i32, product
from blu.dialects.core.op import ErrorSample, Ints, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.contraction import PRECISIONS, rounded
from blu.dialects.ops.convolution.products import Products
from blu.dialects.ops.convolution.strided import Blocks
from blu.dialects.ops.convolution.windows import Dimension, grid_of
from blu.dialects.ops.shape import Reverse
from blu.dialects.tensor.tensor import Tensor
from blu.errors import BluError, DTypeError, ShapeError


class Convolution(Op, name="convolution"):
    """Sums over windows: operand [N, *spatial, C] with weight [*window, C / groups, F] gives [N, *counts, F].

    Per spatial dimension: windows begin `strides` apart, their places are `dilation` apart, `low` and `high` zeros
    stand around the operand (negative: so many elements are left out), `spread - 1` zeros between its elements (that
    is a transposed convolution). Group i of the features sees group i of the channels. Nothing is reversed. Sums of
    halves are formed in f32.
    """

    batch = staticmethod(folded("operand"))

    operand: Operand
    weight: Operand
    strides: Ints
    low: Ints
    high: Ints
    dilation: Ints
    spread: Ints
    groups: int
    precision: str

    @staticmethod
    def reference(operand: np.ndarray, weight: np.ndarray, groups: int, precision: str, **along: Any) -> np.ndarray:
        dims = dimensions_of(operand.shape, weight.shape, **along)
        seen, (channels, features) = _spread_out(operand, dims), weight.shape[-2:]
        shape = (operand.shape[0], *(dim.count for dim in dims), groups, features // groups)
        result = np.zeros(shape, operand.dtype)
        for place in np.ndindex(*weight.shape[:-2]):
            ranges = [
                slice(at * dim.dilation, at * dim.dilation + dim.stride * (dim.count - 1) + 1, dim.stride)
                for at, dim in zip(place, dims, strict=True)
            ]
            window = seen[(slice(None), *ranges)].reshape((*shape[:-1], channels))
            factors = weight[place].reshape((channels, groups, features // groups))
            result += np.einsum("...gc,cgf->...gf", window, factors)
        return result.reshape((*shape[:-2], features))

    @staticmethod
    def decompose(operand: Tensor, weight: Tensor, groups: int, precision: str, **along: Any) -> Tensor:
        dims = dimensions_of(operand.shape, weight.shape, **along)
        if groups == 1 and (blocks := Blocks.of(dims, operand)).suit:
            own = Products(blocks.operand(operand), blocks.grid, groups, weight.shape[-1], precision)
            return own.results(blocks.weight(weight))
        own = Products(operand, grid_of(dims, operand.shape[0]), groups, weight.shape[-1], precision)
        return own.results(weight.reshape((product(weight.shape[:-2]), *weight.shape[-2:])))

    @staticmethod
    def vjp(
        g: Tensor, operand: Tensor, weight: Tensor, result: Tensor, groups: int, precision: str, **along: Any
    ) -> tuple[Tensor, Tensor]:
        """That of the operand is a convolution of g with the weight turned around; that of the weight, products."""
        dims = dimensions_of(operand.shape, weight.shape, **along)
        g = rounded(g, precision)
        backwards = [_backwards(dim) for dim in dims]
        of_operand = Convolution(
            g,
            _turned(weight, groups),
            **{name: tuple(getattr(dim, field) for dim in backwards) for name, field in _FIELDS.items()},
            groups=groups,
            precision=precision,
        )
        return of_operand, _of_weight(g, operand, weight.shape, dims, groups, precision)

    @staticmethod
    def infer(operand: TensorType, weight: TensorType, groups: int, precision: str, **along: Any) -> TensorType:
        _check_operands(operand, weight, groups, precision)
        for name, values in along.items():
            if len(values) != operand.ndim - 2:
                raise ShapeError(f"{name} must have one number per spatial dimension of {operand}, got {list(values)}")
            if name not in ("low", "high") and min(values, default=1) < 1:
                raise ShapeError(f"{name} must be at least 1, got {list(values)}")
        dims = dimensions_of(operand.shape, weight.shape, **along)
        for axis, dim in enumerate(dims):
            if dim.extent > dim.padded or not dim.window:
                raise ShapeError(
                    f"{_meaning(operand, weight)}: a window reaches over {dim.extent if dim.window else 0} elements of "
                    f"spatial dimension {axis}, which has {dim.padded} with its padding",
                    advice="Pad more, or take a smaller kernel.",
                )
        return operand.with_shape((operand.shape[0], *(dim.count for dim in dims), weight.shape[-1]))

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in FLOATS:
            for operand, weight, attributes in _CASES if dtype == f64 else _CASES[:: 2 if dtype == f32 else 5]:
                operands = (draw(rng, operand, dtype, -2, 2), draw(rng, weight, dtype, -2, 2))
                yield Sample(operands, attributes)

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operand, weight, plain = TensorType((1, 5, 4), f32), TensorType((3, 4, 6), f32), _attributes(1)
        yield ErrorSample((operand, weight.with_shape((3, 3, 6))), plain, "in 1 groups it takes 3 channels, not 4")
        yield ErrorSample((operand, weight), plain | {"groups": 3}, "4 channels and 6 features cannot be cut into 3")
        yield ErrorSample(
            (operand, weight.with_shape((7, 4, 6))), plain, "a window reaches over 7 elements of spatial dimension 0"
        )
        yield ErrorSample((operand, weight), plain | {"dilation": (3,)}, "which has 5 with its padding")
        yield ErrorSample((operand, weight), plain | {"low": (-3,), "high": (-3,)}, "which has -1 with its padding")
        yield ErrorSample((operand, weight), plain | {"strides": (0,)}, "at least 1")
        yield ErrorSample((operand, weight), plain | {"strides": (1, 1)}, "one number per spatial dimension")
        yield ErrorSample((operand, weight.with_shape((3, 3, 4, 6))), plain, "as many dimensions")
        yield ErrorSample((operand.with_shape((4,)), weight), plain, "as many dimensions")
        yield ErrorSample((operand, weight.with_dtype(f64)), plain, "one dtype")
        yield ErrorSample((operand.with_dtype(i32), weight.with_dtype(i32)), plain, "does not take i32")
        yield ErrorSample((operand, weight), plain | {"precision": "high"}, "not one of highest")


_FIELDS = {
    "strides": "stride",
    "low": "low",
    "high": "high",
    "dilation": "dilation",
    "spread": "spread",
}


def dimensions_of(
    operand: tuple[int, ...],
    weight: tuple[int, ...],
    strides: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    dilation: tuple[int, ...],
    spread: tuple[int, ...],
) -> list[Dimension]:
    """The spatial dimensions of a convolution of two shapes."""
    return list(map(Dimension, operand[1:-1], weight[:-2], strides, low, high, dilation, spread))


def _spread_out(operand: np.ndarray, dims: list[Dimension]) -> np.ndarray:
    """The operand with zeros between and around its elements, and without those that negative padding takes."""
    for axis, dim in enumerate(dims, 1):
        moved = np.moveaxis(operand, axis, 0)
        full = np.zeros((dim.padded + max(-dim.low, 0) + max(-dim.high, 0), *moved.shape[1:]), operand.dtype)
        start = max(dim.low, 0)
        full[start : start + dim.size * dim.spread : dim.spread][: dim.size] = moved
        operand = np.moveaxis(full[max(-dim.low, 0) :][: dim.padded], 0, axis)
    return operand


def _backwards(dim: Dimension) -> Dimension:
    """The dimension of the convolution that gives the operand's gradient from the result's."""
    low = dim.extent - 1 - dim.low
    reach = (dim.size - 1) * dim.spread + dim.extent if dim.size else dim.extent - dim.spread
    high = reach - low - ((dim.count - 1) * dim.stride + 1 if dim.count else 0)
    return Dimension(dim.count, dim.window, dim.spread, low, high, dim.dilation, dim.stride)


def _of_weight(
    g: Tensor, operand: Tensor, shape: tuple[int, ...], dims: list[Dimension], groups: int, precision: str
) -> Tensor:
    """The gradient of the weight, of a shape."""
    if groups == 1 and (blocks := Blocks.of(dims, operand)).suit:
        own = Products(blocks.operand(operand), blocks.grid, groups, shape[-1], precision)
        return blocks.weight_of(own.weight_gradient(g, blocks.places))
    own = Products(operand, grid_of(dims, operand.shape[0]), groups, shape[-1], precision)
    back = grid_of([_backwards(dim) for dim in dims], operand.shape[0])
    return own.weight_gradient(g, product(shape[:-2]), back).reshape(shape)


def _turned(weight: Tensor, groups: int) -> Tensor:
    """The weight with its places reversed, and with channels and features in each other's roles."""
    *window, channels, features = weight.shape
    rank = len(window)
    split = Reverse(weight, axes=tuple(range(rank))).reshape((*window, channels, groups, features // groups))
    turned = split.transpose((*range(rank), rank + 2, rank + 1, rank))
    return turned.reshape((*window, features // groups, groups * channels))


def _meaning(operand: TensorType, weight: TensorType) -> str:
    return f"the operand [N, *spatial, C] is {operand}, the weight [*window, C / groups, F] is {weight}"


def _check_operands(operand: TensorType, weight: TensorType, groups: int, precision: str) -> None:
    if operand.dtype != weight.dtype:
        raise DTypeError(f"operands must have one dtype, got {operand} and {weight}")
    if operand.dtype not in FLOATS:
        raise DTypeError(f"does not take {operand.dtype}, only {', '.join(map(str, FLOATS))}")
    if precision not in PRECISIONS:
        raise BluError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
    if operand.ndim < 2 or weight.ndim != operand.ndim:
        raise ShapeError(f"{_meaning(operand, weight)}: both need as many dimensions, two or more")
    channels, features = operand.shape[-1], weight.shape[-1]
    what = _meaning(operand, weight)
    if groups < 1 or channels % groups or features % groups:
        raise ShapeError(f"{what}: {channels} channels and {features} features cannot be cut into {groups} groups")
    if weight.shape[-2] * groups != channels:
        raise ShapeError(f"{what}: in {groups} groups it takes {weight.shape[-2] * groups} channels, not {channels}")


def _attributes(rank: int, groups: int = 1, **given: Any) -> dict[str, Any]:
    """Attributes of a sample: ones and no padding where nothing else is said, one number for all dimensions."""
    defaults = dict.fromkeys(_FIELDS, 1) | {"low": 0, "high": 0} | given
    along = {name: value if isinstance(value, tuple) else (value,) * rank for name, value in defaults.items()}
    return along | {"groups": groups, "precision": "highest"}


_CASES = [
    ((1, 1, 1), (1, 1, 1), _attributes(1)),
    ((2, 5, 4, 3), (3, 2, 3, 4), _attributes(2, low=1, high=1)),
    ((2, 7, 2), (3, 2, 5), _attributes(1, strides=2, low=1)),
    ((1, 2, 3), (5, 3, 2), _attributes(1, low=2, high=2)),
    ((2, 9, 2), (2, 2, 3), _attributes(1, strides=4)),
    ((1, 5, 4), (3, 1, 4), _attributes(1, low=1, high=0, groups=4)),
    ((1, 4, 5, 2), (2, 2, 1, 6), _attributes(2, groups=2, strides=(1, 2))),
    ((2, 6, 4), (3, 2, 6), _attributes(1, groups=2, dilation=2, low=1, high=2)),
    ((2, 3, 2, 2), (3, 1, 2, 3), _attributes(2, spread=(2, 3), low=2, high=1)),
    ((1, 4, 2), (4, 2, 3), _attributes(1, spread=2, strides=3, low=2, high=3)),
    ((1, 5, 2), (2, 2, 2), _attributes(1, spread=4, low=-1, high=-2)),
    ((1, 2, 2, 2, 2), (2, 1, 2, 2, 3), _attributes(3, low=(0, 1, 0))),
    ((0, 4, 2), (2, 2, 3), _attributes(1)),
    ((2, 4, 0), (2, 0, 3), _attributes(1)),
    ((3, 2), (2, 4), _attributes(0)),
    ((2, 9, 8, 3), (3, 5, 3, 4), _attributes(2, strides=(2, 3), low=(1, -1), high=(-1, 3))),
    ((2, 7, 3), (2, 3, 5), _attributes(1, strides=2)),
]
