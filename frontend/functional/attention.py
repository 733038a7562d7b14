"""Attention: one kernel where all weights count, the matrix of weights where some are dropped."""

from __future__ import annotations

import math
from typing import Any

from blu.dialects.core.dtypes import computing_dtype
from blu.dialects.ops.attention import Attention, groups_of, masked, softmax_of_visible, split_heads
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.arithmetic import matmul
from blu.dialects.tensor.arrangement import broadcast_to
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError
from blu.frontend.functional.neural import dropout as dropped

__all__ = ["attention"]


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
    dimensions before those broadcast.
    `mask` broadcasts to [..., Hq, Tq, Tk]: bool (True lets a key be seen), or a float that is added to the scores.
    With `causal`, key j is visible to query i where j <= i + offset; `offset` (an integer or 0-d tensor, the position
    of the first query among the keys) is Tk - Tq where it is not given. `scale` is 1 / sqrt(D) where it is not given.
    A query that sees no key gives zeros. With the `precision` "tf32", factors of products of f32 may be rounded to 10
    bits of fraction, as in `matmul`, and those of the gradients as well.

    With `dropout`, each weight of the softmax is 0 with that probability and else divided by 1 - dropout, as drawn with
    the `dropout_key` (of `blu.random`). That takes the matrix of weights [..., Hq, Tq, Tk] in memory.
    """
    if not 0 <= dropout <= 1:
        raise ArgumentError(f"dropout is a probability, from 0 to 1, not {dropout!r}")
    if dropout and dropout_key is None:
        raise ArgumentError("dropout needs a dropout_key to draw with", advice="Pass dropout_key=blu.random.key(0).")
    tensors = _with_one_lead(promoted_floats(query, key, value))
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
    if not dropout:
        return whole
    weights = dropped(_weights(queries, keys, shown, start, causal, factor, precision), dropout, dropout_key)
    result = matmul(weights, converted(values, weights.dtype).expand_dims(-3), precision)
    return converted(result.reshape(whole.shape), whole.dtype)


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
