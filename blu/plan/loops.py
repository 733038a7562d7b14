"""Loops of launches: how a plan says them, and the launches that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from blu.dataclass import dataclass, field
from blu.plan.arguments import MAP_BYTES, Argument
from blu.plan.reading import natural, require

MAX_LAUNCHES = 1 << 20
"""The most launches that a program's loops may stand for."""
MAX_LOOPS = 512


@dataclass(frozen=True)
class Loop:
    """The launches from number `first` on, before number `last`, are made `count` times.

    Where an argument says a step for a loop, it lies further on with each time. A loop may be in another, which comes
    before it in the plan's list.
    """

    first: int
    last: int
    count: int

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Loop:
        """Read an entry of the plan."""
        first, last, count = (natural(entry.get(name), f"a loop's {name}") for name in ("first", "last", "count"))
        require(first <= last, f"a loop is of the launches {first} to {last}")
        return cls(first, last, count)

    def to_json(self) -> dict[str, int]:
        """The entry of a loop."""
        return {"first": self.first, "last": self.last, "count": self.count}


def number_of_launches(num_launches: int, loops: Sequence[Loop]) -> int:
    """How many launches a program makes."""
    times = [1] * num_launches
    for loop in loops:
        for place in range(loop.first, loop.last):
            times[place] *= loop.count
    return sum(times)


@dataclass
class Unrolling:
    """Launches without loops, and the tensor maps and tables of pointers that they take."""

    launches: Sequence[Any]
    loops: Sequence[Loop]
    maps: Sequence[Any]
    tables: Sequence[tuple[Argument, ...]]
    found: list[Any] = field(default_factory=list)
    # For places among the launches how many there are before, of what is in no loop.
    places: dict[int, int] = field(default_factory=dict)
    new_maps: dict[Any, int] = field(default_factory=dict)
    new_tables: dict[tuple[Argument, ...], int] = field(default_factory=dict)

    def run(self) -> None:
        """Write all of them."""
        require(len(self.loops) <= MAX_LOOPS, "too many loops")
        require(all(loop.last <= len(self.launches) for loop in self.loops), "a loop of launches that there are not")
        require(number_of_launches(len(self.launches), self.loops) <= MAX_LAUNCHES, "loops of too many launches")
        self._write(0, len(self.launches), list(range(len(self.loops))), {})

    def _write(self, first: int, last: int, inside: Sequence[int], times: dict[int, int]) -> None:
        place = first
        for number, nested in _outermost(inside, self.loops):
            loop = self.loops[number]
            require(place <= loop.first and loop.last <= last, "loops overlap")
            self._write_plain(place, loop.first, times)
            for time in range(loop.count if loop.first < loop.last else 0):
                self._write(loop.first, loop.last, nested, {**times, number: time})
            place = loop.last
        self._write_plain(place, last, times)

    def _write_plain(self, first: int, last: int, times: dict[int, int]) -> None:
        for place in range(first, last):
            if not times:
                self.places[place] = len(self.found)
            launch = self.launches[place]
            args = tuple(self._at(argument, times) for argument in launch.args)
            self.found.append(launch if args == launch.args else replace(launch, args=args))
        if not times:
            self.places[last] = len(self.found)

    def _at(self, argument: Argument, times: dict[int, int]) -> Argument:
        if argument.space == "map" and argument.offset // MAP_BYTES < len(self.maps):
            shown = self.maps[argument.offset // MAP_BYTES]
            shown = replace(shown, buffer=argument_at(shown.buffer, times))
            return Argument("map", 0, MAP_BYTES * self.new_maps.setdefault(shown, len(self.new_maps)))
        if argument.space == "table" and argument.index < len(self.tables):
            table = tuple(argument_at(item, times) for item in self.tables[argument.index])
            return Argument("table", self.new_tables.setdefault(table, len(self.new_tables)), argument.offset)
        return argument_at(argument, times)


def argument_at(argument: Argument, times: Mapping[int, int]) -> Argument:
    """Where an argument lies when loops have been done so often."""
    if not argument.steps:
        return argument
    require(all(step.loop in times for step in argument.steps), "an argument steps with a loop that it is not in")
    offset = argument.offset + sum(step.bytes_at(times[step.loop]) for step in argument.steps)
    require(offset >= 0, "an argument lies before its buffer")
    return Argument(argument.space, argument.index, offset)


def _outermost(numbers: Sequence[int], loops: Sequence[Loop]) -> Iterator[tuple[int, list[int]]]:
    """The loops that are in none of the others, each with those in it."""
    waiting = list(numbers)
    while waiting:
        number = waiting.pop(0)
        end = loops[number].last
        inside = []
        while waiting and loops[waiting[0]].first < end:
            inside.append(waiting.pop(0))
        yield number, inside
