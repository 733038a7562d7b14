"""The searches of many kernels side by side, in rounds: all cores compile, then everything is measured, alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest

from blu.compiler.tuning.compiling import CandidateCompiler, WantedCandidate
from blu.compiler.tuning.problem import KernelProblem
from blu.compiler.tuning.search import ScheduleSearch, SearchResult
from blu.errors import BluError

EACH = 4
"""Schedules that a worker compiles in a round, about: what is measured soon says where to go on."""
SHARE = 0.5
"""Of the time that is left, what compiling may take in a round: what is found has to be measured, and may lead on."""


class SearchRounds:
    """Searches until a moment of `time.monotonic`. `tell` is told what is done, and of each schedule measured."""

    def __init__(self, problems: Sequence[KernelProblem], end: float, tell: Callable[[str], None] = lambda text: None):
        self.end, self.tell = end, tell
        self.compiler = CandidateCompiler()
        self.seconds_each = 0.0
        self.searches = [ScheduleSearch(item, self._telling(item)) for item in problems]

    def run(self) -> Iterator[SearchResult]:
        """What is known of a kernel, each time that it was measured; at first of all by what is chosen."""
        try:
            yield from self._round(self.searches, float("inf"))
            while (active := [item for item in self.searches if item.waiting]) and self._left > 0:
                yield from self._round(active, time.monotonic() + SHARE * self._left)
        finally:
            self.compiler.close()

    @property
    def _left(self) -> float:
        return self.end - time.monotonic()

    def _round(self, searches: Sequence[ScheduleSearch], end: float) -> Iterator[SearchResult]:
        """What the schedules that these wait for come to, as many as there may be time for. None is begun after `end`.

        A kernel that this machine does not run has no other schedules.
        """
        shares = self._shares(searches)
        wanted = [WantedCandidate(search.problem, given) for search, share in shares for given in search.take(share)]
        start = time.monotonic()
        answers = self.compiler.compile(wanted, end)
        took = time.monotonic() - start
        self.seconds_each = took / len(wanted)
        self.tell(f"{len(wanted)} schedules of {len(shares)} kernels compiled in {took:.1f} s")
        pairs = iter(zip(wanted, answers, strict=True))
        for search, share in shares:
            own = list(islice(pairs, share))
            search.waiting += [item.given for item, answer in own if answer is None]
            try:
                search.measure([answer for _, answer in own if answer is not None], self.end)
            except BluError as error:
                search.waiting = []
                self.tell(f"{search.problem.names[0]}: {error}")
            else:
                yield search.found

    def _shares(self, searches: Sequence[ScheduleSearch]) -> list[tuple[ScheduleSearch, int]]:
        """How many schedules each may have compiled: all in turns, one of each at least."""
        left, usual = SHARE * self._left, EACH * self.compiler.pool.size
        most = max(len(searches), min(usual, int(left / self.seconds_each)) if self.seconds_each else 0)
        turns = zip_longest(*([search] * len(search.waiting) for search in searches))
        taken = [search for turn in turns for search in turn if search is not None][:most]
        return [(search, taken.count(search)) for search in searches if search in taken]

    def _telling(self, problem: KernelProblem) -> Callable[[str], None]:
        return lambda text: self.tell(f"{problem.names[0]}: {text}")
