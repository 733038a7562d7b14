"""Races between warps in shared memory, for the machine of machine.py.

Every access has a time, and every warp knows up to which time it has seen what each other warp did: all that came
before a barrier at which both were, or that it was told of in between. An access is a race where one of the two writes
and the later warp has not seen the earlier access. Bytes that a copy is on its way to must not be touched at all until
it has been waited for. Lanes of one warp are not told apart.

Copies that an mbarrier counts are made by the barrier: who has seen the end of its phase has seen them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WARP = 32
_BARRIERS = 64
"""The most mbarriers that a cluster has, or a block that is in none."""
_ALWAYS = np.iinfo(np.int32).max


class RaceError(AssertionError):
    """Two warps use the same shared memory, one of them writes, and nothing keeps one access before the other."""


@dataclass
class _Meeting:
    """An mbarrier: what those know who arrived in this phase, and what those knew who arrived in the one before."""

    actor: int
    gathered: np.ndarray
    published: np.ndarray


class Races:
    """Watches the shared memory of `blocks` blocks of `threads` threads and `shared_bytes` bytes each.

    They are a cluster if they are joined, else have nothing to do with each other. Places are numbers of bytes in the
    memory of all of them, [accesses, bytes of each].
    """

    def __init__(self, threads: int, blocks: int, shared_bytes: int, are_joined: bool = True):
        self._warps_of_block = -(-threads // WARP)
        warps, size = self._warps_of_block * blocks, shared_bytes * blocks
        self._threads, self._shared_bytes, self._now, self._settled = threads, shared_bytes, 1, 0
        self._most_barriers = _BARRIERS * (1 if are_joined else blocks)
        # Who knows of whom (warps, then mbarriers) up to which time.
        self._known = np.zeros((warps, warps + self._most_barriers), np.int32)
        if not are_joined:
            block = np.arange(warps) // self._warps_of_block
            self._known[:, :warps][block[:, None] != block] = _ALWAYS  # of whom nothing needs to be known
        self._meetings: dict[int, _Meeting] = {}
        self._writer, self._written = np.zeros(size, np.int16), np.zeros(size, np.int32)
        self._read, self._last_read = np.zeros((self._warps_of_block, size), np.int32), np.zeros(size, np.int32)
        self._on_its_way, self._leaves = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        # By which thread, counted from 1, bytes were written that bulk copies do not see yet.
        self._hidden = np.zeros(size, np.int16)

    # -- accesses ----------------------------------------------------------------------------------------------------

    def read(self, places: np.ndarray, threads: np.ndarray) -> None:
        """Threads [accesses] read bytes of their own block."""
        warps = self.warps_of(threads)[:, None]
        self._check_writers(places, warps, "reads")
        self._read[warps % self._warps_of_block, places] = self._now
        self._last_read[places] = self._now

    def write(self, places: np.ndarray, threads: np.ndarray) -> None:
        """Threads [accesses] write bytes."""
        warps = np.broadcast_to(self.warps_of(threads)[:, None], places.shape)
        self._check_writers(places, warps, "writes to")
        self._check_readers(places, warps)
        self._refuse(self._leaves[places], places, warps, "writes to", "a copy reads that has not been waited for")
        self._writer[places], self._written[places] = warps, self._now
        self._hidden[places] = threads[:, None] + 1
        self._refuse(self._writer[places] != warps, places, warps, "writes to", "another warp writes to at a time")

    def begin_copy(self, places: np.ndarray, threads: np.ndarray) -> None:
        """Threads [accesses] begin to copy something to bytes that nobody may touch before `end_copy`."""
        self.write(places, threads)
        self._on_its_way[places] = True

    def end_copy(self, places: np.ndarray, threads: np.ndarray) -> None:
        """The threads that began copies have waited for them."""
        self._on_its_way[places] = False
        self._writer[places], self._written[places] = self.warps_of(threads)[:, None], self._now

    def end_counted_copy(self, places: np.ndarray, barrier: int) -> None:
        """An mbarrier has counted all bytes of a copy."""
        self._on_its_way[places], self._hidden[places] = False, 0
        self._writer[places], self._written[places] = self._meeting(barrier).actor, self._now

    def begin_store(self, places: np.ndarray, thread: int) -> None:
        """A thread begins to copy bytes [pieces, size] that nobody may write to before `end_store`."""
        warps = self.warps_of(np.full(len(places), thread))[:, None]
        self._check_writers(places, warps, "copies")
        self._refuse(self._hidden[places] > 0, places, np.broadcast_to(warps, places.shape), "copies",
                     "was written with no fence.proxy.async since")  # fmt: skip
        self._leaves[places] = True

    def end_store(self, places: np.ndarray) -> None:
        """What was copied from these bytes has been read."""
        self._leaves[places] = False

    def show(self, threads: np.ndarray) -> None:
        """Bulk copies see what these threads have written."""
        self._hidden[np.isin(self._hidden, threads + 1)] = 0

    # -- what keeps accesses apart -----------------------------------------------------------------------------------

    def meet(self, threads: np.ndarray) -> None:
        """The warps of these threads meet at a barrier."""
        warps = np.unique(self.warps_of(threads))
        known = self._known[warps].max(axis=0)
        known[warps] = self._now
        self._known[warps] = known
        self._go_on()

    def tell(self, thread: int, barrier: int) -> None:
        """A thread arrives at an mbarrier or a named one: what it has seen and done is known to who waits there."""
        warp, meeting = self.warps_of(thread), self._meeting(barrier)
        meeting.gathered = np.maximum(meeting.gathered, self._known[warp])
        meeting.gathered[warp] = self._now
        self._go_on()

    def end_phase(self, barrier: int) -> None:
        """All have arrived at an mbarrier, and all that it counts has come."""
        meeting = self._meeting(barrier)
        meeting.gathered[meeting.actor] = self._now
        meeting.published = meeting.gathered.copy()
        self._go_on()

    def hear(self, threads: np.ndarray, barrier: int) -> None:
        """Threads have seen the end of an mbarrier's last phase."""
        warps = np.unique(self.warps_of(threads))
        self._known[warps] = np.maximum(self._known[warps], self._meeting(barrier).published)

    def warps_of(self, threads: np.ndarray | int) -> np.ndarray:
        """The number of each thread's warp in the cluster."""
        block, own = np.divmod(threads, self._threads)
        return block * self._warps_of_block + own // WARP

    def _go_on(self) -> None:
        self._now += 1
        # What everybody has seen; not worth asking for each access.
        self._settled = int(self._known[:, : len(self._known) + len(self._meetings)].min())

    def _meeting(self, barrier: int) -> _Meeting:
        if barrier not in self._meetings:
            assert len(self._meetings) < self._most_barriers, f"more than {self._most_barriers} barriers"
            actor, nothing = len(self._known) + len(self._meetings), np.zeros(self._known.shape[1], np.int32)
            self._meetings[barrier] = _Meeting(actor, nothing, nothing)
            self._settled = 0
        return self._meetings[barrier]

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check_writers(self, places: np.ndarray, warps: np.ndarray, does: str) -> None:
        warps = np.broadcast_to(warps, places.shape)
        on_its_way = self._on_its_way[places]
        self._refuse(on_its_way, places, warps, does, "a copy is on its way to that has not been waited for")
        if self._written[places].max(initial=0) <= self._settled:
            return
        writer = self._writer[places]
        unseen = (writer != warps) & (self._written[places] > self._known[warps, writer])
        self._refuse(unseen, places, warps, does, "another warp has written with no barrier since")

    def _check_readers(self, places: np.ndarray, warps: np.ndarray) -> None:
        recent = self._last_read[places] > self._settled
        if not recent.any():
            return
        places, warps = places[recent], warps[recent]
        block = places // self._shared_bytes
        for own in range(self._warps_of_block):
            reader = block * self._warps_of_block + own
            unseen = (reader != warps) & (self._read[own, places] > self._known[warps, reader])
            self._refuse(unseen, places, warps, "writes to", "another warp has read with no barrier since")

    def _refuse(self, wrong: np.ndarray, places: np.ndarray, warps: np.ndarray, does: str, why: str) -> None:
        if not wrong.any():
            return
        place, warp = int(places[wrong][0]), int(warps[wrong][0])
        block, byte = divmod(place, self._shared_bytes)
        raise RaceError(f"warp {warp} {does} byte {byte} of the shared memory of block {block}, which {why}")
