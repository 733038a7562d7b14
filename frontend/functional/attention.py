"""Attention: one kernel where all weights count, the matrix of weights where some are dropped; and rotary positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import DType, computing_dtype
from blu.dialects.ops.attention import Attention, groups_of, masked, softmax_of_visible, split_heads
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.arithmetic import cos, matmul, sin
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, expand_dims, reshape, stack
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.creation import iota
from blu.frontend.functional.neural import dropout as dropped

__all__ = ["attention", "rotary"]


@public
def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    causal: bool = False,
    offset: Any = None,
    scale: float | None = None,
    dropout: float = 0.0,
    dropout_key: Any = None,
    precision: str = "highest",
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value, per head: [..., Hq, Tq, Dv].

    query [..., Hq, Tq, D], key [..., Hkv, Tk, D], value [..., Hkv, Tk, Dv]; Hq is a multiple of Hkv (grouped heads),
    dimensions before those broadcast. One without heads, [T, D], is that of all heads; where all three are, so is the
    result, [Tq, Dv].
    `mask` broadcasts to [..., Hq, Tq, Tk]: bool (True lets a key be seen), or a float that is added to the scores.
    With `causal`, key j is visible to query i where j <= i + offset; `offset` (an integer or 0-d tensor, the position
    of the first query among the keys) is Tk - Tq where it is not given. `scale` is 1 / sqrt(D) where it is not given.
    A query that sees no key gives zeros. With the `precision` "tf32", factors of products of f32 may be rounded to 10
    bits of fraction, as in `matmul`, and those of the gradients as well.

    With `dropout`, each weight of the softmax is 0 with that probability and else divided by 1 - dropout, as drawn with
    the `dropout_key` (of `blu.random`). That takes the matrix of weights [..., Hq, Tq, Tk] in memory. ArgumentError for
    a `dropout` that is no probability, or without a key.
    """
    if not 0 <= dropout <= 1:
        raise ArgumentError(f"dropout is a probability, from 0 to 1, not {dropout!r}")
    if dropout and dropout_key is None:
        raise ArgumentError("dropout needs a dropout_key to draw with", advice="Pass dropout_key=blu.random.key(0).")
    given = promoted_floats(query, key, value)
    tensors = _with_one_lead(_with_heads(given))
    width = tensors[0].shape[-1] if tensors[0].ndim else 1
    factor = 1 / math.sqrt(max(width, 1)) if scale is None else scale
    start = None if offset is None else as_indices(offset)
    shown = None if mask is None else as_tensor(mask)
    if shown is not None and shown.dtype.is_float and shown.dtype != tensors[0].dtype:
        # Scores are computed so: a mask of f32 may be lower than f16 goes.
        shown = as_tensor(shown, computing_dtype(tensors[0].dtype))
    # With dropout, the op says what does not fit, and is not run.
    queries, keys, values = tensors
    whole = Attention(queries, keys, values, shown, start, causal=causal, scale=factor, precision=precision)
    result_shape = whole.shape[1:] if all(tensor.ndim == 2 for tensor in given) else whole.shape
    if not dropout:
        return whole if result_shape == whole.shape else whole.reshape(result_shape)
    weights = dropped(_weights(queries, keys, shown, start, causal, factor, precision), dropout, dropout_key)
    result = matmul(weights, converted(values, weights.dtype).expand_dims(-3), precision)
    return converted(result.reshape(result_shape), whole.dtype)


def _with_heads(tensors: list[Tensor]) -> list[Tensor]:
    """The operands, where one of two dimensions is as many heads as keys and values have."""
    heads = max((tensor.shape[-3] for tensor in tensors[1:] if tensor.ndim > 2), default=1)
    return [broadcast_to(tensor, (heads, *tensor.shape)) if tensor.ndim == 2 else tensor for tensor in tensors]


def _with_one_lead(tensors: list[Tensor]) -> list[Tensor]:
    """The operands with the dimensions before heads broadcast to each other. The op checks all else."""
    leads = [tensor.shape[:-3] for tensor in tensors]
    if leads[0] == leads[1] == leads[2] or any(tensor.ndim < 3 for tensor in tensors):
        return tensors
    lead = broadcast_shapes(*leads)
    return [broadcast_to(tensor, (*lead, *tensor.shape[-3:])) for tensor in tensors]


def _weights(
    query: Tensor, key: Tensor, mask: Tensor | None, offset: Tensor | None, causal: bool, scale: float, precision: str
) -> Tensor:
    """The softmax of the scores [..., Hkv, groups, Tq, Tk], in the dtype in which it is computed."""
    wide, groups = computing_dtype(query.dtype), groups_of(query.shape, key.shape)
    wide_query = split_heads(converted(query, wide), groups)
    wide_key = converted(key, wide).expand_dims(-3)
    scores = matmul(wide_query, wide_key.swapaxes(-1, -2), precision) * scale
    return softmax_of_visible(masked(scores, mask, offset, causal, groups)) if scores.size else scores


@public
def rotary(
    x: Any,
    positions: Any = None,
    *,
    base: float = 10000.0,
    width: int | None = None,
    interleaved: bool = False,
    frequencies: Any = None,
) -> Tensor:
    """x [..., T, D] with pairs of elements turned by angles that grow with the position (Su et al., 2021, RoPE).

    Pair i of the first `width` elements (all D where not given) is turned by position * base^(-2 i / width), or by
    position * frequencies[i]. A pair is elements i and i + width / 2, or with `interleaved` elements 2 i and 2 i + 1.
    `positions` is what the first position is (0 where not given; an integer or a tensor without dimensions), or the
    position of each, [..., T], which broadcasts against x without its last dimension. Angles are formed in f32 (f64 for
    f64), the result has x's dtype.

    Raises ShapeError where the width is odd or larger than D, or frequencies are not width / 2.
    """
    (tensor,) = promoted_floats(x)
    if tensor.ndim < 2:
        raise ShapeError(f"rotary turns [..., positions, elements], got {tensor.type}")
    turned = tensor.shape[-1] if width is None else width
    if turned % 2 or not 0 <= turned <= tensor.shape[-1]:
        raise ShapeError(f"rotary turns pairs: a width of {turned} of {tensor.type} must be even, and not larger")
    wide = computing_dtype(tensor.dtype)
    angles = _angles(positions, tensor.shape[-2], turned // 2, base, frequencies, wide)
    cosine, sine = cos(angles), sin(angles)
    head = converted(tensor[..., :turned], wide)
    if interleaved:
        pairs = reshape(head, (*tensor.shape[:-1], turned // 2, 2))
        first, second = pairs[..., 0], pairs[..., 1]
        parts = stack([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
        result = reshape(parts, head.shape)
    else:
        first, second = head[..., : turned // 2], head[..., turned // 2 :]
        result = concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    result = converted(result, tensor.dtype)
    return result if turned == tensor.shape[-1] else concatenate([result, tensor[..., turned:]], axis=-1)


def _angles(positions: Any, length: int, pairs: int, base: float, frequencies: Any, dtype: DType) -> Tensor:
    """[..., length, pairs]: the position times the frequency of the pair."""
    if frequencies is None:
        frequencies = base ** (-np.arange(pairs) / max(pairs, 1))
    speed = converted(as_tensor(frequencies), dtype)
    if speed.shape != (pairs,):
        raise ShapeError(f"{pairs} pairs have as many frequencies, got {speed.type}")
    where = as_tensor(0 if positions is None else positions)
    if not where.shape:
        where = where + iota((length,), 0)
    return expand_dims(converted(where, dtype), -1) * speed
