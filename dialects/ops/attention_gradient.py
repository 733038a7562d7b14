"""The gradient of scaled dot-product attention, as an op so that a kernel may form it without all scores in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blu.dialects.batching import in_turn
from blu.dialects.core.dtypes import TensorType, computing_dtype, f32
from blu.dialects.core.op import ErrorSample, Op, Operand, OptionalOperand, Sample
from blu.dialects.ops.attention import Attention, groups_of, masked, reference_weights, softmax_of_visible, split_heads
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError

# The gradient of heads with more elements than this, query and value together, is written as the plain formula: a
# kernel keeps some of their rows on its stack.
LARGEST_ROW = 1024


class AttentionGradient(Op, name="attention_gradient"):
    """The gradients of attention with respect to query, key and value, for the gradient `g` of its `result`.

    The other operands and attributes are attention's. The gradients have the shapes of query, key and value, and are in
    f32 for f16 and bf16, since those of keys and values are sums over many queries; rounded to those if `narrow`.
    `sums` [..., Hq, Tq, 2], if given, are those of attention_piece for the same operands: a kernel may take them
    instead of finding them again.
    """

    batch = staticmethod(in_turn)

    kernel = True
    g: Operand
    query: Operand
    key: Operand
    value: Operand
    result: Operand
    mask: OptionalOperand
    offset: OptionalOperand
    sums: OptionalOperand
    causal: bool
    scale: float
    precision: str
    narrow: bool
    num_results = 3

    @staticmethod
    def reference(
        g: np.ndarray,
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        result: np.ndarray,
        mask: np.ndarray | None,
        offset: np.ndarray | None,
        sums: np.ndarray | None,
        causal: bool,
        scale: float,
        precision: str = "highest",
        narrow: bool = False,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        groups = groups_of(query.shape, key.shape)
        keys, values = (np.repeat(heads, groups, axis=-3) for heads in (key, value))
        weights = reference_weights(query, keys, mask, offset, causal, scale)
        inner = (g * result).sum(axis=-1, keepdims=True)
        of_scores = weights * (g @ np.swapaxes(values, -1, -2) - inner)
        of_key = np.swapaxes(of_scores, -1, -2) @ query * scale
        of_value = np.swapaxes(weights, -1, -2) @ g
        of_key, of_value = (
            heads.reshape((*key.shape[:-2], groups, *heads.shape[-2:])).sum(axis=-3) for heads in (of_key, of_value)
        )
        return of_scores @ keys * scale, of_key, of_value

    @staticmethod
    def infer(
        g: TensorType,
        query: TensorType,
        key: TensorType,
        value: TensorType,
        result: TensorType,
        mask: TensorType | None,
        offset: TensorType | None,
        sums: TensorType | None,
        causal: bool,
        scale: float,
        precision: str,
        narrow: bool,
    ) -> tuple[TensorType, TensorType, TensorType]:
        expected = Attention.infer(query, key, value, mask, offset, causal, scale, precision)
        for name, type_ in (("g", g), ("result", result)):
            if type_ != expected:
                raise ShapeError(f"{name} must be {expected} as attention gives, got {type_}")
        of_rows = TensorType((*query.shape[:-1], 2), computing_dtype(query.dtype))
        if sums not in (None, of_rows):
            raise ShapeError(f"sums must be {of_rows} as attention_piece gives, got {sums}")
        dtype = query.dtype if narrow else computing_dtype(query.dtype)
        of_query, of_key, of_value = (item.with_dtype(dtype) for item in (query, key, value))
        return of_query, of_key, of_value

    @staticmethod
    def decompose(
        g: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        result: Tensor,
        mask: Tensor | None,
        offset: Tensor | None,
        sums: Tensor | None,
        causal: bool,
        scale: float,
        precision: str,
        narrow: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The plain formula with two Tq x Tk matrices, for targets without a kernel."""
        from blu.dialects.tensor.arithmetic import matmul

        dtype, groups = computing_dtype(query.dtype), groups_of(query.shape, key.shape)
        wide_g, wide_query = (split_heads(item.astype(dtype), groups) for item in (g, query))
        weights, of_scores = _scores(g, query, key, value, result, mask, offset, causal, scale, precision)
        of_query = matmul(of_scores, key.astype(dtype).expand_dims(-3), precision) * scale
        of_key = (matmul(of_scores.swapaxes(-1, -2), wide_query, precision) * scale).sum(axis=-3)
        of_value = matmul(weights.swapaxes(-1, -2), wide_g, precision).sum(axis=-3)
        given = query.dtype if narrow else dtype
        return of_query.reshape(query.shape).astype(given), of_key.astype(given), of_value.astype(given)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for sample in Attention.samples():
            query, key, value, mask, offset = sample.operands
            q, k, v = (item.astype(np.float64) for item in (query, key, value))
            result = Attention.reference(q, k, v, mask, offset, **sample.attributes)
            g = rng.uniform(-2, 2, result.shape)
            operands = (g.astype(query.dtype), query, key, value, result.astype(query.dtype), mask, offset, None)
            yield Sample(operands, {**sample.attributes, "narrow": False})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        query, key = TensorType((6, 5, 8), f32), TensorType((3, 7, 8), f32)
        attributes = {"causal": True, "scale": 1.0, "precision": "highest", "narrow": False}
        short, nothing = query.with_shape((6, 5, 7)), (None, None, None)
        yield ErrorSample((short, query, key, key, query, *nothing), attributes, "g must be")
        yield ErrorSample((query, query, key, key, key, *nothing), attributes, "result must be")
        yield ErrorSample((query, query, key, key, query, None, None, query), attributes, "sums must be")
        wrong = key.with_shape((4, 7, 8))
        yield ErrorSample((query, query, wrong, wrong, query, *nothing), attributes, "no multiple of 4")


def _scores(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    result: Tensor,
    mask: Tensor | None,
    offset: Tensor | None,
    causal: bool,
    scale: float,
    precision: str = "highest",
) -> tuple[Tensor, Tensor]:
    """The weights [..., Hkv, groups, Tq, Tk], and the gradient of what is left of the softmax (scaled and masked)."""
    from blu.dialects.tensor.arithmetic import matmul

    dtype, groups = computing_dtype(query.dtype), groups_of(query.shape, key.shape)
    wide_g, wide_query, wide_result = (split_heads(item.astype(dtype), groups) for item in (g, query, result))
    wide_key, wide_value = (item.astype(dtype).expand_dims(-3) for item in (key, value))
    scores = matmul(wide_query, wide_key.swapaxes(-1, -2), precision) * scale
    if not scores.size:
        return scores, scores
    weights = softmax_of_visible(masked(scores, mask, offset, causal, groups))
    inner = (wide_g * wide_result).sum(axis=-1, keepdims=True)
    return weights, weights * (matmul(wide_g, wide_value.swapaxes(-1, -2), precision) - inner)


def mask_gradient(*operands: Tensor | None, causal: bool, scale: float) -> Tensor:
    """The gradient [..., Hq, Tq, Tk] of a mask that is added to the scores, before it is summed to the mask's shape."""
    _, query, key, _, _, mask, _ = operands
    assert query is not None and key is not None and mask is not None
    _, of_scores = _scores(*operands, causal=causal, scale=scale)  # type: ignore[arg-type]
    return of_scores.reshape((*query.shape[:-1], key.shape[-2])).astype(mask.dtype)
