"""What the ranks of a program on GPUs do together, between its kernels and beside them.

A collective begins on a second stream, which waits for the program's; where it is over, the program's stream waits for
it. The host waits for neither, and a capture of both is a graph with a branch for what overlaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from blu.errors import DeviceError, RankError
from blu.plan.arguments import Argument
from blu.plan.schema import Plan
from blu.plan.timeline import Begin, Finish, LaunchRange, Moment, timeline
from blu.runtime.cuda.block import DeviceBlock
from blu.runtime.cuda.driver.driver import Driver
from blu.runtime.cuda.driver.failures import DriverError
from blu.runtime.cuda.driver.launches import BoundCall, Step
from blu.runtime.cuda.moving import MovingPointers
from blu.runtime.cuda.together import BeginTogether, begun_together
from blu.runtime.memory import address_of
from blu.runtime.ranks.group import GROUPED, ExchangeObserver, RankGroup

_NUMBER_BYTES = 4


class Collectives:
    """The collectives of one program, begun and waited for by their numbers.

    `groups` are the ranks along each axis, `watch` is told of each run, if there is one. What is exchanged with nobody
    (an axis of one rank, the rank's number) is a copy on the program's stream.
    """

    def __init__(
        self,
        driver: Driver,
        plan: Plan,
        groups: Mapping[str, RankGroup],
        watch: ExchangeObserver | None = None,
    ):
        self._driver = driver
        self._watch = watch
        if watch is not None:
            driver.waiting = watch.waiting
        self._about = f"what {plan.entry} exchanges"
        self._items = plan.collectives
        self._groups = groups
        self._under_way: set[int] = set()
        self._lines = {item.axis: item.location for item in reversed(self._items)}
        """Of the first collective along each axis."""
        self._arguments = [argument for item in self._items for argument in (item.source, item.target)]
        axes = list(dict.fromkeys(item.axis for item in self._items))
        self._numbers = DeviceBlock(driver, _NUMBER_BYTES * len(axes), "this rank's numbers")
        self._number_at = {axis: self._numbers.address + _NUMBER_BYTES * place for place, axis in enumerate(axes)}
        if axes:
            ranks = np.array([groups[axis].rank for axis in axes], np.int32)
            with driver.explained("load the program"):
                driver.copy_in(self._numbers.address, address_of(ranks), ranks.nbytes)

    def lay_out(self, numbers: Mapping[tuple[str, int], int], static_address: Callable[[Argument], int]) -> None:
        """Say what memory changes from run to run: `numbers` are those of a run's arrays, by space and index."""
        self._moving = MovingPointers.among(self._arguments, numbers)
        self._values = np.array([static_address(argument) for argument in self._arguments], np.uint64)

    def check(self) -> None:
        """Raise what ranks' exchanges of earlier runs have failed with, as far as their library knows."""
        for axis, line in self._lines.items():
            with _at_line(line):
                self._groups[axis].check()

    def tell(self) -> None:
        """Tell the watch, whoever it is, that a run begins: all ranks tell the same of each run."""
        if self._watch is not None:
            self._watch.started(self._about, self._items[0].location)

    def show(self, addresses: np.ndarray) -> None:
        """Exchange a run's arrays where they are now."""
        self._values[self._moving.slots] = self._moving.at(addresses)

    @property
    def addresses(self) -> bytes:
        """Where everything is that is exchanged. A graph cannot be told other addresses of it."""
        return self._values.tobytes()

    def steps(self, launched: Mapping[int, Step], *, in_turn: bool) -> list[Step]:
        """The program in order. What is `launched` has its number among the launches, of which empty ones are no
        kernels; `in_turn` has each collective be over before what follows it begins."""
        items = [replace(item, wait=item.start) if in_turn else item for item in self._items]
        last = max([0, *(place + 1 for place in launched), *(item.wait for item in items)])
        steps: list[Step] = []
        moments: Iterable[Moment | BeginTogether] = timeline(last, items)
        if not in_turn:
            moments = begun_together(timeline(last, items), items, self._is_grouped)
        for moment in moments:
            if isinstance(moment, LaunchRange):
                steps += [launched[place] for place in sorted(launched) if moment.first <= place < moment.last]
            elif isinstance(moment, BeginTogether):
                steps.append(self._begin_of_all(moment.collectives))
            elif isinstance(moment, Begin):
                steps.append(self._begin_of(moment.collective))
            elif isinstance(moment, Finish) and self._is_exchanged(moment.collective):
                steps.append(self._end_of(moment.collective))
        return steps

    @contextmanager
    def given_up_on_failure(self) -> Iterator[None]:
        """Where a run is broken off, have the program's stream wait for what has begun: its memory is used again."""
        try:
            yield
        except BaseException:
            with suppress(DriverError):  # the GPU is lost, or a capture is
                for number in sorted(self._under_way):
                    self._driver.second.join(number)
            raise
        finally:
            self._under_way.clear()

    def _is_exchanged(self, number: int) -> bool:
        item = self._items[number]
        return item.kind != "axis_index" and self._groups[item.axis].size > 1

    def _is_grouped(self, number: int) -> bool:
        return self._items[number].kind in GROUPED and self._is_exchanged(number)

    def _begin_of(self, number: int) -> BoundCall:
        item = self._items[number]
        begin = self._exchange if self._is_exchanged(number) else self._copy
        return BoundCall(f"{item.kind} over {item.axis}", item.location, lambda: begin(number))

    def _begin_of_all(self, numbers: Sequence[int]) -> BoundCall:
        items = [self._items[number] for number in numbers]
        kinds = " and ".join(dict.fromkeys(item.kind for item in items))
        name = f"{len(items)} collectives ({kinds}) over {items[0].axis}"
        return BoundCall(name, items[0].location, lambda: self._exchange_all(numbers))

    def _end_of(self, number: int) -> BoundCall:
        item = self._items[number]
        return BoundCall(f"the end of {item.kind} over {item.axis}", item.location, lambda: self._finish(number))

    def _copy(self, number: int) -> None:
        item, (source, target) = self._items[number], self._places(number)
        if item.kind == "axis_index":
            source = self._number_at[item.axis]
        if source != target and item.bytes_received:
            self._driver.copy(target, source, item.bytes_received)

    def _exchange(self, number: int) -> None:
        second = self._driver.second
        second.begin()
        self._under_way.add(number)
        try:
            self._start(number)
        finally:
            second.mark(number)

    def _exchange_all(self, numbers: Sequence[int]) -> None:
        """Begin what is along one axis and needs nothing of each other, at once."""
        second, first = self._driver.second, self._items[numbers[0]]
        second.begin()
        self._under_way.update(numbers)
        try:
            with _at_line(first.location), self._groups[first.axis].together():
                for number in numbers:
                    self._start(number)
        finally:
            for number in numbers:
                second.mark(number)

    def _start(self, number: int) -> None:
        item, (source, target) = self._items[number], self._places(number)
        with _at_line(item.location):
            group, stream = self._groups[item.axis], self._driver.second.handle
            group.start(item.kind, source=source, target=target, stream=stream, **item.options)

    def _finish(self, number: int) -> None:
        self._driver.second.join(number)
        self._under_way.discard(number)

    def _places(self, number: int) -> tuple[int, int]:
        source, target = self._values[2 * number : 2 * number + 2].tolist()
        return source, target


@contextmanager
def _at_line(line: str) -> Iterator[None]:
    """Let an error of the ranks' library say whose line it is about."""
    try:
        yield
    except (RankError, DeviceError) as error:
        if error.location or not line:
            raise
        raise type(error)(error.message, location=line, advice=error.advice) from error
