"""When the ops of a host function run: one after the other, except the calls of a batch, which run together."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.plan import batch_of


@dataclass(frozen=True)
class LifeSpan:
    """The first and the last of the numbers of ops that run together."""

    first: int
    last: int


def spans(operations: Sequence[ir.Operation]) -> dict[ir.Operation, LifeSpan]:
    """For each op its number, twice, or for a call in a batch the numbers of the batch's first and last call."""
    batches: dict[int, LifeSpan] = {}
    for number, operation in enumerate(operations):
        if (batch := batch_of(operation)) is not None:
            batches[batch] = LifeSpan(batches[batch].first if batch in batches else number, number)
    found = {}
    for number, operation in enumerate(operations):
        batch = batch_of(operation)
        found[operation] = LifeSpan(number, number) if batch is None else batches[batch]
    return found
