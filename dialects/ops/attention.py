"""Scaled dot-product attention, and pieces of it, with what it takes to put several of them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from blu.dialects.batching import folded
from blu.dialects.core.dtypes import FLOATS, TensorType, bool_, computing_dtype, f32, f64, i32, i64
from blu.dialects.core.op import ErrorSample, Op, Operand, OptionalOperand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.normalization import check_float
from blu.dialects.tensor.tensor import Tensor
from blu.errors import BluError, DTypeError, ShapeError

PRECISIONS = ("highest", "tf32")


class Attention(Op, name="attention"):
    """softmax(query @ key.T * scale + mask) @ value, per head.

    Shapes: query [..., Hq, Tq, D], key [..., Hkv, Tk, D], value [..., Hkv, Tk, Dv]; the result is [..., Hq, Tq, Dv].
    Hq is a multiple of Hkv: query head h attends to key head h // (Hq // Hkv).
    `mask` broadcasts to [..., Hq, Tq, Tk]: bool (True lets a key be seen), or a float that is added to the scores.
    With `causal`, key j is visible to query i where j <= i + offset. `offset` (0-d i32 or i64) is the position of the
    first query among the keys; absent, it is Tk - Tq, so that the last query sees all keys.
    A query that sees no key at all gives zeros. f16 and bf16 are computed in f32 and rounded once. With the `precision`
    "tf32", factors of products of f32 may be rounded to 10 bits of fraction, those of the gradients as well.
    """

    batch = staticmethod(folded("query", "key", "value", without="mask"))
    kernel = True
    query: Operand
    key: Operand
    value: Operand
    mask: OptionalOperand
    offset: OptionalOperand
    causal: bool
    scale: float
    precision: str

    @staticmethod
    def reference(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        mask: np.ndarray | None,
        offset: np.ndarray | None,
        causal: bool,
        scale: float,
        precision: str = "highest",
    ) -> np.ndarray:
        groups = groups_of(query.shape, key.shape)
        key, value = (np.repeat(heads, groups, axis=-3) for heads in (key, value))
        return reference_weights(query, key, mask, offset, causal, scale) @ value

    @staticmethod
    def infer(
        query: TensorType,
        key: TensorType,
        value: TensorType,
        mask: TensorType | None,
        offset: TensorType | None,
        causal: bool,
        scale: float,
        precision: str,
    ) -> TensorType:
        _check_heads(query, key, value)
        if precision not in PRECISIONS:
            raise BluError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        if mask is not None:
            _check_mask(mask, query, key)
        if offset is not None and (offset.ndim or offset.dtype not in (i32, i64)):
            raise DTypeError(f"offset must be a 0-d i32 or i64, got {offset}")
        if offset is not None and not causal:
            raise BluError("offset says where the causal mask lies, but causal is false", advice="Pass causal=True.")
        return query.with_shape((*query.shape[:-1], value.shape[-1]))

    @staticmethod
    def decompose(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        offset: Tensor | None,
        causal: bool,
        scale: float,
        precision: str,
    ) -> Tensor:
        """The plain formula with a Tq x Tk matrix of scores, for targets without an attention kernel."""
        from blu.dialects.tensor.arithmetic import matmul

        wide_dtype = computing_dtype(query.dtype)
        groups = groups_of(query.shape, key.shape)
        wide_query = split_heads(query.astype(wide_dtype), groups)
        wide_key, wide_value = (heads.astype(wide_dtype).expand_dims(-3) for heads in (key, value))
        scores = matmul(wide_query, wide_key.swapaxes(-1, -2), precision) * scale
        if scores.size:
            scores = softmax_of_visible(masked(scores, mask, offset, causal, groups))
        result = matmul(scores, wide_value, precision)
        return result.reshape((*query.shape[:-1], value.shape[-1])).astype(query.dtype)

    @staticmethod
    def vjp(
        g: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        offset: Tensor | None,
        result: Tensor,
        causal: bool,
        scale: float,
        precision: str,
    ) -> tuple[Tensor | None, ...]:
        """Three gradients by a kernel of their own; that of an added mask, where it is asked for, by all scores."""
        from blu.dialects.ops.attention_gradient import LARGEST_ROW, AttentionGradient, mask_gradient

        operands = (g, query, key, value, result, mask, offset)
        is_small = query.shape[-1] + value.shape[-1] <= LARGEST_ROW
        gradient = AttentionGradient if is_small else AttentionGradient.decompose
        shares = gradient(*operands, None, causal=causal, scale=scale, precision=precision, narrow=False)
        of_mask = None
        if mask is not None and mask.dtype.is_float:
            of_mask = mask_gradient(*operands, causal=causal, scale=scale)
        narrow = (share.astype(item.dtype) for share, item in zip(shares, (query, key, value), strict=True))
        return *narrow, of_mask, None

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in FLOATS:
            for query, key, value, causal, offset in _CASES:
                operands = (draw(rng, shape, dtype, -2, 2) for shape in (query, key, value))
                start = None if offset is None else np.array(offset, np.int64)
                yield Sample((*operands, None, start), {"causal": causal, "scale": 0.5, "precision": "highest"})
        yield from _masked_samples(rng)

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        query, key, offset = TensorType((6, 5, 8), f32), TensorType((3, 7, 8), f32), TensorType((), i64)
        plain = {"causal": True, "scale": 1.0, "precision": "highest"}
        for operands, message in (
            ((query.with_shape((5, 8)), key, key, None, None), "at least 3 dimensions"),
            (
                (query, key.with_shape((4, 7, 8)), key.with_shape((4, 7, 8)), None, None),
                "6 query heads are no multiple of 4",
            ),
            ((query, key.with_shape((3, 7, 9)), key, None, None), "same last dimension"),
            ((query, key, key.with_shape((3, 6, 8)), None, None), "same heads and length"),
            ((query, key.with_shape((1, 3, 7, 8)), key, None, None), "same leading dimensions"),
            ((query, key, key.with_dtype(f64), None, None), "one dtype"),
            ((query.with_dtype(i32), key, key, None, None), "does not take i32"),
            ((query, key, key, TensorType((5, 6), bool_), None), "does not broadcast to [6, 5, 7]"),
            ((query, key, key, TensorType((5, 7), i32), None), "the mask must be bool or f32"),
            ((query, key, key, None, offset.with_shape((1,))), "0-d i32 or i64"),
        ):
            yield ErrorSample(operands, plain, message)
        yield ErrorSample((query, key, key, None, offset), {**plain, "causal": False}, "causal is false")
        yield ErrorSample((query, key, key, None, None), {**plain, "precision": "bf16"}, "not one of highest, tf32")


class AttentionPiece(Op, name="attention_piece"):
    """Attention without a mask, and what the sum of exp(score) over the keys that each query sees is.

    Operands, attributes and the first result are attention's. The second is [..., Hq, Tq, 2], in f32 for f16 and bf16:
    the largest score divided by `unit_of(scale)`, and the logarithm of the sum of exp(score - largest score); -inf both
    where a query sees no key. Added to a large score, nothing would be left of the logarithm. Of results r1 and r2 for
    different keys, with the sums s1 and s2, that for all of them is r1 * s1 / s + r2 * s2 / s, with s = s1 + s2
    (Milakov and Gimelshein, "Online normalizer calculation for softmax").
    """

    batch = staticmethod(folded("query", "key", "value"))
    kernel = True
    deliberate: ClassVar[dict[str, str]] = {"vjp": "ranks make pieces of attention that is differentiated already"}
    query: Operand
    key: Operand
    value: Operand
    offset: OptionalOperand
    causal: bool
    scale: float
    precision: str
    num_results = 2

    @staticmethod
    def reference(
        query: np.ndarray, key: np.ndarray, value: np.ndarray, offset: np.ndarray | None,
        causal: bool, scale: float, precision: str = "highest",
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        repeated = np.repeat(key, groups_of(query.shape, key.shape), axis=-3)
        scores = reference_scores(query, repeated, None, offset, causal, scale)
        result = Attention.reference(query, key, value, None, offset, causal, scale, precision)
        largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        above = scores - np.where(largest == -np.inf, 0, largest)
        logarithms = np.logaddexp.reduce(above, axis=-1, keepdims=True, initial=-np.inf)
        return result, np.concatenate([largest / unit_of(scale), logarithms], axis=-1)

    @staticmethod
    def infer(
        query: TensorType, key: TensorType, value: TensorType, offset: TensorType | None,
        causal: bool, scale: float, precision: str,
    ) -> tuple[TensorType, TensorType]:  # fmt: skip
        result = Attention.infer(query, key, value, None, offset, causal, scale, precision)
        return result, TensorType((*query.shape[:-1], 2), computing_dtype(query.dtype))

    @staticmethod
    def decompose(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        offset: Tensor | None,
        causal: bool,
        scale: float,
        precision: str,
    ) -> tuple[Tensor, Tensor]:
        """The plain formula with a Tq x Tk matrix of scores, for targets without a kernel."""
        from blu.dialects.tensor.arithmetic import log, matmul, where
        from blu.dialects.tensor.arrangement import broadcast_to, concatenate
        from blu.dialects.tensor.promotion import as_tensor

        wide_dtype, unit = computing_dtype(query.dtype), unit_of(scale)
        groups = groups_of(query.shape, key.shape)
        wide_query = split_heads(query.astype(wide_dtype), groups)
        wide_key, wide_value = (heads.astype(wide_dtype).expand_dims(-3) for heads in (key, value))
        scores = matmul(wide_query, wide_key.swapaxes(-1, -2), precision) * (scale / unit)
        sums = broadcast_to(as_tensor(-np.inf, wide_dtype), (*query.shape[:-1], 2))
        if scores.size:
            largest, scores, total = exponentials(masked(scores, None, offset, causal, groups), unit)
            largest = where(total == 0, -np.inf, largest)
            sums = concatenate([largest, log(total)], axis=-1).reshape(*query.shape[:-1], 2)
            scores = scores / where(total == 0, 1.0, total)
        result = matmul(scores, wide_value, precision).reshape((*query.shape[:-1], value.shape[-1]))
        return result.astype(query.dtype), sums

    @staticmethod
    def samples() -> Iterator[Sample]:
        for sample in Attention.samples():
            query, key, value, mask, offset = sample.operands
            if mask is None:
                yield Sample((query, key, value, offset), sample.attributes)

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        query, key = TensorType((6, 5, 8), f32), TensorType((3, 7, 8), f32)
        attributes = {"causal": False, "scale": 1.0, "precision": "highest"}
        wrong, offset = key.with_shape((4, 7, 8)), TensorType((), i64)
        yield ErrorSample((query, wrong, wrong, None), attributes, "no multiple of 4")
        yield ErrorSample((query, key, key, offset), attributes, "causal is false")


def unit_of(scale: float) -> float:
    """What the largest scores of attention_piece are given in: they are larger products, or smaller ones, by that."""
    return abs(scale) or 1.0


def groups_of(query: Sequence[int], key: Sequence[int]) -> int:
    """Query heads per key head, from the shapes of queries and keys."""
    return query[-3] // key[-3] if key[-3] else 1


def reference_weights(
    query: np.ndarray,
    key: np.ndarray,
    mask: np.ndarray | None,
    offset: np.ndarray | None,
    causal: bool,
    scale: float,
) -> np.ndarray:
    """The softmax of the scores [..., Hq, Tq, Tk]; `key` has as many heads as `query`."""
    scores = reference_scores(query, key, mask, offset, causal, scale)
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(largest == -np.inf, 0, largest))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def reference_scores(
    query: np.ndarray,
    key: np.ndarray,
    mask: np.ndarray | None,
    offset: np.ndarray | None,
    causal: bool,
    scale: float,
) -> np.ndarray:
    """The scores [..., Hq, Tq, Tk], -inf for keys that are hidden; `key` has as many heads as `query`."""
    scores = query @ np.swapaxes(key, -1, -2) * scale
    visible = np.ones(scores.shape, np.bool_)
    if causal:
        rows, columns = np.arange(scores.shape[-2])[:, None], np.arange(scores.shape[-1])
        first = scores.shape[-1] - scores.shape[-2] if offset is None else int(offset)
        visible &= columns <= rows + first
    if mask is not None and mask.dtype == np.bool_:
        visible &= mask
    elif mask is not None:
        scores = scores + mask
    return np.where(visible, scores, -np.inf)


def _check_heads(query: TensorType, key: TensorType, value: TensorType) -> None:
    check_float(query)
    if not query.dtype == key.dtype == value.dtype:
        raise DTypeError(f"query, key and value must have one dtype, got {query}, {key} and {value}")
    if min(query.ndim, key.ndim, value.ndim) < 3:
        raise ShapeError(
            f"query, key and value need at least 3 dimensions (heads, length, width), got {query}, {key}, {value}"
        )
    if not query.shape[:-3] == key.shape[:-3] == value.shape[:-3]:
        raise ShapeError(f"query, key and value must have the same leading dimensions, got {query}, {key} and {value}")
    if key.shape[:-1] != value.shape[:-1]:
        raise ShapeError(f"key and value must have the same heads and length, got {key} and {value}")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"query and key must have the same last dimension, got {query} and {key}")
    if query.shape[-3] % key.shape[-3] if key.shape[-3] else query.shape[-3]:
        raise ShapeError(f"{query.shape[-3]} query heads are no multiple of {key.shape[-3]} key heads")


def _check_mask(mask: TensorType, query: TensorType, key: TensorType) -> None:
    scores = (*query.shape[:-1], key.shape[-2])
    tail = scores[len(scores) - mask.ndim :] if mask.ndim <= len(scores) else None
    if tail is None or any(size not in (1, full) for size, full in zip(mask.shape, tail, strict=True)):
        raise ShapeError(f"the mask {mask} does not broadcast to {list(scores)}")
    if mask.dtype not in (bool_, f32, query.dtype):
        raise DTypeError(f"the mask must be bool or f32 or of the query's dtype {query.dtype}, got {mask}")


def split_heads(tensor: Tensor, groups: int) -> Tensor:
    """[..., Hq, T, X] as [..., Hkv, groups, T, X]; a head dimension of size 1 (a mask's) stays two of size 1."""
    heads = tensor.shape[-3]
    parts = (heads // groups, groups) if heads != 1 else (1, 1)
    return tensor.reshape((*tensor.shape[:-3], *parts, *tensor.shape[-2:]))


def softmax_of_visible(scores: Tensor) -> Tensor:
    """The softmax along the last dimension; zeros where all scores are -inf."""
    from blu.dialects.tensor.arithmetic import where

    _, weights, total = exponentials(scores)
    return weights / where(total == 0, 1.0, total)


def exponentials(scores: Tensor, unit: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """The largest of the last dimension (0 where all are -inf), exp((score - largest) * unit), and the sum of these."""
    from blu.dialects.tensor.arithmetic import where

    largest = scores.max(axis=-1, keepdims=True)
    largest = where(largest == -np.inf, 0.0, largest)
    above = scores - largest
    weights = (above * unit if unit != 1 else above).exp()
    return largest, weights, weights.sum(axis=-1, keepdims=True)


def masked(scores: Tensor, mask: Tensor | None, offset: Tensor | None, causal: bool, groups: int) -> Tensor:
    """The scores [..., Hkv, groups, Tq, Tk] with both masks applied."""
    from blu.dialects.tensor.arithmetic import where

    if mask is not None:
        full: Tensor = mask.reshape((1,) * (3 - mask.ndim) + mask.shape)
        full = split_heads(full, groups)
        scores = where(full, scores, -np.inf) if full.dtype == bool_ else scores + full.astype(scores.dtype)
    if not causal:
        return scores
    return where(_causal_mask(scores.shape[-2], scores.shape[-1], offset), scores, -np.inf)


def _causal_mask(rows: int, columns: int, offset: Tensor | None) -> Tensor:
    """bool [rows, columns]: whether column <= row + offset, which is cut to where it makes a difference."""
    from blu.dialects.ops.creation import Iota
    from blu.dialects.tensor.arithmetic import clip

    dtype = i32 if offset is None else offset.dtype
    row = Iota(shape=(rows, 1), axis=0, dtype=dtype)
    column = Iota(shape=(1, columns), axis=1, dtype=dtype)
    return column <= row + (columns - rows if offset is None else clip(offset, -rows, columns))


_CASES = [
    ((1, 1, 1), (1, 1, 1), (1, 1, 1), False, None),
    ((2, 5, 8), (2, 5, 8), (2, 5, 8), True, None),
    ((2, 4, 3, 8), (2, 2, 9, 8), (2, 2, 9, 5), True, None),
    ((4, 3, 8), (1, 9, 8), (1, 9, 8), True, 2),
    ((2, 1, 8), (2, 9, 8), (2, 9, 8), True, 6),
    ((2, 7, 8), (2, 4, 8), (2, 4, 8), True, None),
    ((2, 3, 8), (2, 17, 8), (2, 17, 8), False, None),
    ((2, 3, 8), (2, 5, 8), (2, 5, 8), True, -2),
    ((0, 2, 3, 8), (0, 1, 3, 8), (0, 1, 3, 8), True, None),
    ((2, 3, 4), (2, 0, 4), (2, 0, 4), False, None),
]


def _masked_samples(rng: np.random.Generator) -> Iterator[Sample]:
    query, key, value = (draw(rng, (2, heads, 3, 8), f32, -2, 2) for heads in (4, 2, 2))
    flags = rng.integers(0, 2, (2, 4, 3, 3)).astype(np.bool_)
    flags[0, 1, 2] = False
    hidden = np.where(rng.integers(0, 2, (3, 3)), 0, -np.inf).astype(np.float32)
    for mask in (flags, flags[:, :1, :1], flags[0, :, :, :1], hidden, draw(rng, (4, 1, 1), f32), np.array(True)):
        for causal in (False, True):
            yield Sample((query, key, value, mask, None), {"causal": causal, "scale": 1.0, "precision": "highest"})
