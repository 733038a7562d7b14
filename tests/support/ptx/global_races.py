"""Races in global memory between the threads of one launch, and what a launch does before others are over.

Blocks of a launch know nothing of each other, unless they are of one cluster or one waits for another's counter, and
the order in which they add to a counter tells nobody anything. So two blocks that write one byte are a race, and so is
one that writes what another one reads, whichever comes first here. Within a block or cluster barriers must keep
accesses apart, as in shared memory (races.py), but for lanes that read before others of their warp write; what several
warps have read counts as read by all. What is read as memory that nobody writes (ld.global.nc) must be that. Copies to
shared memory read when they begin; bulk copies to global memory are never over for others.

A number that is read while it is written may be anything. So a launch in which that happens is run once more, in which
it is NaN: if the results are others then, it was a race. Attention that puts rows into the keys that it reads is none.

What is read where nothing has been written is noted later: once something is, or when the launch is over.

Until a thread has come to `griddepcontrol.wait`, launches before this one may still run. What is read and written until
then is noted, and whether the next launch may begin that early: launch_order.py compares launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tests.support.ptx.layout import Layout, Spans
from tests.support.ptx.races import SEVERAL, RaceError, Races, note

_ELSEWHERE = 1 << 62
"""Where tables and tensor maps are, which are no arrays of the program."""
_NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class _Doubtful:
    """Which units were read while they were written, and by which thread of which cluster these were written."""

    units: np.ndarray
    writer: np.ndarray
    by: np.ndarray


class _Read(NamedTuple):
    """Accesses that read, and what was known of their threads at the time."""

    first: np.ndarray
    size: int
    groups: np.ndarray
    warps: np.ndarray
    waits: np.ndarray
    time: int
    is_constant: bool


class GlobalRaces:
    """Watches a launch whose buffers are at the addresses `real`.

    `race` is the first one that matters if what was read does. `line` is that of the instruction that runs.
    `has_waited`: the launch is over no sooner than those before it. `is_late`: so does the next one begin, as a block
    lets it begin after it has waited.
    """

    def __init__(self, real: Sequence[int], doubtful: _Doubtful | None = None):
        self._real, self._doubtful = list(real), doubtful
        self.race, self.line = "", 0
        self.has_waited = self.is_late = False

    def again(self) -> GlobalRaces:
        """For another run, in which what was read while it was written is NaN."""
        return GlobalRaces(self._real, _Doubtful(self._is_doubtful, self._writer, self._by))

    def begin(self, starts: Sequence[int], sizes: Sequence[int], unit: int, cluster: int) -> None:
        """The launch begins: buffers, and after them what else it is given, are at `starts` of the machine's memory.

        It accesses `unit` bytes or more at a time; so many blocks are a cluster.
        """
        real = [*self._real, *(_ELSEWHERE + start for start in starts[len(self._real) :])]
        self._layout, self._cluster = Layout(starts, real, sizes), cluster
        self._unit = int(np.gcd(unit, self._layout.unit))
        self._shift, size = self._unit.bit_length() - 1, -(-self._layout.size // self._unit)
        # By the place of a counter: what who wrote it had seen of clusters, and until when.
        self._said: dict[int, dict[int, int]] = {}
        # Which cluster wrote a unit last (from 1 on; 0: none), which of its threads here, and when.
        self._writer, self._by, self._written = (np.zeros(size, np.int32) for _ in range(3))
        # Which cluster has read it since, or several; which of its warps, from 1 on, or several; when last.
        self._reader, self._read_by, self._last_read = (np.zeros(size, np.int32) for _ in range(3))
        # Of each piece what was read while nobody had written there; whether somebody has; whether reads are noted.
        self._later: list[list[_Read]] = [[] for _ in self._layout.pieces]
        self._has_writers, self._has_readers = ([False for _ in self._layout.pieces] for _ in range(2))
        self._is_constant, self._is_doubtful, self._is_read, self._is_written, self._read_early, self._written_early = (
            np.zeros(size, np.bool_) for _ in range(6)
        )

    def enter(self, numbers: np.ndarray, threads: int, races: Races) -> None:
        """Blocks of these numbers run now, of so many threads each; `races` knows which warp has seen what."""
        self._races, count = races, threads * len(numbers)
        self._groups = np.repeat(numbers // self._cluster + 1, threads).astype(np.int32)
        self._numbers, self._own = numbers, np.tile(np.arange(threads), len(numbers))
        self._block = np.repeat(np.arange(len(numbers)), threads)
        self._waits = np.zeros(count, np.bool_)
        self._heard: dict[int, dict[int, int]] = {}
        self._lets_begin, self._lets_late = (np.zeros(len(numbers), np.bool_) for _ in range(2))

    def release(self, first: int, thread: int) -> None:
        """A thread writes a counter after all that its group has written, as far as the thread has seen that."""
        heard = dict(self._heard.get(thread, {}))
        heard[int(self._groups[thread])] = self._races.now
        self._said[first] = heard
        self._is_written[self._units(np.array([first]), 4)] = True

    def acquire(self, first: int, thread: int) -> None:
        """A thread reads a counter, and sees what had been seen by who wrote it."""
        self._heard.setdefault(thread, {}).update(self._said.get(first, {}))
        self._is_read[self._units(np.array([first]), 4)] = True

    def count(self, first: int) -> None:
        """A thread adds to a counter, as others may at the same time, and learns nothing of what these have done."""
        units = self._units(np.array([first]), 4)
        self._is_read[units] = self._is_written[units] = True

    def end_copy(self, first: int, size: int) -> None:
        """A copy to global memory is over for others."""
        self._written[self._units(np.array([first]), size)] = self._races.now

    def leave(self) -> None:
        """The blocks are over. One that let nothing begin does now."""
        waited = np.zeros(len(self._lets_begin), np.bool_)
        waited[self._block[self._waits]] = True
        self.has_waited |= bool(waited.any())
        self.is_late |= bool((self._lets_late | waited & ~self._lets_begin).any())

    def wait(self, active: np.ndarray) -> None:
        """Threads have waited for the launches before this one."""
        self._waits |= active

    def let_begin(self, active: np.ndarray) -> None:
        """Threads let the next launch begin, as far as it is up to their blocks; the first one of a block counts."""
        is_first = active & ~self._lets_begin[self._block]
        self._lets_begin[self._block[active]] = True
        self._lets_late[self._block[is_first & self._waits]] = True

    # -- accesses ----------------------------------------------------------------------------------------------------

    def read(self, first: np.ndarray, size: int, threads: np.ndarray, is_constant: bool = False) -> np.ndarray | None:
        """Threads [accesses] read `size` bytes from the places `first` of the machine's memory on.

        Which of these [accesses, size] may be anything; None: none.
        """
        piece = self._layout.piece_of(first)
        read = _Read(
            first, size, self._groups[threads][:, None], self._races.warp_of[threads][:, None], self._waits[threads],
            self._races.now, is_constant,
        )  # fmt: skip
        if piece is not None and not self._has_writers[piece] and self._doubtful is None:
            self._later[piece].append(read)
            return None
        self._catch_up(self._layout.pieces if piece is None else [piece], is_read=True)
        units = self._units(first, size)
        if is_constant:  # who writes there is refused, whoever has read it
            self._note_read(read)
            self._refuse(self._writer[units] != 0, units, threads, "reads as constant", "is written")
            return None
        unseen = self._unseen(units, read.groups, threads)
        self._doubt(unseen, units, threads, "reads", "another thread has written")
        self._note_read(read)
        return self._anything(units, read.groups, threads, unseen, size)

    def _catch_up(self, pieces: Iterable[int], is_read: bool = False) -> None:
        """Note what was read of some pieces so far; from now on it is noted at once."""
        for piece in pieces:
            for read in self._later[piece]:
                self._note_read(read)
            self._has_readers[piece] |= is_read or bool(self._later[piece])
            self._later[piece] = []

    def _note_read(self, read: _Read) -> None:
        units = self._units(read.first, read.size)
        self._is_read[units] = True
        _note_early(self._read_early, units, read.waits)
        if read.is_constant:
            self._is_constant[units] = True
            return
        is_first = self._reader[units] == 0
        note(self._reader, units, read.groups, is_first)
        note(self._read_by, units, read.warps + 1, is_first)
        self._last_read[units] = read.time

    def read_now(self, first: np.ndarray, size: int, threads: np.ndarray) -> None:
        """The same of a copy, of what nobody writes at the time."""
        if self.read(first, size, threads) is not None:
            raise RaceError("a copy reads what is written")

    def write(self, first: np.ndarray, size: int, threads: np.ndarray, is_over: bool = True) -> None:
        """Threads [accesses] write bytes, by a copy that is not over for others if that is said."""
        piece = self._layout.piece_of(first)
        pieces = self._layout.pieces if piece is None else [piece]
        self._catch_up(pieces)
        for number in pieces:
            self._has_writers[number] = True
        units, groups, own = self._units(first, size), self._groups[threads][:, None], threads[:, None]
        self._is_written[units] = True
        _note_early(self._written_early, units, self._waits[threads])
        has_readers = any(self._has_readers[number] for number in pieces)
        if has_readers:
            self._refuse(self._is_constant[units], units, threads, "writes to", "is read as constant")
        self._refuse(self._unseen(units, groups, threads), units, threads, "writes to", "another thread has written")
        if has_readers:
            unread = self._unread(units, groups, threads)
            self._doubt(unread, units, threads, "writes to", "another thread has read")
            self._reader[units], self._read_by[units] = 0, 0
        self._writer[units], self._by[units] = groups, own
        self._written[units] = self._races.now if is_over else _NEVER
        warps = self._races.warp_of
        others = (warps[self._by[units]] != warps[own]) | (self._writer[units] != groups)
        self._refuse(others, units, threads, "writes to", "another thread writes to at a time")

    def _units(self, first: np.ndarray, size: int) -> np.ndarray:
        watched = self._layout.watched(first)[:, None]
        return (watched + np.arange(0, size, self._unit) if size > self._unit else watched) >> self._shift

    # -- checks ------------------------------------------------------------------------------------------------------

    def _unseen(self, units: np.ndarray, groups: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """Which units were written by a thread that these have not seen do so."""
        writers = self._writer[units]
        if not np.count_nonzero(writers):
            return np.zeros(units.shape, np.bool_)
        writer = np.where(writers == groups, self._by[units], threads[:, None])
        unseen = ~self._races.has_seen(threads[:, None], writer, self._written[units])
        others = (writers != 0) & (writers != groups)
        for place, thread in enumerate(threads if self._heard else []):
            for group, until in self._heard.get(int(thread), {}).items():
                known = (writers[place] == group) & (self._written[units[place]] <= until)
                unseen[place] &= ~known
                others[place] &= ~known
        return unseen | others

    def _unread(self, units: np.ndarray, groups: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """Which units were read by a warp that these threads have not seen do so."""
        readers = self._reader[units]
        if not np.count_nonzero(readers):
            return np.zeros(units.shape, np.bool_)
        warps, known = self._races.warp_of[threads][:, None], self._races.known
        by, read = self._read_by[units], self._last_read[units]
        unseen = (by > 0) & (by - 1 != warps) & (read > known[warps, np.maximum(by - 1, 0)])
        unseen |= (by == SEVERAL) & (read > self._races.known_of_all()[warps])
        return unseen | (readers == SEVERAL) | (readers > 0) & (readers != groups)

    def _anything(
        self, units: np.ndarray, groups: np.ndarray, threads: np.ndarray, unseen: np.ndarray, size: int
    ) -> np.ndarray | None:
        """Which bytes may be anything, in another run: doubtful ones of other warps that were not seen written."""
        if self._doubtful is None or not self._doubtful.units[units].any():
            return None
        warps = self._races.warp_of
        is_own = (self._doubtful.writer[units] == groups) & (
            warps[np.where(self._doubtful.writer[units] == groups, self._doubtful.by[units], 0)]
            == warps[threads][:, None]
        )
        found = self._doubtful.units[units] & ~is_own & (unseen | (self._writer[units] == 0))
        return np.repeat(found, self._unit, axis=1)[:, :size] if found.any() else None

    def _doubt(self, wrong: np.ndarray, units: np.ndarray, threads: np.ndarray, does: str, why: str) -> None:
        """Note that units are read while they are written."""
        if not np.count_nonzero(wrong):
            return
        self._is_doubtful[units[wrong]] = True
        self.race = self.race or f"(line {self.line}): {self._describe(wrong, units, threads, does, why)}"

    def _refuse(self, wrong: np.ndarray, units: np.ndarray, threads: np.ndarray, does: str, why: str) -> None:
        if np.count_nonzero(wrong):
            raise RaceError(self._describe(wrong, units, threads, does, why))

    def _describe(self, wrong: np.ndarray, units: np.ndarray, threads: np.ndarray, does: str, why: str) -> str:
        access, unit = (int(found[0]) for found in np.nonzero(wrong))
        real, thread = self._layout.real(int(units[access, unit]) * self._unit), int(threads[access])
        number = max((begin, number) for number, begin in enumerate(self._real) if begin <= real)[1]
        where = f"byte {real - self._real[number]} of argument {number}"
        block = int(self._numbers[self._block[thread]])
        return f"thread {self._own[thread]} of block {block} {does} {where}, which {why}"

    # -- what others must know ---------------------------------------------------------------------------------------

    @property
    def reads(self) -> Spans:
        """What the launch reads."""
        self._end_reads()
        return self._layout.spans(self._is_read, self._unit)

    @property
    def writes(self) -> Spans:
        """What it writes."""
        return self._layout.spans(self._is_written, self._unit)

    @property
    def early_reads(self) -> Spans:
        """What it reads before it has waited."""
        self._end_reads()
        return self._layout.spans(self._read_early, self._unit)

    @property
    def early_writes(self) -> Spans:
        """What it writes before it has waited."""
        return self._layout.spans(self._written_early, self._unit)

    def _end_reads(self) -> None:
        """Note where reads were of which nothing more is asked, as the launch is over."""
        for later in self._later:
            for read in later:
                units = self._units(read.first, read.size)
                self._is_read[units] = True
                _note_early(self._read_early, units, read.waits)
            later.clear()


def _note_early(noted: np.ndarray, units: np.ndarray, waits: np.ndarray) -> None:
    """Note the units of threads that have not waited."""
    count = np.count_nonzero(waits)
    if not count:
        noted[units] = True
    elif count < len(waits):
        noted[units[~waits]] = True
