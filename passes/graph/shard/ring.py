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

import numpy as np

from blu.dialects.ops.attention import AttentionPiece
from blu.dialects.ops.attention_gradient import AttentionGradient
from blu.dialects.sharding import Split
from blu.dialects.tensor.arithmetic import exp, log, maximum, where
from blu.dialects.tensor.arrangement import expand_dims
from blu.dialects.tensor.tensor import Tensor
from blu.passes.graph.shard.placed import Movement
from blu.passes.graph.shard.rotation import KINDS, packed, unpacked
from blu.passes.graph.shard.sequences import Logged, Whole, step_of


@dataclass(frozen=True)
class Sums:
    """Logarithms of sums of weights, [.., T, 1]: of each step, as its piece gave them, and of all."""

    of_steps: tuple[Tensor, ...]
    total: Tensor


@dataclass(frozen=True)
class RingAttention:
    """Attention on the parts that a rank has of queries, keys and values, split alike along their positions."""

    movement: Movement
    split: Split
    causal: bool
    scale: float
    precision: str

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Sums]:
        """The result for the queries of this rank, in their dtype."""
        found: Logged | None = None
        of_steps = []
        for step, keys, values in self._steps(query, key, value)[1]:
            operands = step.queries(query), step.keys(keys), step.keys(values), step.offset
            attributes = {"causal": step.causal, "scale": self.scale, "precision": self.precision}
            result, logarithms = AttentionPiece(*operands, **attributes)
            of_steps.append(expand_dims(logarithms, -1))
            for piece in step.results(result.astype(logarithms.dtype), of_steps[-1]):
                found = piece if found is None else _merged(found, piece)
        assert found is not None, "there is at least one rank"
        return found[0].astype(query.dtype), Sums(tuple(of_steps), found[1])

    def backward(
        self, g: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor, sums: Sums | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of this rank's queries, keys and values, in the dtype that they are computed in."""
        if sums is None:
            result, sums = self.forward(query, key, value)
        of_query: Tensor | None = None
        rotation, steps = self._steps(query, key, value)
        for (step, keys, values), logarithms in zip(steps, sums.of_steps, strict=True):
            share = exp(logarithms - _finite(step.queries(sums.total)))
            of_result = (step.queries(g).astype(share.dtype) * share).astype(g.dtype)
            operands = of_result, step.queries(query), step.keys(keys), step.keys(values), step.queries(result)
            attributes = {"causal": step.causal, "scale": self.scale, "precision": self.precision}
            shares = AttentionGradient(*operands, None, step.offset, **attributes, narrow=False)
            own = step.query_gradient(shares[0])
            of_query = own if of_query is None else of_query + own
            rotation.add(packed([step.key_gradient(item) for item in shares[1:]]))
        assert of_query is not None, "there is at least one rank"
        return of_query, *unpacked(rotation.home(), [key.shape, value.shape])

    def _steps(self, query: Tensor, key: Tensor, value: Tensor) -> tuple:
        """How data travels, and of each step who looks at what, and the keys and values that are there."""
        axis, ranks = self.split.axis, self.movement.mesh.ranks(self.split.axis)
        index = self.movement.index(axis)
        rotation = KINDS[self.movement.rotation](axis, ranks, index)

        def steps() -> Iterator[tuple[Whole, Tensor, Tensor]]:
            for number, message in enumerate(rotation.steps(packed([key, value]))):
                keys, values = unpacked(message, [key.shape, value.shape]) if number else (key, value)
                kind = {"causal": self.causal, "is_mirrored": self.split.mirrored}
                yield step_of(number, index, query.shape[-2], **kind), keys, values

        return rotation, steps()


def _merged(one: Logged, other: Logged) -> Logged:
    """Results for some keys and for others as one for both."""
    largest = _finite(maximum(one[1], other[1]))
    weights = [exp(item[1] - largest) for item in (one, other)]
    total = weights[0] + weights[1]
    divisor = where(total == 0, 1.0, total)
    result = one[0] * (weights[0] / divisor) + other[0] * (weights[1] / divisor)
    return result, largest + log(total)


def _finite(logarithms: Tensor) -> Tensor:
    """0 in place of -inf: differences to it are no NaN."""
    return where(logarithms == -np.inf, 0.0, logarithms)
