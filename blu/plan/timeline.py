"""The order in which a program's kernels run and its collectives begin and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


Moment = LaunchRange | Begin | Finish


def timeline(num_launches: int, collectives: Sequence[Collective]) -> list[Moment]:
    """What the host program does, in order. Of what is at one place, the earlier collective is dealt with first."""
    moments: list[Moment] = []
    done = 0
    for place, moment in sorted(_moments(collectives), key=lambda item: item[0]):
        if place > done:
            moments.append(LaunchRange(done, place))
            done = place
        moments.append(moment)
    return [*moments, LaunchRange(done, num_launches)] if done < num_launches else moments


def _moments(collectives: Sequence[Collective]) -> Iterator[tuple[int, Begin | Finish]]:
    for number, item in enumerate(collectives):
        yield item.start, Begin(number)
        yield item.wait, Finish(number)
