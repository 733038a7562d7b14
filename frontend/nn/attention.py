"""Attention of sequences: causal with an optional cache of earlier keys and values, and that of torch's layer.

Shapes: B batch, T positions, C width, H heads, D = C / H, S positions of the cache, or of what is attended to.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional import functional as ops
from blu.frontend.functional.neural import check_dropout_rate
from blu.frontend.nn.init import xavier_uniform
from blu.frontend.nn.layers import Conv1D, Linear
from blu.frontend.nn.module import Module
from blu.frontend.nn.parameter import constant
from blu.frontend.tracing.spec import spec

Cache = dict[str, Any]


class Attention(Module):
    """Causal self-attention with one projection `c_attn` to queries, keys and values, and `c_proj` back."""

    def __init__(self, width: int, num_heads: int, deviation: float = 0.02, dtype: object = "f32"):
        if num_heads < 1 or width % num_heads:
            raise ShapeError(f"{width=} of the attention is not a multiple of {num_heads=}")
        self.num_heads = num_heads
        self.c_attn = Conv1D(width, 3 * width, dtype=dtype)
        self.c_proj = Conv1D(width, width, deviation, dtype=dtype)

    def forward(self, x: Any, cache: Cache | None = None, position: Any = 0) -> Any:
        """y [B, T, C]; with a `cache`, also the cache with the keys and values of x written at `position`.

        Row t attends to the cache's positions 0..position + t, so a prompt and a single token are the same code; only
        a prompt at the Python integer 0 does not read the cache, which holds nothing yet.
        """
        qkv = self.c_attn(x)
        width = qkv.shape[-1] // 3
        q_BHTD, k_BHTD, v_BHTD = (_split(qkv[..., i * width : (i + 1) * width], self.num_heads) for i in range(3))
        if cache is None:
            return self.c_proj(_merged(ops.attention(q_BHTD, k_BHTD, v_BHTD, causal=True)))
        start = (0, 0, position, 0)
        k_BHSD = ops.dynamic_update_slice(cache["key"], k_BHTD, start)
        v_BHSD = ops.dynamic_update_slice(cache["value"], v_BHTD, start)
        if isinstance(position, int) and position == 0:
            y_BHTD = ops.attention(q_BHTD, k_BHTD, v_BHTD, causal=True)
        else:
            y_BHTD = ops.attention(q_BHTD, k_BHSD, v_BHSD, offset=position, causal=True)
        return self.c_proj(_merged(y_BHTD)), {"key": k_BHSD, "value": v_BHSD}


class MultiheadAttention(Module):
    """Attention between sequences [B, T, C], with torch's parameters: `in_proj_weight` and `_bias`, and `out_proj`.

    `kv_heads` fewer heads of keys and values, a divisor of `num_heads`, serve several of queries each (grouped heads);
    `in_proj_weight` then is [C + 2 D kv_heads, C]. With `dropout`, weights are dropped while training.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        dtype: object = "f32",
    ):
        kv_heads = num_heads if kv_heads is None else kv_heads
        if min(num_heads, kv_heads) < 1 or width % num_heads or num_heads % kv_heads:
            raise ShapeError(f"{width=} must be a multiple of {num_heads=}, and that one of {kv_heads=}")
        check_dropout_rate(dropout)
        self.num_heads, self.kv_heads, self.dropout, self.training = num_heads, kv_heads, dropout, True
        rows = width + 2 * kv_heads * (width // num_heads)
        self.in_proj_weight = xavier_uniform((rows, width), dtype=dtype)
        self.in_proj_bias = constant((rows,), 0.0, dtype) if bias else None
        self.out_proj = Linear(width, width, bias, dtype)
        self.out_proj.bias = constant((width,), 0.0, dtype) if bias else None

    def forward(
        self,
        query: Any,
        memory: Any = None,
        values: Any = None,
        mask: Any = None,
        causal: bool = False,
        rotate: Callable[[Any], Any] | None = None,
        key: Any = None,
    ) -> Any:
        """y [B, T, C]: `query` [B, T, C] attends to `memory` [B, S, C] (itself where not given).

        `values` [B, S, C] are the memory where not given. `mask`, [B, H, T, S] or what broadcasts to it, and `causal`
        are those of `blu.attention`: True lets a key be seen. `rotate` is applied to the heads of queries and of keys,
        [B, H, T, D], as `blu.rotary` is. With dropout in training, `key` says what is dropped.
        """
        memory = query if memory is None else memory
        sources = (query, memory, memory if values is None else values)
        width = self.out_proj.weight.shape[0]
        for source in sources:
            if source.ndim != 3 or source.shape[-1] != width:
                raise ShapeError(f"MultiheadAttention takes sequences [B, T, {width}], got {list(source.shape)}")
        projected = self._projected(sources)
        heads = (self.num_heads, self.kv_heads, self.kv_heads)
        q, k, v = (_split(item, count) for item, count in zip(projected, heads, strict=True))
        if rotate is not None:
            q, k = rotate(q), rotate(k)
        drops = bool(self.dropout) and self.training
        if drops and key is None:
            advice = "Pass key=blu.random.key(0), or call the model's eval() where it is not trained."
            raise ArgumentError("MultiheadAttention is told no key to draw by", advice=advice)
        dropped = {"dropout": self.dropout, "dropout_key": key} if drops else {}
        return self.out_proj(_merged(ops.attention(q, k, v, mask, causal=causal, **dropped)))

    def _projected(self, sources: tuple[Any, Any, Any]) -> list[Any]:
        """Queries, keys and values of their sources; one product where there is one source."""
        width = self.out_proj.weight.shape[0]
        own = self.kv_heads * (width // self.num_heads)
        starts = (0, width, width + own, width + 2 * own)
        if all(source is sources[0] for source in sources):
            found = self._linear(sources[0], 0, starts[-1])
            return [found[..., start:end] for start, end in pairwise(starts)]
        return [self._linear(source, *span) for source, span in zip(sources, pairwise(starts), strict=True)]

    def _linear(self, x: Any, start: int, end: int) -> Any:
        weight: Any = self.in_proj_weight
        bias: Any = self.in_proj_bias
        if end - start < weight.shape[0]:
            weight, bias = weight[start:end], bias if bias is None else bias[start:end]
        y = ops.matmul(x, ops.transpose(weight))
        return y if bias is None else y + bias


def _split(x: Any, heads: int) -> Any:
    """[B, H, T, D] of [B, T, H D]."""
    batch, length, width = x.shape
    return ops.transpose(ops.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def _merged(y: Any) -> Any:
    """[B, T, H D] of [B, H, T, D]."""
    batch, heads, length, size = y.shape
    return ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (batch, length, heads * size))


def cache_specs(num_layers: int, batch: int, num_heads: int, length: int, size: int, dtype: object) -> list[Cache]:
    """What a model's cache looks like: one {"key", "value"} of [batch, num_heads, length, size] for each layer."""
    array = spec((batch, num_heads, length, size), dtype)
    return [{"key": array, "value": array} for _ in range(num_layers)]
