"""Layers: Linear, Conv1D, Embedding, LayerNorm, RMSNorm, Dropout.

Shapes: B batch, T positions, C width. Parameters are named and laid out as in torch, so that its state dicts fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from blu.errors import ArgumentError
from blu.frontend.functional import functional as ops
from blu.frontend.functional.neural import check_dropout_rate
from blu.frontend.nn.module import Module
from blu.frontend.nn.parameter import constant, normal, uniform


class Linear(Module):
    """x @ weight.T + bias, with `weight` [outputs, inputs] as in torch."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, dtype: object = "f32"):
        bound = 1 / math.sqrt(inputs)
        self.weight = uniform((outputs, inputs), bound, dtype)
        self.bias = uniform((outputs,), bound, dtype) if bias else None

    def forward(self, x: Any) -> Any:
        y = ops.matmul(x, ops.transpose(self.weight))
        return y if self.bias is None else y + self.bias


class Conv1D(Module):
    """x @ weight + bias, with `weight` [inputs, outputs] as in Hugging Face's GPT-2."""

    def __init__(self, inputs: int, outputs: int, deviation: float = 0.02, dtype: object = "f32"):
        self.weight = normal((inputs, outputs), deviation, dtype)
        self.bias = constant((outputs,), 0.0, dtype)

    def forward(self, x: Any) -> Any:
        return ops.matmul(x, self.weight) + self.bias


class Embedding(Module):
    """Row `index` of `weight` [rows, C] for every index of an integer tensor."""

    def __init__(self, rows: int, width: int, deviation: float = 0.02, dtype: object = "f32"):
        self.weight = normal((rows, width), deviation, dtype)

    def forward(self, indices: Any) -> Any:
        return ops.take(self.weight, indices, axis=0)


class LayerNorm(Module):
    """The last dimension, or as many last ones as `width` has sizes, with mean 0 and variance 1.

    It is then scaled by `weight` and shifted by `bias`, which are of those sizes.
    """

    def __init__(self, width: int | Sequence[int], eps: float = 1e-5, bias: bool = True, dtype: object = "f32"):
        self.eps = eps
        self.weight = constant(_sizes(width), 1.0, dtype)
        self.bias = constant(_sizes(width), 0.0, dtype) if bias else None

    def forward(self, x: Any) -> Any:
        return ops.layer_norm(x, self.weight, self.bias, self.eps, tuple(range(-len(self.weight.shape), 0)))


class RMSNorm(Module):
    """The last dimension, or as many last ones as `width` has sizes, divided by its root mean square.

    It is then scaled by `weight`, which is of those sizes.
    """

    def __init__(self, width: int | Sequence[int], eps: float = 1e-6, dtype: object = "f32"):
        self.eps = eps
        self.weight = constant(_sizes(width), 1.0, dtype)

    def forward(self, x: Any) -> Any:
        return ops.rms_norm(x, self.weight, self.eps, tuple(range(-len(self.weight.shape), 0)))


def _sizes(width: int | Sequence[int]) -> tuple[int, ...]:
    return (width,) if isinstance(width, int) else tuple(width)


class Dropout(Module):
    """Elements set to 0 with probability `rate` while training, the others divided by 1 - rate; see `blu.dropout`.

    Which ones follows from `key`: use another one in each step, as `blu.random.fold_in(key, step)`.
    """

    def __init__(self, rate: float = 0.5):
        check_dropout_rate(rate)
        self.rate, self.training = float(rate), True

    def forward(self, x: Any, key: Any = None) -> Any:
        if not self.training or not self.rate:
            return x
        if key is None:
            raise ArgumentError(
                f"Dropout({self.rate:g}) is told no key to draw by",
                advice="Pass key=blu.random.key(0), or call the model's eval() where it is not trained.",
            )
        return ops.dropout(x, self.rate, key)
