"""Layers: Linear, Conv1D, Embedding, LayerNorm, RMSNorm, Dropout, PReLU, and the gated layers of today's models.

Shapes: B batch, T positions, C width. Parameters are named and laid out as in torch, so that its state dicts fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

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
    """Row `index` of `weight` [rows, C] for every index of an integer tensor.

    The row `padding_idx` (counted from the end where it is negative) starts out as zeros and has no gradient, so that
    it stays what it is. With `scale_grad_by_freq`, a row's gradient is divided by how often it is asked for.
    """

    def __init__(
        self,
        rows: int,
        width: int,
        deviation: float = 0.02,
        dtype: object = "f32",
        padding_idx: int | None = None,
        scale_grad_by_freq: bool = False,
    ):
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise ArgumentError(f"padding_idx={padding_idx} is none of {rows} rows")
        self.padding_idx = padding_idx if padding_idx is None else padding_idx % rows
        self.scale_grad_by_freq = scale_grad_by_freq
        self.weight = normal((rows, width), deviation, dtype)
        if self.padding_idx is not None:
            self.weight = replace(self.weight, kind=partial(_without_row, self.padding_idx, deviation))

    def forward(self, indices: Any) -> Any:
        found = ops.take(self.weight, indices, axis=0)
        if self.scale_grad_by_freq:
            found = _scaled_gradient(found, self._frequencies(indices))
        if self.padding_idx is None:
            return found
        rows = self.weight.shape[0]
        counted = ops.equal(indices, self.padding_idx - rows)  # from the end, as indices may be
        is_padding = ops.expand_dims(ops.logical_or(ops.equal(indices, self.padding_idx), counted), -1)
        return ops.where(is_padding, ops.stop_gradient(found), found)

    def _frequencies(self, indices: Any) -> Any:
        """How often each index is among all of them: [..., 1]."""
        rows = self.weight.shape[0]
        places = ops.reshape(ops.where(ops.less(indices, 0), ops.add(indices, rows), indices), -1)
        counts = ops.scatter_add(ops.zeros((rows,), "i64"), places, ops.ones(places.shape, "i64"))
        return ops.reshape(ops.take(counts, places), (*indices.shape, 1))


def _scaled_gradient(x: Any, divisor: Any) -> Any:
    """x, whose gradient is divided."""
    kept = ops.stop_gradient(x)
    return kept + (x - kept) / ops.astype(divisor, x.dtype)


def _without_row(row: int, deviation: float, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers but in one row, which is zeros."""
    values = deviation * generator.standard_normal(shape, np.float32)
    values[row] = 0
    return values


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


class PReLU(Module):
    """x where it is above 0, `weight` * x elsewhere; `weight` [1], or [C] for x [N, C, ...]. See `blu.prelu`."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: object = "f32"):
        self.weight = constant((num_parameters,), init, dtype)

    def forward(self, x: Any) -> Any:
        return ops.prelu(x, self.weight)


class GatedMLP(Module):
    """down_proj(activation(gate_proj(x)) * up_proj(x)), of `width` to `hidden` and back (Shazeer, 2020).

    With `activation=blu.gelu` it is a GEGLU, with `blu.sigmoid` a GLU. Parameters are named as in Hugging Face's Llama.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        activation: Callable[[Any], Any] = ops.silu,
        bias: bool = False,
        dtype: object = "f32",
    ):
        self.activation = activation
        self.gate_proj = Linear(width, hidden, bias, dtype)
        self.up_proj = Linear(width, hidden, bias, dtype)
        self.down_proj = Linear(hidden, width, bias, dtype)

    def forward(self, x: Any) -> Any:
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class SwiGLU(GatedMLP):
    """A `GatedMLP` whose activation is silu, as Llama's."""

    def __init__(self, width: int, hidden: int, bias: bool = False, dtype: object = "f32"):
        super().__init__(width, hidden, ops.silu, bias, dtype)
