"""The search of one kernel: from the schedule that is chosen to the best of its neighbours, as long as that helps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from blu.compiler.tuning.candidate import ScheduleCandidate, compare, compile_candidate, difference
from blu.compiler.tuning.problem import KernelProblem
from blu.errors import BluError
from blu.passes.kernels.schedules import Fields

ROUNDS, GAIN = 5, 1.03
"""How often two are measured in turns, and how much faster one has to be to be kept: less is noise."""
HOPELESS = 1.25
"""How much slower one may be in its first run to be measured again."""
UNLIKELY = 1.5
"""How much longer one may be expected to take to be measured at all."""


@dataclass
class SearchResult:
    """What came of a search. Times are of the chosen schedule and of the best, measured in turns, in microseconds."""

    problem: KernelProblem
    chosen: Fields
    best: Fields
    before: float
    after: float
    tried: int = 0
    misfits: int = 0
    unlikely: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """How many times faster the best schedule is."""
        return self.before / self.after

    @property
    def is_better(self) -> bool:
        return self.best != self.chosen and self.gain >= GAIN


class ScheduleSearch:
    """Searches until a moment of `time.monotonic`. `tell` is told of each schedule that is tried."""

    def __init__(self, problem: KernelProblem, end: float, tell: Callable[[str], None] = lambda text: None):
        self.problem, self.end, self.tell = problem, end, tell
        self.seen: set[frozenset] = set()
        self.chosen = compile_candidate(problem, {})
        self.expected = self.chosen.results()
        self.found = SearchResult(problem, self.chosen.schedule, self.chosen.schedule, 0.0, 0.0)

    def run(self) -> SearchResult:
        """The best that was found in the time that there was; at least what is chosen is measured."""
        best = self.chosen
        self._is_new(best.schedule)
        while (better := self._best_neighbour(best)) is not None:
            best = better
        before, after = compare(self.chosen, best, ROUNDS)
        self.found.best, self.found.before, self.found.after = best.schedule, before, after
        return self.found

    def _best_neighbour(self, best: ScheduleCandidate) -> ScheduleCandidate | None:
        """The neighbour that gains most, if one gains enough."""
        start = best
        for candidate in self._candidates(start.schedule):
            if self._beats(candidate, best):
                best = candidate
        return None if best is start else best

    def _candidates(self, schedule: Fields) -> Iterator[ScheduleCandidate]:
        """The neighbours that fit and are right."""
        most = UNLIKELY * self.problem.expected(schedule) or float("inf")
        for given in self.problem.scheduler.neighbours(schedule):
            if time.monotonic() >= self.end:
                return
            if not self._is_new(given):
                continue
            if self.problem.expected(given) > most:
                self.found.unlikely += 1
            elif (candidate := self._made(given)) is not None:
                yield candidate

    def _is_new(self, schedule: Fields) -> bool:
        key = frozenset(schedule.items())
        is_new = key not in self.seen
        self.seen.add(key)
        return is_new

    def _made(self, given: Fields) -> ScheduleCandidate | None:
        self.found.tried += 1
        try:
            candidate = compile_candidate(self.problem, given, self.chosen.inputs)
        except BluError:  # its limits say no, or the assembler
            self.found.misfits += 1
            return None
        if problem := difference(candidate, self.expected):
            self.found.wrong.append(f"{dict(given)}: {problem}")
            return None
        return candidate

    def _beats(self, candidate: ScheduleCandidate, best: ScheduleCandidate) -> bool:
        first, other = compare(candidate, best, 1)
        if first > HOPELESS * other:
            self.tell(f"{other / first:.2f} {differing(candidate.schedule, best.schedule)}")
            return False
        first, other = compare(candidate, best, ROUNDS)
        self.tell(f"{other / first:.2f} {differing(candidate.schedule, best.schedule)}")
        return other > GAIN * first


def differing(schedule: Fields, other: Fields) -> str:
    """The fields that are not another schedule's, in words."""
    words = [f"{name} = {value}" for name, value in schedule.items() if other.get(name) != value]
    return ", ".join(words) or "as chosen"
