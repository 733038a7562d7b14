"""GPT-2 with Hugging Face's names for its tensors.

Shapes: B batch, T positions, C width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from blu.dataclass import dataclass
from blu.errors import ShapeError, WeightsError
from blu.frontend.functional import functional as ops
from blu.frontend.io.gpt2 import PRESETS, complete_config, gelu_form, random_state_dict
from blu.frontend.nn.attention import Attention, Cache, cache_specs
from blu.frontend.nn.layers import Conv1D, Embedding, LayerNorm, Linear
from blu.frontend.nn.module import Module
from blu.frontend.nn.parameter import Parameter


@dataclass(frozen=True)
class GPT2Config:
    """The keys of a Hugging Face config.json that decide what a GPT-2 computes."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True

    @classmethod
    def of(cls, config: GPT2Config | Mapping[str, Any] | str) -> GPT2Config:
        """Read a configuration given as one, as a config.json's content, or as a name such as "gpt2-medium"."""
        if isinstance(config, GPT2Config):
            return config
        if isinstance(config, str):
            if config not in PRESETS:
                raise WeightsError(f"{config!r} is not a GPT-2 that Blu knows", advice=f"Known: {', '.join(PRESETS)}.")
            config = PRESETS[config]
        checked = complete_config({"model_type": "gpt2", **config})
        return cls(**{field.name: checked[field.name] for field in fields(cls)})

    def to_dict(self) -> dict[str, Any]:
        """As the content of a config.json."""
        return {"model_type": "gpt2"} | {field.name: getattr(self, field.name) for field in fields(self)}


class MLP(Module):
    """Two projections with a GELU between them."""

    def __init__(self, config: GPT2Config, dtype: object = "f32"):
        inner = config.n_inner or 4 * config.n_embd
        self.approximate = gelu_form(config.to_dict())
        self.c_fc = Conv1D(config.n_embd, inner, config.initializer_range, dtype)
        self.c_proj = Conv1D(inner, config.n_embd, residual_deviation(config), dtype)

    def forward(self, x: Any) -> Any:
        return self.c_proj(ops.gelu(self.c_fc(x), approximate=self.approximate))


class Block(Module):
    """Attention and MLP, each behind a layer norm and added to its input."""

    def __init__(self, config: GPT2Config, dtype: object = "f32"):
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon, dtype=dtype)
        self.attn = Attention(config.n_embd, config.n_head, residual_deviation(config), dtype)
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon, dtype=dtype)
        self.mlp = MLP(config, dtype)

    def forward(self, x: Any, cache: Cache | None = None, position: Any = 0) -> Any:
        """y [B, T, C]; with a `cache`, also the cache after `position`."""
        attended = self.attn(self.ln_1(x), cache, position)
        if cache is not None:
            attended, cache = attended
        x = x + attended
        y = x + self.mlp(self.ln_2(x))
        return y if cache is None else (y, cache)


class GPT2(Module):
    """GPT-2 for a configuration: a GPT2Config, the content of a config.json, or "gpt2", "gpt2-medium" and so on."""

    def __init__(self, config: GPT2Config | Mapping[str, Any] | str = "gpt2", dtype: object = "f32"):
        config = GPT2Config.of(config)
        self.config = config
        self.wte = Embedding(config.vocab_size, config.n_embd, config.initializer_range, dtype)
        self.wpe = Embedding(config.n_positions, config.n_embd, config.initializer_range, dtype)
        self.h = [Block(config, dtype) for _ in range(config.n_layer)]
        self.ln_f = LayerNorm(config.n_embd, config.layer_norm_epsilon, dtype=dtype)
        tied = config.tie_word_embeddings
        self.lm_head = None if tied else Linear(config.n_embd, config.vocab_size, bias=False, dtype=dtype)

    def forward(
        self,
        tokens: Any,
        cache: list[Cache] | None = None,
        position: Any = 0,
        last_only: bool = False,
        length: Any = None,
    ) -> Any:
        """Logits [B, T, V] of the next token at every position; with a `cache`, also the cache afterwards.

        With a cache, the tokens stand at positions `position`.. of the sequence (an i32 scalar, or a Python int).
        `last_only` gives the logits [B, 1, V] of the last position alone; of position `length` - 1, where `length`
        (an i32 scalar) says how many of the tokens are real and not padding on the right.
        """
        x = self.wte(tokens) + self._positions(tokens.shape[1], None if cache is None else position)
        caches = []
        for index, block in enumerate(self.h):
            if cache is None:
                x = block(x)
                continue
            x, layer_cache = block(x, cache[index], position)
            caches.append(layer_cache)
        if last_only:
            x = _column(x, length)
        logits_BTV = self._head(self.ln_f(x))
        return logits_BTV if cache is None else (logits_BTV, caches)

    def initialize(self, seed: int = 0) -> GPT2:
        """Give what has no numbers yet such as GPT-2's paper describes; the same for the same `seed`.

        Parameters of layers that somebody has put into the model get their own initial ones.
        """
        fresh = random_state_dict(self.config.to_dict(), seed)
        wanted = {name: item for name, item in self.named_parameters() if isinstance(item, Parameter) and name in fresh}
        drawn = {name: fresh[name].astype(item.dtype.numpy, copy=False) for name, item in wanted.items()}
        self.load_state_dict(drawn, strict=False)
        super().initialize(seed)
        return self

    def cache_specs(self, batch: int = 1, length: int | None = None) -> list[Cache]:
        """The shapes of a cache for `length` positions (as many as the model has, where it is not given)."""
        config, dtype = self.config, self.wte.weight.dtype
        size = config.n_embd // config.n_head
        return cache_specs(config.n_layer, batch, config.n_head, length or config.n_positions, size, dtype)

    def _positions(self, length: int, position: Any) -> Any:
        """The embeddings [T, C] of the positions from `position` (from the first one, where there is no cache)."""
        table: Any = self.wpe.weight
        limit, width = table.shape
        if length > limit:
            raise ShapeError(f"GPT2: {length} tokens are more than the model's {limit} positions (n_positions)")
        if position is None:
            return table[:length]
        return ops.dynamic_slice(table, (position, 0), (length, width))

    def _head(self, x: Any) -> Any:
        if self.lm_head is not None:
            return self.lm_head(x)
        return ops.matmul(x, ops.transpose(self.wte.weight))


def residual_deviation(config: GPT2Config) -> float:
    """The initial deviation of projections into the residual stream, to which every layer adds twice."""
    return config.initializer_range / math.sqrt(2 * config.n_layer)


def _column(x: Any, length: Any) -> Any:
    """The last position of x, or position `length` - 1, as [B, 1, C]."""
    batch, positions, width = x.shape
    if length is None:
        return x[:, positions - 1 :]
    return ops.dynamic_slice(x, (0, length - 1, 0), (batch, 1, width))
