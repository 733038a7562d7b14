"""Which collectives begin as one.

NCCL begins many for little more than one of them costs, if it is given all at once: of ZeRO-1's hundreds, most have
few bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from blu.dataclass import dataclass
from blu.plan.collective import Collective
from blu.plan.timeline import Begin, Finish, Moment


@dataclass(frozen=True)
class BeginTogether:
    """Collectives begin, by their numbers."""

    collectives: tuple[int, ...]


class _Range(NamedTuple):
    """Bytes of a buffer."""

    buffer: tuple[str, int]
    first: int
    end: int

    def meets(self, other: _Range) -> bool:
        return self.buffer == other.buffer and self.first < other.end and other.first < self.end


def begun_together(
    moments: Sequence[Moment], items: Sequence[Collective], joins: Callable[[int], bool]
) -> Iterator[Moment | BeginTogether]:
    """The same with collectives along one axis in groups that begin between the same launches, each of whom needs
    nothing of the others; what is waited for before the group has begun is waited for behind it.

    `joins` says of a collective's number whether it is one for groups.
    """
    group: list[int] = []
    over: list[Moment] = []
    for moment in moments:
        if isinstance(moment, Finish) and moment.collective in group:
            over.append(moment)
        elif isinstance(moment, Finish) and group:
            yield moment
        elif isinstance(moment, Begin) and joins(moment.collective):
            if not all(_are_apart(items[moment.collective], items[number]) for number in group):
                yield from _closed(group, over)
                group, over = [], []
            group.append(moment.collective)
        else:
            yield from _closed(group, over)
            group, over = [], []
            yield moment
    yield from _closed(group, over)


def _closed(group: Sequence[int], over: Sequence[Moment]) -> Iterator[Moment | BeginTogether]:
    if group:
        yield Begin(group[0]) if len(group) == 1 else BeginTogether(tuple(group))
    yield from over


def _are_apart(one: Collective, other: Collective) -> bool:
    """Whether two collectives are along one axis, and neither writes what the other one touches."""
    written = (_target(one), (_target(other), _source(other))), (_target(other), (_source(one),))
    return one.axis == other.axis and not any(place.meets(touched) for place, others in written for touched in others)


def _source(item: Collective) -> _Range:
    first = item.source.offset
    return _Range((item.source.space, item.source.index), first, first + item.bytes_given)


def _target(item: Collective) -> _Range:
    first = item.target.offset
    return _Range((item.target.space, item.target.index), first, first + item.bytes_received)
