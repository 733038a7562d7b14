"""Self-attention over a sequence, with an optional cache of earlier keys and values.

Shapes: B batch, T positions, C width, H heads, D = C / H, S positions of the cache.
"""

from __future__ import annotations

from typing import Any

from blu.errors import ShapeError
from blu.frontend.functional import functional as ops
from blu.frontend.nn.layers import Conv1D
from blu.frontend.nn.module import Module
from blu.frontend.tracing.spec import spec

Cache = dict[str, Any]


class Attention(Module):
    """Causal self-attention with one projection `c_attn` to queries, keys and values, and `c_proj` back."""

    def __init__(self, width: int, num_heads: int, deviation: float = 0.02, dtype: object = "f32"):
        if width % num_heads:
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
        q_BHTD, k_BHTD, v_BHTD = (self._heads(qkv[..., i * width : (i + 1) * width]) for i in range(3))
        if cache is None:
            return self.c_proj(self._merge(ops.attention(q_BHTD, k_BHTD, v_BHTD, causal=True)))
        start = (0, 0, position, 0)
        k_BHSD = ops.dynamic_update_slice(cache["key"], k_BHTD, start)
        v_BHSD = ops.dynamic_update_slice(cache["value"], v_BHTD, start)
        if isinstance(position, int) and position == 0:
            y_BHTD = ops.attention(q_BHTD, k_BHTD, v_BHTD, causal=True)
        else:
            y_BHTD = ops.attention(q_BHTD, k_BHSD, v_BHSD, offset=position, causal=True)
        return self.c_proj(self._merge(y_BHTD)), {"key": k_BHSD, "value": v_BHSD}

    def _heads(self, x: Any) -> Any:
        batch, length, width = x.shape
        x_BTHD = ops.reshape(x, (batch, length, self.num_heads, width // self.num_heads))
        return ops.transpose(x_BTHD, (0, 2, 1, 3))

    def _merge(self, y: Any) -> Any:
        batch, heads, length, size = y.shape
        return ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (batch, length, heads * size))


def cache_specs(num_layers: int, batch: int, num_heads: int, length: int, size: int, dtype: object) -> list[Cache]:
    """What a model's cache looks like: one {"key", "value"} of [batch, num_heads, length, size] for each layer."""
    array = spec((batch, num_heads, length, size), dtype)
    return [{"key": array, "value": array} for _ in range(num_layers)]
