"""Ranks that exchange arrays: what they can do, whatever library does it, and a group of one rank.

    pending = group.start("all_reduce", reduction="mean", dtype="f32", source=x, target=y, count=1000)
    ...
    pending.wait()

All ranks of a group start the same exchanges in the same order. Arrays are given by their addresses, in the memory of
the machine that the group is for: a processor's (`blu.runtime.ranks.mpi`) or a GPU's (`blu.runtime.ranks.nccl`).
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from blu.dataclass import dataclass
from blu.errors import RankError
from blu.plan.tensors import DTYPES

REDUCTIONS = ("sum", "mean", "max", "min")
FLOATS = ("f64", "f32", "f16", "bf16")
MOVED_ONLY = ("f8e4m3", "f8e5m2")
"""What ranks give each other as it is, and do not reduce."""


@dataclass(frozen=True)
class ExchangeKind:
    """One kind of exchange among `size` ranks, each of which contributes `count` elements.

    `taken(count, size)` is the number of elements that each rank gets. `is_cut`: each rank's elements are cut into
    `size` equal parts. `overlap(count, size, rank)` is the element of the larger array at which the smaller one may lie
    in the same memory, None where source and target must be apart.
    """

    taken: Callable[[int, int], int]
    reduces: bool = False
    is_cut: bool = False
    overlap: Callable[[int, int, int], int] | None = None


KINDS: dict[str, ExchangeKind] = {
    "all_reduce": ExchangeKind(lambda count, size: count, reduces=True, overlap=lambda count, size, rank: 0),
    "all_gather": ExchangeKind(lambda count, size: count * size, overlap=lambda count, size, rank: rank * count),
    "reduce_scatter": ExchangeKind(
        lambda count, size: count // size,
        reduces=True,
        is_cut=True,
        overlap=lambda count, size, rank: rank * (count // size),
    ),
    "broadcast": ExchangeKind(lambda count, size: count, overlap=lambda count, size, rank: 0),
    "all_to_all": ExchangeKind(lambda count, size: count, is_cut=True),
    "permute": ExchangeKind(lambda count, size: count),
}


GROUPED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
"""What may begin together with others of these. The rest are groups of messages themselves."""


@dataclass(frozen=True)
class Exchange:
    """What one rank does in an exchange: `count` elements at address `source` go in, the result goes to `target`.

    `reduction` says how elements become one; `root` is the rank whose array is broadcast; of a permutation, each rank
    sends to the rank `shift` further on, round the ring.
    """

    kind: str
    dtype: str
    source: int
    target: int
    count: int
    reduction: str = ""
    shift: int = 0
    root: int = 0

    @cached_property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype].itemsize

    @property
    def is_in_place(self) -> bool:
        """Whether source and target begin at one address."""
        return self.source == self.target

    def taken(self, size: int) -> int:
        """The number of elements that come to `target`."""
        return KINDS[self.kind].taken(self.count, size)

    def source_array(self) -> np.ndarray:
        """The elements at `source`, in a processor's memory."""
        return array_at(self.source, self.count, self.dtype)

    def target_array(self, size: int) -> np.ndarray:
        """The elements at `target`, in a processor's memory."""
        return array_at(self.target, self.taken(size), self.dtype)

    def __str__(self) -> str:
        reduction = f" ({self.reduction})" if self.reduction else ""
        return f"{self.kind}{reduction} of {self.count} {self.dtype}"


def array_at(address: int, count: int, dtype: str) -> np.ndarray:
    """`count` elements of the processor's memory, which someone else owns."""
    nbytes = count * DTYPES[dtype].itemsize
    memory: Any = (ctypes.c_uint8 * nbytes).from_address(address)
    return np.frombuffer(memory, DTYPES[dtype], count)


class Pending(ABC):
    """An exchange that was started."""

    @abstractmethod
    def wait(self) -> None:
        """Return when the target may be read and the source written: by the host on processors, and on GPUs by what
        is enqueued from then on, on the stream that the exchange was started on."""


class Done(Pending):
    """An exchange that was over when it began."""

    def wait(self) -> None:
        pass


class ExchangeObserver(Protocol):
    """Who is told what a rank exchanges, and when it waits for that."""

    def started(self, exchange: str, line: str = "") -> None:
        """An exchange begins, which is said in words, by the user's `file:line`."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Entered while the rank waits for an exchange."""
        ...


class _Observed(Pending):
    """An exchange whose waiting is told to an observer."""

    def __init__(self, pending: Pending, observer: ExchangeObserver):
        self._pending = pending
        self._observer = observer

    def wait(self) -> None:
        with self._observer.waiting():
            self._pending.wait()


class RankGroup(ABC):
    """`size` ranks of which this is number `rank`. `library` says what carries their arrays.

    `observer`, if there is one, is told of all exchanges, also of the groups that are split off from then on.
    """

    library: str
    rank: int
    size: int
    observer: ExchangeObserver | None = None

    def start(
        self,
        kind: str,
        *,
        dtype: str,
        source: int,
        target: int,
        count: int,
        reduction: str = "",
        shift: int = 0,
        root: int = 0,
        stream: int = 0,
        line: str = "",
    ) -> Pending:
        """Start an exchange, in which every rank of the group takes part. Nothing may touch its arrays until `wait`.

        `kind`: all_reduce, all_gather (target: size * count elements), reduce_scatter (target: count / size elements),
        broadcast (from rank `root`), all_to_all (part r of the source goes to rank r), permute (to rank + `shift`).
        `count` is the number of elements at `source`; `dtype` one of Blu's names; `reduction` (of all_reduce and
        reduce_scatter) sum, mean, max or min; `stream` the GPU's stream that it is enqueued on; `line` the user's
        `file:line`, for messages. Source may be target of all_reduce and broadcast, and this rank's part of the target
        of all_gather; the target may be this rank's part of the source of reduce_scatter.
        Raises RankError for what does not go together.
        """
        exchange = Exchange(kind, dtype, source, target, count, reduction, shift, root)
        self._check(exchange)
        if self.observer is None:
            return self._begin(exchange, stream) if count else Done()
        self.observer.started(str(exchange), line)
        return _Observed(self._begin(exchange, stream) if count else Done(), self.observer)

    def together(self) -> AbstractContextManager[Any]:
        """Within this, exchanges of GROUPED kinds are started that need nothing of each other: a library may begin
        them as one, at the end of it."""
        return nullcontext()

    def split(self, color: int | None, key: int = 0) -> RankGroup | None:
        """The group of those ranks that gave the same color, ordered by key and then rank; None for a color of None.

        Every rank of this group calls it, with no exchange pending.
        """
        group = self._split(color, key)
        if group is not None:
            group.observer = self.observer
        return group

    def check(self) -> None:  # noqa: B027 (other libraries raise where they fail)
        """Raise DeviceError where the library has found since then that what it was given to do has failed."""

    @abstractmethod
    def abort(self) -> None:
        """Give up what is pending: the process ends next. What was exchanged is worth nothing."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group, as every rank of it does, with no exchange pending."""

    @abstractmethod
    def _split(self, color: int | None, key: int) -> RankGroup | None:
        """What `split` gives."""

    @abstractmethod
    def _begin(self, exchange: Exchange, stream: int) -> Pending:
        """Start an exchange that was checked, of at least one element."""

    def _check(self, exchange: Exchange) -> None:
        if exchange.kind not in KINDS:
            raise RankError(f"there is no exchange {exchange.kind!r}: there are {', '.join(KINDS)}")
        if exchange.dtype not in DTYPES:
            raise RankError(f"{exchange.kind} of {exchange.dtype!r}: dtypes are {', '.join(DTYPES)}")
        kind = KINDS[exchange.kind]
        if exchange.count < 0 or (kind.is_cut and exchange.count % self.size):
            raise RankError(f"{exchange.kind} of {exchange.count} elements among {self.size} ranks: not a multiple")
        if not 0 <= exchange.root < self.size:
            raise RankError(f"{exchange.kind} from rank {exchange.root}: ranks are 0 to {self.size - 1}")
        _check_reduction(exchange, kind)
        self._check_overlap(exchange, kind)

    def _check_overlap(self, exchange: Exchange, kind: ExchangeKind) -> None:
        lengths = exchange.count, exchange.taken(self.size)
        sizes = [length * exchange.itemsize for length in lengths]
        if exchange.source + sizes[0] <= exchange.target or exchange.target + sizes[1] <= exchange.source:
            return
        if kind.overlap is not None:
            offset = kind.overlap(exchange.count, self.size, self.rank) * exchange.itemsize
            if exchange.target - exchange.source == (offset if lengths[0] > lengths[1] else -offset):
                return
        raise RankError(
            f"{exchange.kind} from {sizes[0]} bytes at {exchange.source:#x} to {sizes[1]} bytes at "
            f"{exchange.target:#x}, which overlap"
        )


def _check_reduction(exchange: Exchange, kind: ExchangeKind) -> None:
    if not kind.reduces:
        if exchange.reduction:
            raise RankError(f"{exchange.kind} reduces nothing, and got the reduction {exchange.reduction!r}")
        return
    if exchange.reduction not in REDUCTIONS:
        raise RankError(f"there is no reduction {exchange.reduction!r}: there are {', '.join(REDUCTIONS)}")
    if exchange.dtype in MOVED_ONLY:
        raise RankError(
            f"ranks give each other {exchange.dtype}, and do not reduce it", advice="convert to bf16 or f32"
        )
    if exchange.reduction == "mean" and exchange.dtype not in FLOATS:
        raise RankError(f"the mean of {exchange.dtype} is no {exchange.dtype}", advice="convert to a float, or sum")
    if exchange.reduction == "sum" and exchange.dtype == "bool":
        raise RankError("the sum of bool is no bool", advice="convert to an integer, or take max (or) or min (and)")


class Alone(RankGroup):
    """The group of one rank, on a processor: every exchange is a copy."""

    library = "none"
    rank = 0
    size = 1

    def _split(self, color: int | None, key: int) -> RankGroup | None:
        return None if color is None else self

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _begin(self, exchange: Exchange, stream: int) -> Pending:
        if not exchange.is_in_place:
            exchange.target_array(1)[...] = exchange.source_array()
        return Done()
