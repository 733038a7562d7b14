"""`blu.nn.init`: what numbers a parameter starts with, by the names that the distributions have in torch.

    layer = nn.Linear(512, 64)
    layer.weight = nn.init.kaiming_normal(layer.weight.shape)
    layer.initialize(seed=0)

Each gives a `Parameter` of a shape, whose numbers `initialize` draws. Weights are [outputs, inputs, *window], as in
torch; with `transposed=True` [inputs, outputs, *window], as `Conv1D` and transposed convolutions have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np

from blu.dialects.core.dtypes import as_dtype, product
from blu.errors import ArgumentError, ShapeError
from blu.frontend.nn.parameter import Draw, Parameter, constant, normal, uniform

__all__ = [
    "constant",
    "dirac",
    "eye",
    "gain_of",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "ones",
    "orthogonal",
    "trunc_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
_FANS = ("inputs", "outputs")


def gain_of(nonlinearity: str, slope: float = 0.01) -> float:
    """What a layer's deviation is multiplied by so that numbers keep their size through an activation.

    `nonlinearity` is "linear", "sigmoid", "tanh", "relu", "selu", or "leaky_relu", of `slope` below 0.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"no gain of {nonlinearity!r} is known: one of leaky_relu, {', '.join(_GAINS)}")
    return _GAINS[nonlinearity]


def zeros(shape: Iterable[int], dtype: object = "f32") -> Parameter:
    """A parameter that starts out as zeros."""
    return constant(shape, 0.0, dtype)


def ones(shape: Iterable[int], dtype: object = "f32") -> Parameter:
    """A parameter that starts out as ones."""
    return constant(shape, 1.0, dtype)


def xavier_uniform(
    shape: Iterable[int], gain: float = 1.0, dtype: object = "f32", transposed: bool = False
) -> Parameter:
    """Uniform within gain sqrt(6 / (inputs + outputs)) of zero (Glorot and Bengio, 2010)."""
    sizes = tuple(shape)
    return uniform(sizes, gain * math.sqrt(6 / sum(_fans(sizes, transposed))), dtype)


def xavier_normal(
    shape: Iterable[int], gain: float = 1.0, dtype: object = "f32", transposed: bool = False
) -> Parameter:
    """Normal of deviation gain sqrt(2 / (inputs + outputs)) (Glorot and Bengio, 2010)."""
    sizes = tuple(shape)
    return normal(sizes, gain * math.sqrt(2 / sum(_fans(sizes, transposed))), dtype)


def kaiming_uniform(
    shape: Iterable[int],
    nonlinearity: str = "relu",
    fan: str = "inputs",
    slope: float = 0.01,
    dtype: object = "f32",
    transposed: bool = False,
) -> Parameter:
    """Uniform within gain sqrt(3 / fan) of zero (He et al., 2015); see `gain_of` for the gain."""
    return uniform(sizes := tuple(shape), math.sqrt(3) * _kaiming(sizes, nonlinearity, fan, slope, transposed), dtype)


def kaiming_normal(
    shape: Iterable[int],
    nonlinearity: str = "relu",
    fan: str = "inputs",
    slope: float = 0.01,
    dtype: object = "f32",
    transposed: bool = False,
) -> Parameter:
    """Normal of deviation gain / sqrt(fan) (He et al., 2015); `fan` is "inputs" or "outputs", see `gain_of`."""
    return normal(sizes := tuple(shape), _kaiming(sizes, nonlinearity, fan, slope, transposed), dtype)


def trunc_normal(shape: Iterable[int], deviation: float = 0.02, bound: float = 2.0, dtype: object = "f32") -> Parameter:
    """Normal of `deviation` before what lies more than `bound` deviations from zero is drawn again."""
    if not bound >= 0.1:
        raise ArgumentError(f"the bound must be 0.1 deviations or more, got {bound}")
    return _drawn(shape, partial(_truncated, deviation, bound), dtype)


def orthogonal(shape: Iterable[int], gain: float = 1.0, dtype: object = "f32") -> Parameter:
    """Rows, or columns where there are fewer, of length `gain` at right angles (Saxe et al., 2013).

    The matrix is [shape[0], all other sizes together], drawn from all with equal probability.
    """
    return _drawn(_of_a_matrix(tuple(shape)), partial(_orthogonal, gain), dtype)


def eye(shape: Iterable[int], dtype: object = "f32") -> Parameter:
    """A matrix that starts out with ones on its diagonal and zeros elsewhere: what goes in comes out."""
    sizes = tuple(shape)
    if len(sizes) != 2:
        raise ShapeError(f"a matrix has two dimensions, got {list(sizes)}")
    return _drawn(sizes, partial(_dirac, 1), dtype)


def dirac(shape: Iterable[int], groups: int = 1, dtype: object = "f32") -> Parameter:
    """The weight of a convolution that gives what goes in: in each of `groups`, output i is input i, others are 0.

    `shape` is [outputs, inputs / groups, *window] of one to three dimensions of the window, whose middle is the one.
    """
    sizes = tuple(shape)
    if not 3 <= len(sizes) <= 5:
        raise ShapeError(f"the weight of a convolution has three to five dimensions, got {list(sizes)}")
    if groups < 1 or sizes[0] % groups:
        raise ShapeError(f"{sizes[0]} outputs are not divided into {groups} groups")
    return _drawn(sizes, partial(_dirac, groups), dtype)


def _drawn(shape: Iterable[int], draw: Draw, dtype: object) -> Parameter:
    return Parameter(tuple(shape), as_dtype(dtype), draw)


def _of_a_matrix(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) < 2:
        raise ShapeError(f"a weight has inputs and outputs, so two dimensions or more, got {list(shape)}")
    return shape


def _fans(shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
    """How many inputs each output is a sum of, and how many outputs each input is in; at least one."""
    outputs, inputs = _of_a_matrix(shape)[:2][:: -1 if transposed else 1]
    window = product(shape[2:])
    return max(inputs * window, 1), max(outputs * window, 1)


def _kaiming(shape: tuple[int, ...], nonlinearity: str, fan: str, slope: float, transposed: bool) -> float:
    if fan not in _FANS:
        raise ArgumentError(f"fan={fan!r} is neither of {' and '.join(_FANS)}")
    return gain_of(nonlinearity, slope) / math.sqrt(_fans(shape, transposed)[_FANS.index(fan)])


def _truncated(deviation: float, bound: float, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = generator.standard_normal(shape)
    while (outside := np.abs(values) > bound).any():
        values[outside] = generator.standard_normal(np.count_nonzero(outside))
    return deviation * values


def _dirac(groups: int, _: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values, outputs = np.zeros(shape), shape[0] // groups
    channels = np.arange(min(outputs, shape[1]))
    middle = tuple(size // 2 for size in shape[2:])
    if 0 not in shape:
        for group in range(groups):
            values[(group * outputs + channels, channels, *middle)] = 1
    return values


def _orthogonal(gain: float, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    rows, columns = shape[0], product(shape[1:])
    normals = generator.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normals)
    q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)  # without it, the signs would be those that the algorithm prefers
    return gain * (q if rows >= columns else q.T).reshape(shape)
