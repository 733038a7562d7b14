"""Attention of ranks that have parts of a sequence each: keys and values travel, results are put together.

    %message = concatenate(%k, %v)
    %next = "blu.permute"(%message) {shift = 1}               keys and values of the rank before, while
    %0:2 = "blu.attention_piece"(%q, %k, %v) {causal = true}  this rank is at its own
    %1:2 = "blu.attention_piece"(%q, %next..)                 and so on
    .. = (%0#0 * exp(%0#1 - %s) + %1#0 * exp(%1#1 - %s))      %s = log(exp(%0#1) + exp(%1#1))

(Liu, Zaharia and Abbeel, "Ring attention with blockwise transformers"). The gradient does the same steps. With weights
P of a piece by its own sums, those of the whole are P * c, with c = exp(%0#1 - %s) for each query, so that the gradient
of a piece is that of attention for the gradient g * c and the result of the whole: what it takes of both is sums of
g * c * result, and products of P with g * c. Gradients of keys and values travel with these, and one step further home.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from blu.dialects.ops.attention import AttentionPiece
from blu.dialects.ops.attention_gradient import AttentionGradient
from blu.dialects.ops.identity import Barrier
from blu.dialects.sharding import Split
from blu.dialects.tensor.arithmetic import exp, log, maximum, where
from blu.dialects.tensor.arrangement import expand_dims
from blu.dialects.tensor.tensor import Tensor
from blu.passes.graph.shard.placed import Movement
from blu.passes.graph.shard.rotation import KINDS, packed, unpacked
from blu.passes.graph.shard.sequences import Block, Rows, blocks_of, joined

Logged = tuple[Tensor, Tensor]
"""A result [.., T, Dv], and logarithms of sums of weights [.., T, 1]."""


@dataclass(frozen=True)
class Sums:
    """Logarithms of sums of weights, [.., T, 1]: of each block, as its piece gave them, and of all."""

    of_blocks: tuple[Tensor, ...]
    total: Rows


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

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Sums]:
        """The result for the queries of this rank, in their dtype."""
        queries, of_blocks = Rows.of(query, self.parts), []
        found: list[Logged | None] = [None] * self.parts
        for block, keys, values in self._blocks(self._rotation(), query, key, value):
            operands = (block.queries.take(queries), block.keys.take(keys), block.keys.take(values))
            result, logarithms = AttentionPiece(*operands, block.offset, **self._attributes(block))
            of_blocks.append(expand_dims(logarithms, -1))
            results = block.queries.give(result.astype(logarithms.dtype), self.parts)
            shown = block.queries.give(of_blocks[-1], self.parts, nothing=-np.inf)
            for (part, rows), (_, sums) in zip(results, shown, strict=True):
                found[part] = _merged(found[part], (rows, sums))
        done = [item for item in found if item is not None]
        totals = tuple(sums for _, sums in done)
        result = joined([rows.astype(query.dtype) for rows, _ in done])
        return result, Sums(tuple(of_blocks), Rows(joined(totals), totals))

    def backward(
        self, g: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, sums: Sums | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of this rank's queries, keys and values, in the dtype that they are computed in."""
        if sums is None:
            result, sums = self.forward(query, key, value)
        queries, results, given = (Rows.of(item, self.parts) for item in (query, result, g))
        rotation, of_query = self._rotation(), _Total(self.parts)
        of_step = _Total(2 * self.parts)
        numbers = iter(range(len(sums.of_blocks)))
        for block, keys, values in self._blocks(rotation, query, key, value, of_step):
            logarithms = sums.of_blocks[next(numbers)]
            share = exp(logarithms - _finite(block.queries.take(sums.total)))
            of_result = (block.queries.take(given).astype(share.dtype) * share).astype(g.dtype)
            seen = block.queries.take(queries), block.keys.take(keys), block.keys.take(values)
            others = block.queries.take(results), None, block.offset
            shares = AttentionGradient(of_result, *seen, *others, **self._attributes(block), narrow=False)
            of_query.add(block.queries.give(shares[0], self.parts, nothing=0))
            for at, share in enumerate(shares[1:]):
                given_back = block.keys.give(share, self.parts, nothing=0)
                of_step.add([(at * self.parts + part, rows) for part, rows in given_back])
        home = unpacked(rotation.home(), self._halves(key, value))
        return joined(of_query.parts), joined(home[: self.parts]), joined(home[self.parts :])

    def _attributes(self, block: Block) -> dict[str, Any]:
        return {"causal": block.causal, "scale": self.scale, "precision": self.precision}

    def _rotation(self) -> Any:
        axis = self.split.axis
        return KINDS[self.movement.rotation](axis, self.movement.mesh.ranks(axis), self.movement.index(axis))

    def _halves(self, *tensors: Tensor) -> list[tuple[int, ...]]:
        """The shapes of the parts of tensors."""
        shapes = [(*item.shape[:-2], item.shape[-2] // self.parts, item.shape[-1]) for item in tensors]
        return [shape for shape in shapes for _ in range(self.parts)]

    def _blocks(
        self, rotation: Any, query: Tensor, key: Tensor, value: Tensor, of_step: _Total | None = None
    ) -> Iterator[tuple[Block, Rows, Rows]]:
        """All blocks, with the keys and values that are there; what each step has found for them is sent on."""
        own = Rows.of(key, self.parts), Rows.of(value, self.parts)
        sent = [*own[0].parts, *own[1].parts]
        if of_step is not None:  # the message of the forward is not kept for the backward
            sent = [Barrier(item) for item in sent]
        index, shapes = self.movement.index(self.split.axis), self._halves(key, value)
        kind = {"causal": self.causal, "is_mirrored": self.split.mirrored}
        for step, message in enumerate(rotation.steps(packed(sent))):
            keys, values = self._rows(unpacked(message, shapes)) if step else own
            for block in blocks_of(step, index, query.shape[-2], **kind):
                yield block, keys, values
            if of_step is not None:
                rotation.add(packed(of_step.taken()))

    def _rows(self, parts: list[Tensor]) -> tuple[Rows, Rows]:
        """Keys and values of another rank; blocks of these never take several parts at once."""
        keys, values = tuple(parts[: self.parts]), tuple(parts[self.parts :])
        return Rows(keys[0], keys), Rows(values[0], values)


class _Total:
    """Sums of parts."""

    def __init__(self, count: int):
        self._count = count
        self._found: list[Tensor | None] = [None] * count

    def add(self, parts: list[tuple[int, Tensor]]) -> None:
        """Add what was found for some of them."""
        for part, rows in parts:
            before = self._found[part]
            self._found[part] = rows if before is None else before + rows

    @property
    def parts(self) -> list[Tensor]:
        """All sums. In each step something is found for each part."""
        found = [item for item in self._found if item is not None]
        assert len(found) == self._count, "nothing was found for a part"
        return found

    def taken(self) -> list[Tensor]:
        """All sums, which are begun anew."""
        parts, self._found = self.parts, [None] * self._count
        return parts


def _merged(one: Logged | None, other: Logged) -> Logged:
    """Results for some keys and for others as one for both."""
    if one is None:
        return other
    largest = _finite(maximum(one[1], other[1]))
    weights = [exp(item[1] - largest) for item in (one, other)]
    total = weights[0] + weights[1]
    divisor = where(total == 0, 1.0, total)
    result = one[0] * (weights[0] / divisor) + other[0] * (weights[1] / divisor)
    return result, largest + log(total)


def _finite(logarithms: Tensor) -> Tensor:
    """0 in place of -inf: differences to it are no NaN."""
    return where(logarithms == -np.inf, 0.0, logarithms)
