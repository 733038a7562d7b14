"""Launches that begin before those before them are over: what they do until they have waited.

A launch that is early may begin as soon as every block of the one before has let it, or is over. Its own wait is for
the one before to be over, and so for all before that if that one has waited as well. What it reads until then must be
written by none of those that may still run, and what it writes must not be touched by them. The first launch of a
program, if it is early, begins beside whatever the GPU was given before: it touches nothing, and does wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.ptx.global_races import GlobalRaces
from tests.support.ptx.layout import Spans, overlap


class OrderError(AssertionError):
    """A launch touches memory that one before it, which may still run, writes or reads."""


@dataclass(frozen=True)
class _Launch:
    """What a launch does, which ones may run beside it until it has waited, and which ones after that."""

    name: str
    watch: GlobalRaces
    reads: Spans
    writes: Spans
    beside: Sequence[_Launch]
    behind: Sequence[_Launch]


@dataclass
class LaunchOrder:
    """The launches of a program, in order."""

    _last: _Launch | None = field(default=None)
    _is_begin: bool = field(default=True)

    def end(self) -> None:
        """Everything is over before the program goes on: the host does something, or is asked for."""
        self._last, self._is_begin = None, False

    def add(self, name: str, is_early: bool, watch: GlobalRaces) -> None:
        """A launch follows. OrderError if it does too much before those before it are over."""
        beside, behind = self._running() if is_early else ([], [])
        if is_early and self._is_begin:
            _check_first(name, watch)
        launch = _Launch(name, watch, watch.reads, watch.writes, beside, behind)
        _check(launch, beside, watch.early_reads, watch.early_writes, "before it has waited")
        _check(launch, behind, launch.reads, launch.writes, "though it has waited")
        self._last, self._is_begin = launch, False

    def _running(self) -> tuple[list[_Launch], list[_Launch]]:
        """Those that may still run when the next launch begins early, and when it has waited."""
        last = self._last
        if last is None:
            return [], []
        behind = [] if last.watch.has_waited else [*last.beside]
        return [last, *(last.behind if last.watch.is_late else last.beside)], behind


def _check_first(name: str, watch: GlobalRaces) -> None:
    """What came before the program is not known, and may be about to touch anything."""
    if len(watch.early_reads) or len(watch.early_writes) or not watch.has_waited:
        raise OrderError(f"{name} does not wait for what came before the program")


def _check(launch: _Launch, running: Sequence[_Launch], reads: Spans, writes: Spans, when: str) -> None:
    for other in running:
        for mine, theirs, does, did in (
            (reads, other.writes, "reads", "writes"),
            (writes, other.writes, "writes", "writes"),
            (writes, other.reads, "writes", "reads"),
        ):
            both = overlap(mine, theirs)
            if both is not None:
                size = both[1] - both[0]
                raise OrderError(f"{launch.name} {does} {size} bytes {when} that {other.name}, which may run, {did}")
