"""The functions that a GPT-2 is compiled as: the whole prompt, one more token, or the logits of every position.

Shapes: B batch, T positions, V vocabulary. The cache is the list that `GPT2.cache_specs` describes.
"""

from __future__ import annotations

from typing import Any

from blu.frontend.functional import functional as ops
from blu.frontend.nn.attention import Cache
from blu.frontend.nn.gpt2 import GPT2


def forward(model: GPT2, tokens: Any) -> Any:
    """Logits [B, T, V] of the next token at every position of tokens [B, T]."""
    return model(tokens)


def prefill(model: GPT2, tokens: Any, cache: list[Cache], length: Any) -> tuple[Any, Any, list[Cache]]:
    """Logits [B, V] and likeliest token [B] after the first `length` of tokens [B, T], and the cache of all T."""
    logits, cache = model(tokens, cache, 0, last_only=True, length=length)
    return *_next(logits), cache


def decode(model: GPT2, tokens: Any, cache: list[Cache], position: Any) -> tuple[Any, Any, list[Cache]]:
    """Logits [B, V] and likeliest token [B] after tokens [B, 1] at `position`, and the cache with them."""
    logits, cache = model(tokens, cache, position)
    return *_next(logits), cache


def _next(logits: Any) -> tuple[Any, Any]:
    """Logits [B, V] and their argmax [B], of logits [B, 1, V]."""
    batch, _, vocabulary = logits.shape
    logits = ops.reshape(logits, (batch, vocabulary))
    return logits, ops.astype(ops.argmax(logits, axis=-1), "i32")


def loss(model: GPT2, tokens: Any, targets: Any) -> Any:
    """The mean cross-entropy of targets [B, T] under the logits for tokens [B, T]; targets of -100 do not count."""
    return ops.cross_entropy(model(tokens), targets)
