"""How keys and values come from the rank that has them to all others, and their gradients back.

All ranks of an axis do step 0, 1, .. at the same time. In step j a rank has what is of the rank j before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import i32, product
from blu.dialects.ops.collective import AllGather, AllToAll, Permute, ReduceScatter
from blu.dialects.ops.indexing import DynamicSlice, Take
from blu.dialects.sharding import ALL_GATHER, ALL_TO_ALL, PERMUTE
from blu.dialects.tensor.arithmetic import where
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, reshape
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor


def packed(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of several tensors in one message."""
    return concatenate([reshape(item, (product(item.shape),)) for item in tensors])


def unpacked(message: Tensor, shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    """The tensors of a message."""
    found, start = [], 0
    for shape in shapes:
        size = product(shape)
        found.append(reshape(message[start : start + size], tuple(shape)))
        start += size
    return found


@dataclass
class RoundRobin:
    """Each rank gives what it got to the next one: as many exchanges as there are other ranks, and one more back.

    What is sent on is begun before a piece is computed, and needed after it.
    """

    axis: str
    ranks: int
    index: Tensor
    _total: Tensor | None = None

    def steps(self, own: Tensor) -> Iterator[Tensor]:
        """The message of each step."""
        message = own
        for step in range(self.ranks):
            following = self._sent_on(message) if step + 1 < self.ranks else message
            yield message
            message = following

    def add(self, gradient: Tensor) -> None:
        """What a step has found for the message it had: added to what travels with that."""
        self._total = gradient if self._total is None else self._sent_on(self._total) + gradient

    def home(self) -> Tensor:
        """All that was found for what this rank has."""
        assert self._total is not None, "no step has found anything"
        return self._sent_on(self._total)

    def _sent_on(self, message: Tensor) -> Tensor:
        return Permute(message, axis=self.axis, ranks=self.ranks, shift=1)


@dataclass
class AtOnce:
    """All ranks get all there is in one exchange, and give what they found for others in another."""

    axis: str
    ranks: int
    index: Tensor
    _found: list[Tensor] = field(default_factory=list)

    def steps(self, own: Tensor) -> Iterator[Tensor]:
        """The message of each step."""
        yield own
        messages = self._all_of(reshape(own, (1, *own.shape)))
        for step in range(1, self.ranks):
            start = [self._rank_before(step), as_tensor(0, i32)]
            yield reshape(DynamicSlice(messages, start, sizes=(1, *own.shape)), own.shape)

    def add(self, gradient: Tensor) -> None:
        """What a step has found for the message it had."""
        self._found.append(gradient)

    def home(self) -> Tensor:
        """All that was found for what this rank has."""
        order = concatenate([reshape(self._rank_before(rank), (1,)) for rank in range(self.ranks)])
        rows = concatenate([reshape(item, (1, *item.shape)) for item in self._found])
        return self._sum_of(Take(rows, order, axis=0))

    def _all_of(self, row: Tensor) -> Tensor:
        return AllGather(row, axis=self.axis, ranks=self.ranks)

    def _sum_of(self, rows: Tensor) -> Tensor:
        total = ReduceScatter(rows, axis=self.axis, ranks=self.ranks, reduction="sum")
        return reshape(total, rows.shape[1:])

    def _rank_before(self, step: int) -> Tensor:
        """The rank some steps before this one. It is its own inverse: that rank's message comes in that step."""
        return where(self.index >= step, self.index - step, self.index + (self.ranks - step))


class AllPairs(AtOnce):
    """The same by exchanges of parts between all pairs of ranks; gradients are added up by the rank they belong to."""

    def _all_of(self, row: Tensor) -> Tensor:
        return AllToAll(broadcast_to(row, (self.ranks, *row.shape[1:])), axis=self.axis, ranks=self.ranks)

    def _sum_of(self, rows: Tensor) -> Tensor:
        return AllToAll(rows, axis=self.axis, ranks=self.ranks).sum(axis=0)


KINDS: dict[str, type[RoundRobin] | type[AtOnce]] = {PERMUTE: RoundRobin, ALL_GATHER: AtOnce, ALL_TO_ALL: AllPairs}
