"""The order in which a program's kernels run and its collectives begin and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blu.dataclass import dataclass
from blu.plan.collective import Collective


@dataclass(frozen=True)
class LaunchRange:
    """The kernels from number `first` on, before number `last`."""

    first: int
    last: int


@dataclass(frozen=True)
class Begin:
    """A collective begins, by its number."""

    collective: int


@dataclass(frozen=True)
class Finish:
    """A collective is waited for."""

    collective: int


@dataclass(frozen=True)
class Compute:
    """The host computes a step itself, which has a number among the launches."""

    launch: int


Moment = LaunchRange | Compute | Begin | Finish


def timeline(num_launches: int, collectives: Sequence[Collective], computed: Sequence[int] = ()) -> list[Moment]:
    """What the host program does, in order. Of what is at one place, the earlier collective is dealt with first.

    Of the launches, those `computed` are no kernels, but what the host computes.
    """
    if computed:
        return list(_apart(timeline(num_launches, collectives), frozenset(computed)))
    moments: list[Moment] = []
    done = 0
    for place, moment in sorted(_moments(collectives), key=lambda item: item[0]):
        if place > done:
            moments.append(LaunchRange(done, place))
            done = place
        moments.append(moment)
    return [*moments, LaunchRange(done, num_launches)] if done < num_launches else moments


def _apart(moments: Sequence[Moment], computed: frozenset[int]) -> Iterator[Moment]:
    """The same with what the host computes apart from kernels."""
    for moment in moments:
        if not isinstance(moment, LaunchRange):
            yield moment
            continue
        first = moment.first
        for place in range(moment.first, moment.last):
            if place in computed:
                if place > first:
                    yield LaunchRange(first, place)
                yield Compute(place)
                first = place + 1
        if moment.last > first:
            yield LaunchRange(first, moment.last)


def _moments(collectives: Sequence[Collective]) -> Iterator[tuple[int, Begin | Finish]]:
    for number, item in enumerate(collectives):
        yield item.start, Begin(number)
        yield item.wait, Finish(number)
