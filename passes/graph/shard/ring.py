"""Attention of ranks that have parts of a sequence each: keys and values travel, results are put together.

    %message = concatenate(%k, %v)
    %next = "blu.permute"(%message) {shift = 1}               keys and values of the rank before, while
    %0:2 = "blu.attention_piece"(%q, %k, %v) {causal = true}  this rank is at its own
    %1:2 = "blu.attention_piece"(%q, %next..)                 and so on
    .. = %0#0 * s0 / s + %1#0 * s1 / s                        of sums of weights s0 and s1, and s = s0 + s1

(Liu, Zaharia and Abbeel, "Ring attention with blockwise transformers"). The gradient does the same steps. With weights
P of a piece by its own sums, those of the whole are P * c, with c = s0 / s for each query, so that the gradient of a
piece is that of attention for the gradient g * c and the result of the whole: what it takes of both is sums of
g * c * result, and products of P with g * c. Gradients of keys and values travel with these, and one step further home.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.ops.attention import AttentionPiece, unit_of
from blu.dialects.ops.attention_gradient import AttentionGradient
from blu.dialects.ops.identity import Barrier
from blu.dialects.sharding import Split
from blu.dialects.tensor.arithmetic import exp, log, maximum, where
from blu.dialects.tensor.arrangement import concatenate
from blu.dialects.tensor.tensor import Tensor
from blu.passes.graph.shard.placed import Movement
from blu.passes.graph.shard.rotation import KINDS, packed, unpacked
from blu.passes.graph.shard.sequences import Choice, ScoreBlock, SequenceRows, blocks_of, joined, split

Logged = tuple[Tensor, Tensor]
"""A result [.., T, Dv], and sums of weights as attention_piece has them [.., T, 2]."""


@dataclass(frozen=True)
class BlockSums:
    """Sums of weights, [.., T, 2]: of each block, as its piece gave them, and of all."""

    of_blocks: tuple[Tensor, ...]
    total: SequenceRows


@dataclass(frozen=True)
class RingAttention:
    """Attention on the parts that a rank has of queries, keys and values, split alike along their positions."""

    movement: Movement
    split: Split
    causal: bool
    scale: float
    precision: str

    @property
    def parts(self) -> int:
        """Of the sequence, those that a rank has."""
        return 2 if self.causal and self.split.mirrored else 1

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, BlockSums]:
        """The result for the queries of this rank, in their dtype."""
        queries, of_blocks = SequenceRows.of(query, self.parts), []
        found: list[Logged | None] = [None] * self.parts
        for block, keys, values in self._blocks(self._rotation(), query, key, value):
            operands = (block.queries.take(queries), block.keys.take(keys), block.keys.take(values))
            result, sums = AttentionPiece(*operands, block.offset, **self._attributes(block))
            of_blocks.append(sums)
            results = block.queries.give(result.astype(sums.dtype), self.parts)
            shown = block.queries.give(sums, self.parts, nothing=-np.inf)
            for (part, rows), (_, own) in zip(results, shown, strict=True):
                found[part] = _merged(found[part], (rows, own), unit_of(self.scale))
        done = [item for item in found if item is not None]
        totals = tuple(sums for _, sums in done)
        result = joined([rows.astype(query.dtype) for rows, _ in done])
        return result, BlockSums(tuple(of_blocks), SequenceRows(joined(totals), totals))

    def backward(
        self, g: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, sums: BlockSums | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of this rank's queries, keys and values, in the dtype that they are computed in."""
        if sums is None:
            result, sums = self.forward(query, key, value)
        queries, results, given = (SequenceRows.of(item, self.parts) for item in (query, result, g))
        rotation, of_query = self._rotation(), _Total(self.parts)
        of_keys = _Total(self.parts), _Total(self.parts)
        numbers = iter(range(len(sums.of_blocks)))
        for block, keys, values in self._blocks(rotation, query, key, value, of_keys):
            share = _share(sums.of_blocks[next(numbers)], block.queries.take(sums.total), unit_of(self.scale))
            of_result = (block.queries.take(given).astype(share.dtype) * share).astype(g.dtype)
            seen = block.queries.take(queries), block.keys.take(keys), block.keys.take(values)
            others = block.queries.take(results), None, block.offset, None
            shares = AttentionGradient(of_result, *seen, *others, **self._attributes(block), narrow=False)
            of_query.add(shares[0], block.queries)
            for total, found in zip(of_keys, shares[1:], strict=True):
                total.add(found, block.keys)
        of_key, of_value = unpacked(rotation.home(), [key.shape, value.shape])
        return of_query.taken(), of_key, of_value

    def _attributes(self, block: ScoreBlock) -> dict[str, Any]:
        return {"causal": block.causal, "scale": self.scale, "precision": self.precision}

    def _rotation(self) -> Any:
        axis = self.split.axis
        return KINDS[self.movement.rotation](axis, self.movement.mesh.ranks(axis), self.movement.index(axis))

    def _blocks(
        self, rotation: Any, query: Tensor, key: Tensor, value: Tensor, of_keys: tuple[_Total, ...] = ()
    ) -> Iterator[tuple[ScoreBlock, SequenceRows, SequenceRows]]:
        """All blocks, with the keys and values that are there; what each step has found for them is sent on."""
        own = [key, value]
        sent = [Barrier(item) for item in own] if of_keys else own  # the forward's message is not kept for the backward
        index = self.movement.index(self.split.axis)
        kind = {"causal": self.causal, "is_mirrored": self.split.mirrored}
        for step, message in enumerate(rotation.steps(packed(sent))):
            there = unpacked(message, [key.shape, value.shape]) if step else own
            keys, values = (SequenceRows.of(item, self.parts) for item in there)
            for block in blocks_of(step, index, query.shape[-2], **kind):
                yield block, keys, values
            if of_keys:
                rotation.add(packed([total.taken() for total in of_keys]))


class _Total:
    """Sums of rows, whole as long as nothing was found for a part alone."""

    def __init__(self, count: int):
        self._count = count
        self._whole: Tensor | None = None
        self._parts: list[Tensor | None] = [None] * count

    def add(self, rows: Tensor, choice: Choice) -> None:
        """Add what was found for the rows of a block."""
        if choice.part is None and all(item is None for item in self._parts):
            self._whole = rows if self._whole is None else self._whole + rows
            return
        for part, found in choice.give(rows, self._count, nothing=0):
            before = self._parts[part]
            self._parts[part] = found if before is None else before + found

    def taken(self) -> Tensor:
        """The sums of all rows, which are begun anew. In each step something is found for each part."""
        whole, parts = self._whole, [item for item in self._parts if item is not None]
        self._whole, self._parts = None, [None] * self._count
        if not parts:
            assert whole is not None, "nothing was found"
            return whole
        assert len(parts) == self._count, "nothing was found for a part"
        if whole is not None:
            parts = [one + other for one, other in zip(split(whole, self._count), parts, strict=True)]
        return joined(parts)


def _merged(one: Logged | None, other: Logged, unit: float) -> Logged:
    """Results for some keys and for others as one for both."""
    if one is None:
        return other
    largest = maximum(_largest(one[1]), _largest(other[1]))
    weights = [exp(_above(sums, largest, unit)) for _, sums in (one, other)]
    total = weights[0] + weights[1]
    divisor = where(total == 0, 1.0, total)
    result = one[0] * (weights[0] / divisor) + other[0] * (weights[1] / divisor)
    return result, concatenate([largest, log(total)], axis=-1)


def _share(sums: Tensor, total: Tensor, unit: float) -> Tensor:
    """Which share of all weights those of some keys are, [.., T, 1]."""
    return exp(_above(sums, _largest(total), unit) - _finite(total[..., 1:]))


def _above(sums: Tensor, largest: Tensor, unit: float) -> Tensor:
    """The logarithm of sums of weights, of scores less a larger one."""
    return (_largest(sums) - _finite(largest)) * unit + sums[..., 1:]


def _largest(sums: Tensor) -> Tensor:
    return sums[..., :1]


def _finite(numbers: Tensor) -> Tensor:
    """0 in place of -inf: differences to it are no NaN."""
    return where(numbers == -np.inf, 0.0, numbers)
