"""The search of one kernel: from the schedule that is chosen to the best of its neighbours, as long as that helps.

It goes in rounds: what it wants to have compiled, and what it learns from measuring that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from blu.compiler.tuning.candidate import ScheduleCandidate, compare, difference
from blu.compiler.tuning.compiling import CompiledCandidate
from blu.compiler.tuning.problem import KernelProblem
from blu.dataclass import dataclass, field
from blu.errors import BluError
from blu.passes.kernels.schedules import Fields

ROUNDS, GAIN = 5, 1.03
"""How often two are measured in turns, and how much faster one has to be to be kept: less is noise."""
HOPELESS = 1.25
"""How much slower one may be in its first run to be measured again."""
UNLIKELY = 1.3
"""How much longer one may be expected to take to be measured at all."""
Answer = CompiledCandidate | BluError


@dataclass
class SearchResult:
    """What came of a search. Times are of the chosen schedule and of the best, measured in turns, in microseconds."""

    problem: KernelProblem
    chosen: Fields
    best: Fields
    before: float = 0.0
    after: float = 0.0
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
    """`waiting` are the schedules that it wants to have compiled next, the likeliest first: at first what is chosen.

    `tell` is told of each that was measured.
    """

    def __init__(self, problem: KernelProblem, tell: Callable[[str], None] = lambda text: None):
        self.problem, self.tell = problem, tell
        chosen = problem.chosen()
        self.found = SearchResult(problem, chosen, chosen)
        self.seen: set[frozenset] = set()
        self._is_new(chosen)
        self.waiting: list[Fields] = [{}]
        self.chosen = self.best = CompiledCandidate(chosen, {})

    def take(self, count: int) -> list[Fields]:
        """So many of those that wait, which wait no longer."""
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken

    def measure(self, compiled: Sequence[Answer], end: float) -> None:
        """Learn from what was compiled, until `end`; from a better one its neighbours are wanted.

        The first answer of all is of what is chosen. BluError where that cannot be compiled.
        """
        is_first = not self.chosen.members
        if is_first:
            compiled = self._start(*compiled)
        start = self.best
        with ExitStack() as loaded:
            chosen = loaded.enter_context(ScheduleCandidate.load(self.chosen))
            best = chosen if is_first else loaded.enter_context(ScheduleCandidate.load(start, chosen.inputs))
            for made, candidate in self._right(compiled, chosen, end, loaded):
                if self._beats(candidate, best):
                    self.best, best = made, candidate
            before, after = compare(chosen, best, ROUNDS)
        self.found.best, self.found.before, self.found.after = best.schedule, before, after
        if is_first:
            self.tell(f"{before:.1f} us as chosen")
        if self.best is not start or is_first:
            self._look_around()

    def _start(self, chosen: Answer, *others: Answer) -> Sequence[Answer]:
        if isinstance(chosen, BluError):
            raise chosen
        self.chosen = self.best = chosen
        return others

    def _right(
        self, compiled: Sequence[Answer], chosen: ScheduleCandidate, end: float, loaded: ExitStack
    ) -> Iterator[tuple[CompiledCandidate, ScheduleCandidate]]:
        """Those that fit, and compute what the chosen one does."""
        expected = chosen.results() if compiled else []
        for made in compiled:
            if time.monotonic() >= end:
                return
            self.found.tried += 1
            if isinstance(made, BluError):
                self.found.misfits += 1
                continue
            candidate = loaded.enter_context(ScheduleCandidate.load(made, chosen.inputs))
            if problem := difference(candidate, expected):
                self.found.wrong.append(f"{differing(made.schedule, self.chosen.schedule)}: {problem}")
            else:
                yield made, candidate

    def _look_around(self) -> None:
        """Let those neighbours of the best wait that are new and may be faster, the likeliest first."""
        expected = {}
        for given in self.problem.scheduler.neighbours(self.best.schedule):
            if self._is_new(given):
                expected[frozenset(given.items())] = given, self.problem.expected(given)
        usual = self.problem.expected(self.best.schedule)
        most = UNLIKELY * usual or float("inf")
        likely = [(given, clocks or usual) for given, clocks in expected.values() if clocks <= most]
        self.found.unlikely += len(expected) - len(likely)
        self.waiting = [given for given, _ in sorted(likely, key=lambda item: item[1])] + self.waiting

    def _is_new(self, schedule: Fields) -> bool:
        key = frozenset(schedule.items())
        is_new = key not in self.seen
        self.seen.add(key)
        return is_new

    def _beats(self, candidate: ScheduleCandidate, best: ScheduleCandidate) -> bool:
        first, other = compare(candidate, best, 1)
        if first <= HOPELESS * other:
            first, other = compare(candidate, best, ROUNDS)
        self.tell(f"{other / first:.2f} {differing(candidate.schedule, best.schedule)}")
        return other > GAIN * first


def differing(schedule: Fields, other: Fields) -> str:
    """The fields that are not another schedule's, in words."""
    words = [f"{name} = {value}" for name, value in schedule.items() if other.get(name) != value]
    return ", ".join(words) or "as chosen"
