"""A collective as the host program's plan says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blu.dataclass import dataclass
from blu.plan.arguments import Argument
from blu.plan.mesh import Mesh
from blu.plan.reading import natural, require, text
from blu.plan.tensors import DTYPES

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "permute", "axis_index")
REDUCTIONS = ("", "sum", "mean", "max", "min")
_MAX_AMOUNT = 1 << 20


@dataclass(frozen=True)
class Collective:
    """What the ranks of an axis do together, from one launch of the program to another.

    It begins once `start` kernels have been launched, and is over before any further than `wait` are. This rank gives
    `count` elements of `dtype`, at `source`; what it gets goes to `target`. `amount` is the root of a broadcast, or the
    shift of a permutation.
    """

    kind: str
    axis: str
    ranks: int
    reduction: str
    amount: int
    dtype: str
    count: int
    source: Argument
    target: Argument
    start: int
    wait: int
    location: str = ""

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Collective:
        """Read an entry of a plan. CacheError where it is damaged."""
        kind, dtype = (text(entry.get(name), f"the {name} of a collective") for name in ("kind", "dtype"))
        reduction = text(entry.get("reduction", ""), f"the reduction of a {kind}")
        require(kind in KINDS and reduction in REDUCTIONS, f"a collective is a {kind!r} ({reduction!r})")
        require(dtype in DTYPES, f"a {kind} is of {dtype!r}")
        amount = entry.get("amount", 0)
        require(isinstance(amount, int) and abs(amount) <= _MAX_AMOUNT, f"the amount of a {kind} is {amount!r}")
        numbers = [natural(entry.get(name), f"the {name} of a {kind}") for name in ("ranks", "count", "start", "wait")]
        ranks, count, start, wait = numbers
        require(ranks >= 1 and start <= wait, f"a {kind} of {ranks} ranks is begun at {start} and over at {wait}")
        source, target = Argument.parse(entry.get("source")), Argument.parse(entry.get("target"))
        axis, location = text(entry.get("axis"), f"the axis of a {kind}"), text(entry.get("location") or "", "its line")
        return cls(kind, axis, ranks, reduction, amount, dtype, count, source, target, start, wait, location)

    def to_json(self) -> dict[str, Any]:
        """What `parse` reads."""
        what = {"kind": self.kind, "axis": self.axis, "ranks": self.ranks, "reduction": self.reduction}
        data = {"dtype": self.dtype, "count": self.count, "source": self.source.to_json()}
        when = {"start": self.start, "wait": self.wait, "location": self.location}
        return {**what, "amount": self.amount, **data, "target": self.target.to_json(), **when}

    @property
    def options(self) -> dict[str, Any]:
        """What a group of ranks is told of it, besides its kind and addresses."""
        amounts = {"broadcast": {"root": self.amount}, "permute": {"shift": self.amount}}.get(self.kind, {})
        what = {"dtype": self.dtype, "count": self.count, "reduction": self.reduction, "line": self.location}
        return {**what, **amounts}

    @property
    def received(self) -> int:
        """How many elements this rank gets."""
        if self.kind == "all_gather":
            return self.count * self.ranks
        return self.count // self.ranks if self.kind == "reduce_scatter" else self.count

    @property
    def bytes_given(self) -> int:
        """Bytes at `source`."""
        return self.count * DTYPES[self.dtype].itemsize

    @property
    def bytes_received(self) -> int:
        """Bytes at `target`."""
        return self.received * DTYPES[self.dtype].itemsize

    @property
    def signature(self) -> str:
        """What all ranks must agree on: a line that says which collective this is, and where the user wrote it.

        The file's folder is left out, since hosts may keep the same program in different ones.
        """
        where = self.location.rpartition("/")[2]
        how = " ".join(filter(None, (self.reduction, f"by {self.amount}" if self.amount else "")))
        what = f"{self.kind} over {self.axis} ({self.ranks} ranks) of {self.count} {self.dtype}"
        return f"{what}{f' {how}' if how else ''}{f' at {where}' if where else ''}"

    def check(self, sizes: Mapping[str, Sequence[int]], num_launches: int, mesh: Mesh) -> None:
        """CacheError where a plan has no such memory, launches or ranks."""
        require(self.wait <= num_launches, f"a {self.kind} is over after launch {self.wait} of {num_launches}")
        require(mesh.ranks(self.axis) == self.ranks, f"the axis {self.axis} of {mesh} has not {self.ranks} ranks")
        is_cut = self.kind in ("reduce_scatter", "all_to_all")
        require(not is_cut or self.count % self.ranks == 0, f"a {self.kind} of {self.count} elements")
        given, got = ("source", self.source, self.bytes_given), ("target", self.target, self.bytes_received)
        for what, argument, nbytes in (given, got):
            buffers = sizes[argument.space]
            name = f"{argument.space} {argument.index}"
            require(argument.index < len(buffers), f"the {what} of a {self.kind} is {name}, of which there is none")
            fits = argument.offset + nbytes <= buffers[argument.index]
            require(fits, f"the {what} of a {self.kind} reaches beyond {name}")
        require(self.target.space in ("arena", "output", "input"), f"a {self.kind} writes to {self.target.space}")


def schedule_text(collectives: Sequence[Collective]) -> str:
    """The collectives of a program, a line each: what its ranks compare before they run it."""
    return "\n".join(collective.signature for collective in collectives)
