"""Races in shared memory, for the machine of machine.py.

Every access has a time, and every warp knows up to which time it has seen what each other warp did: all that came
before a barrier at which both were, or that it was told of in between. An access is a race where one of the two writes
and the later warp has not seen the earlier access. Bytes that a copy is on its way to must not be touched at all until
it has been waited for. Lanes of one warp see what the others did once the warp, or the block, has met at a barrier;
one that arrives at an mbarrier speaks for itself, and for what others did before the warp met.

Copies that an mbarrier counts are made by the barrier: who has seen the end of its phase has seen them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

WARP = 32
_BARRIERS = 64
"""The most mbarriers that a block has."""
_ALWAYS = np.iinfo(np.int32).max
SEVERAL = -1
"""In the place of a number: there is more than one."""
_OF_SEVERAL = np.array([[SEVERAL]])
_THREADS = 1024
"""Of so many arrays of threads it is kept what was found of them."""


class RaceError(AssertionError):
    """Two warps use the same shared memory, one of them writes, and nothing keeps one access before the other."""


@dataclass
class _Meeting:
    """An mbarrier: what those know who arrived in this phase, and what those knew who arrived in the one before."""

    actor: int
    gathered: np.ndarray
    published: np.ndarray
    lanes_gathered: np.ndarray
    lanes_published: np.ndarray


class _Who(NamedTuple):
    """Of accesses [accesses, 1]: by which threads [accesses], their warps, lanes counted from 1, the warps' numbers in
    their blocks, where `known` has what warps know of themselves, and their first lanes; whether they are one warp."""

    threads: np.ndarray
    warps: np.ndarray
    lanes: np.ndarray
    own: np.ndarray
    themselves: np.ndarray
    firsts: np.ndarray
    is_one: bool


class Races:
    """Watches the shared memory of `blocks` blocks of `threads` threads and `shared_bytes` bytes each.

    They are a cluster if they are joined, else have nothing to do with each other. What lies in a unit of `unit` bytes
    (a power of two) is watched as one: places are numbers of units in the memory of all of them, [accesses, units of
    each].
    """

    def __init__(self, threads: int, blocks: int, shared_bytes: int, are_joined: bool = True, unit: int = 1):
        assert shared_bytes % unit == 0, f"{shared_bytes} bytes in units of {unit}"
        self._warps_of_block, self._unit, self._shift = -(-threads // WARP), unit, unit.bit_length() - 1
        warps, size = self._warps_of_block * blocks, shared_bytes * blocks // unit
        self._units_of_block, self.now, self._settled = shared_bytes // unit, 1, 0
        block, own = np.divmod(np.arange(threads * blocks), threads)
        self.warp_of = block * self._warps_of_block + own // WARP
        self._most_barriers = _BARRIERS * blocks
        # Who knows of whom (warps, then mbarriers) up to which time.
        self.known = np.zeros((warps, warps + self._most_barriers), np.int32)
        self._are_joined = are_joined
        # For each warp those of its block.
        self._of_own_block = np.arange(warps)[:, None] // self._warps_of_block * self._warps_of_block + np.arange(
            self._warps_of_block
        )
        if not are_joined:
            block = np.arange(warps) // self._warps_of_block
            self.known[:, :warps][block[:, None] != block] = _ALWAYS  # of whom nothing needs to be known
        # Who knows of which lane more than of its warp.
        self._lane_of = self.warp_of * WARP + own % WARP
        self._told = np.zeros((warps, warps * WARP), np.int32)
        self._word, self._lanes_word = np.zeros_like(self.known[0]), np.zeros_like(self._told[0])
        if threads % WARP:  # of lanes that there are not, as well
            self._told[:, np.setdiff1d(np.arange(warps * WARP), self._lane_of)] = _ALWAYS
        self._known_threads: dict[int, _Who] = {}
        self._meetings: dict[int, _Meeting] = {}
        # `_written` is _ALWAYS where a copy is on its way to.
        self._writer, self._written = np.zeros(size, np.int16), np.zeros(size, np.int32)
        self._read, self._last_read = np.zeros((size, self._warps_of_block), np.int32), np.zeros(size, np.int32)
        # By which thread, and which of each warp has read last or several, counted from 1.
        self._by, self._read_by = np.zeros(size, np.int16), np.zeros(self._read.size, np.int16)
        self._on_its_way, self._leaves = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        # By which thread, counted from 1, bytes were written that bulk copies do not see yet.
        self._hidden = np.zeros(size, np.int16)

    def places(self, first: np.ndarray, size: int) -> np.ndarray:
        """The places of accesses to `size` bytes from the bytes `first` [accesses] on."""
        units = (first >> self._shift)[:, None]
        return units + self._steps(size >> self._shift) if size > self._unit else units

    @staticmethod
    @cache
    def _steps(count: int) -> np.ndarray:
        return np.arange(count)

    def _who(self, threads: np.ndarray) -> _Who:
        """Of accesses by these threads."""
        found = self._known_threads.get(id(threads))
        if found is None or found.threads is not threads:
            warps = self.warp_of[threads][:, None]
            own, firsts = warps % self._warps_of_block, (threads - threads % WARP)[:, None] + 1
            is_one = bool((warps == warps[:1]).all())
            found = _Who(threads, warps, threads[:, None] + 1, own, warps * (self.known.shape[1] + 1), firsts, is_one)
            if len(self._known_threads) == _THREADS:
                self._known_threads.clear()
            self._known_threads[id(threads)] = found
        return found

    # -- accesses ----------------------------------------------------------------------------------------------------

    def read(self, units: np.ndarray, threads: np.ndarray, for_all: bool = False) -> None:
        """Threads [accesses] read bytes of their own block: for themselves, or for all lanes of their warps."""
        who = self._who(threads)
        self._check_writers(units, who.warps, _OF_SEVERAL if for_all else who.lanes, "reads")
        places = units * self._warps_of_block + who.own
        read = self._read.reshape(-1)
        is_first = read.take(places) <= self.known.reshape(-1).take(who.themselves)
        read[places] = self._last_read[units] = self.now
        # What a warp reads as one is over when it is for its first lane.
        note(self._read_by, places, who.firsts if for_all else who.lanes, is_first)

    def write(self, units: np.ndarray, threads: np.ndarray) -> None:
        """Threads [accesses] write bytes."""
        who = self._who(threads)
        warps, lanes = who.warps, who.lanes
        self._check_writers(units, warps, lanes, "writes to")
        self._check_readers(units, warps, lanes)
        self._refuse(self._leaves.take(units), units, warps, "writes to", "a copy reads that has not been waited for")
        self._writer[units], self._written[units] = warps, self.now
        self._hidden[units] = self._by[units] = lanes
        if not who.is_one:
            others = self._writer.take(units) != warps
            self._refuse(others, units, warps, "writes to", "another warp writes to at a time")

    def begin_copy(self, units: np.ndarray, threads: np.ndarray) -> None:
        """Threads [accesses] begin to copy something to bytes that nobody may touch before `end_copy`."""
        self.write(units, threads)
        self._on_its_way[units], self._written[units] = True, _ALWAYS

    def end_copy(self, units: np.ndarray, threads: np.ndarray) -> None:
        """The threads that began copies have waited for them."""
        self._on_its_way[units] = False
        self._writer[units], self._written[units] = self.warp_of[threads][:, None], self.now

    def end_counted_copy(self, units: np.ndarray, barrier: int) -> None:
        """An mbarrier has counted all bytes of a copy."""
        self._on_its_way[units], self._hidden[units] = False, 0
        self._writer[units], self._written[units] = self._meeting(barrier).actor, self.now

    def begin_store(self, units: np.ndarray, thread: int) -> None:
        """A thread begins to copy bytes [pieces, size] that nobody may write to before `end_store`."""
        warps = np.broadcast_to(self.warp_of[thread], units.shape)
        self._check_writers(units, warps, np.full((1, 1), thread + 1), "copies")
        self._refuse(self._hidden[units] > 0, units, warps, "copies", "was written with no fence.proxy.async since")
        self._leaves[units] = True

    def end_store(self, units: np.ndarray) -> None:
        """What was copied from these bytes has been read."""
        self._leaves[units] = False

    def show(self, threads: np.ndarray) -> None:
        """Bulk copies see what these threads have written."""
        is_shown = np.zeros(len(self.warp_of) + 1, np.bool_)
        is_shown[threads + 1] = True
        self._hidden[is_shown[self._hidden]] = 0

    # -- what keeps accesses apart -----------------------------------------------------------------------------------

    def meet(self, threads: np.ndarray) -> None:
        """The warps of these threads meet at a barrier."""
        warps = self._warps_of(threads)
        known = self.known[warps].max(axis=0)
        known[warps] = self.now
        self.known[warps], self._told[warps] = known, self._told[warps].max(axis=0)
        self._go_on()

    def meet_lanes(self, threads: np.ndarray) -> None:
        """All lanes of the warps of these threads meet."""
        warps = self._warps_of(threads)
        self.known[warps, warps] = self.now
        self._go_on()

    def leave_word(self) -> None:
        """All threads of a cluster say that they have come so far."""
        self._word = self.known.max(axis=0)
        self._word[: len(self.known)] = self.now
        self._lanes_word = self._told.max(axis=0)
        self._go_on()

    def take_word(self) -> None:
        """All threads of a cluster see what each one did before it left word."""
        self.known, self._told = np.maximum(self.known, self._word), np.maximum(self._told, self._lanes_word)
        self._go_on()

    def tell(self, threads: np.ndarray, barrier: int, for_warps: bool = False) -> None:
        """Threads arrive at an mbarrier, or their warps at a named one: what they have seen and done is known to who
        waits there. What other lanes have done since the warp met is not."""
        warps, meeting = self._warps_of(threads), self._meeting(barrier)
        meeting.gathered = np.maximum(meeting.gathered, self.known[warps].max(axis=0))
        meeting.lanes_gathered = np.maximum(meeting.lanes_gathered, self._told[warps].max(axis=0))
        if for_warps:
            meeting.gathered[warps] = self.now
        meeting.lanes_gathered[self._lane_of[threads]] = self.now
        self._go_on()

    def end_phase(self, barrier: int) -> None:
        """All have arrived at an mbarrier, and all that it counts has come."""
        meeting = self._meeting(barrier)
        meeting.gathered[meeting.actor] = self.now
        meeting.published, meeting.lanes_published = meeting.gathered.copy(), meeting.lanes_gathered.copy()
        self._go_on()

    def hear(self, threads: np.ndarray, barrier: int) -> None:
        """Threads have seen the end of an mbarrier's last phase."""
        warps, meeting, count = self._warps_of(threads), self._meeting(barrier), len(self.known)
        self.known[warps] = np.maximum(self.known[warps], meeting.published)
        self._told[warps] = np.maximum(self._told[warps], meeting.lanes_published)
        of_all_lanes = self._told[warps].reshape(-1, count, WARP).min(axis=2)
        self.known[warps, :count] = np.maximum(self.known[warps, :count], of_all_lanes)

    def has_seen(self, threads: np.ndarray, others: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Whether threads have seen what others, or they themselves, did at some time."""
        return (threads == others) | (times <= self.known[self.warp_of[threads], self.warp_of[others]])

    def known_of_all(self) -> np.ndarray:
        """For each warp up to which time it has seen what any other one did."""
        return np.where(np.eye(len(self.known), dtype=np.bool_), _ALWAYS, self.known[:, : len(self.known)]).min(axis=1)

    def _warps_of(self, threads: np.ndarray) -> np.ndarray:
        """The numbers, in the cluster, of the warps that threads are in."""
        is_there = np.zeros(len(self.known), np.bool_)
        is_there[self.warp_of[threads]] = True
        return np.flatnonzero(is_there)

    def _go_on(self) -> None:
        self.now += 1
        # What everybody has seen; not worth asking for each access.
        self._settled = int(self.known[:, : len(self.known) + len(self._meetings)].min())

    def _meeting(self, barrier: int) -> _Meeting:
        if barrier not in self._meetings:
            assert len(self._meetings) < self._most_barriers, f"more than {self._most_barriers} barriers"
            actor, nothing = len(self.known) + len(self._meetings), np.zeros(self.known.shape[1], np.int32)
            self._meetings[barrier] = _Meeting(actor, nothing, nothing, *[np.zeros(self._told.shape[1], np.int32)] * 2)
            self._settled = 0
        return self._meetings[barrier]

    def unseen_copies(self) -> int:
        """How many bytes mbarriers have counted, of copies whose phases' ends nobody has seen."""
        is_counted = self._writer >= len(self.known)
        last_seen = self.known.max(axis=0)[self._writer[is_counted]]
        return int(np.count_nonzero(self._written[is_counted] > last_seen)) * self._unit

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check_writers(self, units: np.ndarray, warps: np.ndarray, lanes: np.ndarray, does: str) -> None:
        written = self._written.take(units)
        if not written.size or int(np.maximum.reduce(written, None)) <= self._settled:
            return
        writer = self._writer.take(units)
        # As is what a copy is on its way to.
        late = written > self.known.reshape(-1).take(warps * self.known.shape[1] + writer)
        if not np.count_nonzero(late):
            return
        warps, by = np.broadcast_to(warps, units.shape), self._by[units]
        on_its_way = self._on_its_way[units]
        self._refuse(on_its_way, units, warps, does, "a copy is on its way to that has not been waited for")
        is_other = writer != warps
        unseen = late & (is_other | (by != lanes))
        if not np.count_nonzero(unseen):
            return
        unseen &= ~((writer < len(self.known)) & self._was_told(warps, by, written))
        why = "another warp has written with no barrier since"
        self._refuse(unseen & is_other, units, warps, does, why)
        self._refuse(unseen, units, warps, does, "another lane has written with no barrier of the warp since")

    def _check_readers(self, units: np.ndarray, warps: np.ndarray, lanes: np.ndarray) -> None:
        recent = self._last_read.take(units) > self._settled
        if not np.count_nonzero(recent):
            return
        warps, lanes = np.broadcast_to(warps, units.shape)[recent], np.broadcast_to(lanes, units.shape)[recent]
        units, read = units[recent], self._read.take(units[recent], 0)
        if self._are_joined:
            readers = (units // self._units_of_block * self._warps_of_block)[:, None] + np.arange(self._warps_of_block)
            late = read > self.known[warps[:, None], readers]
        else:
            readers = self._of_own_block
            late = read > np.take_along_axis(self.known, readers, 1).take(warps, 0)
            readers = readers.take(warps, 0) if np.count_nonzero(late) else readers
        if not np.count_nonzero(late):
            return
        by = self._read_by.reshape(self._read.shape)[units]
        is_other = readers != warps[:, None]
        unseen = late & (is_other | (by != lanes[:, None]))
        if not np.count_nonzero(unseen):
            return
        unseen &= ~self._was_told(warps[:, None], by, read)
        why = "another warp has read with no barrier since"
        self._refuse((unseen & is_other).any(1), units, warps, "writes to", why)
        why = "another lane has read with no barrier of the warp since"
        self._refuse(unseen.any(1), units, warps, "writes to", why)

    def _was_told(self, warps: np.ndarray, by: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Whether warps were told of what a thread, counted from 1, did at some time; of several they were not."""
        return (by > 0) & (times <= self._told[warps, self._lane_of[np.maximum(by - 1, 0)]])

    def _refuse(self, wrong: np.ndarray, units: np.ndarray, warps: np.ndarray, does: str, why: str) -> None:
        if not np.count_nonzero(wrong):
            return
        warps = np.broadcast_to(warps, units.shape)
        block, unit = divmod(int(units[wrong][0]), self._units_of_block)
        byte, warp = unit * self._unit, int(warps[wrong][0])
        raise RaceError(f"warp {warp} {does} byte {byte} of the shared memory of block {block}, which {why}")


@lru_cache(maxsize=_THREADS)
def alone(thread: int, count: int) -> np.ndarray:
    """The thread of so many accesses, where it is one."""
    return np.full(count, thread)


def note(noted: np.ndarray, units: np.ndarray, value: np.ndarray, is_first: np.ndarray) -> None:
    """Note a value for units, where it is the first one, or that there are several."""
    before = noted.take(units)
    is_same = before == value
    if np.count_nonzero(is_same) == units.size:
        return
    noted[units] = np.where(is_first | is_same, value, SEVERAL)
    lost = noted.take(units) != value
    if np.count_nonzero(lost):
        noted[units[lost]] = SEVERAL
