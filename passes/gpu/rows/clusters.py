"""Rows that several blocks have together: each has a part of every row, and they meet in one another's shared memory.

Only on Hopper, where blocks of a cluster run at the same time. A row that is too long for one block's registers need
not be read twice then, and the next one still comes while a block works. What a block has found it sends to all, whose
barriers count the bytes: a barrier of the cluster would wait for all that is on its way to and from memory.

Source: PTX ISA, "st.async", "mbarrier".
"""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import ir, llvm
from blu.passes.gpu.isa import warp
from blu.passes.gpu.isa.bulk_copy import BARRIER_BYTES, announce, begin_barrier, publish_barriers
from blu.passes.gpu.kernel import repeat_while, when
from blu.passes.gpu.rows.bodies import from_words, to_words
from blu.passes.gpu.rows.teams import SLOT_BYTES, Combine, Team, merge

BARRIER = SLOT_BYTES - BARRIER_BYTES
"""Where in a slot the barrier is that counts what comes there."""


@dataclass(frozen=True)
class ClusterTeam(Team):
    """All threads of `blocks` blocks. `thread` (i32) is the thread's place in its own block, `rank` (i32) the block's.

    `shared` holds the slots of the blocks' own reductions, and after them (`offset` bytes) those where all blocks leave
    what they have found. `phase` (i32) is 0 and 1 in turn, from row to row.

    A block sends something to a slot again only after all have met at another: nobody reads the slot then.
    """

    blocks: int
    thread: ir.Value
    rank: ir.Value
    offset: int
    phase: ir.Value

    def begin(self, slots: int) -> None:
        """Make the barriers of the slots, and wait until all blocks run and have made theirs."""
        with when(warp.is_equal(self.thread, 0)):
            for slot in range(slots):
                begin_barrier(warp.number(warp.add(self._base, self._start(slot) + BARRIER)), 1)
            publish_barriers()
        warp.wait_for_cluster()

    def wait(self) -> None:
        """Wait for all threads, and see what they wrote to shared memory."""
        warp.wait_for_cluster()

    def reduce(self, value: ir.Value, combine: Combine, slot: int) -> ir.Value:
        """All threads' values combined; every thread of the cluster has the result."""
        value = Team(self.size // self.blocks, self.thread, self.shared).reduce(value, combine, slot)
        words, start = to_words(value), self._start(slot)
        barrier = warp.number(warp.add(self._base, start + BARRIER))
        with when(warp.is_equal(self.thread, 0)):
            announce(barrier, 4 * len(words) * self.blocks)
        with when(warp.is_below(self.thread, self.blocks)):
            own = warp.number(warp.add(self._base, warp.multiply(self.rank, 4)))
            there, counted = (warp.address_in_block(address, self.thread) for address in (own, barrier))
            for place, word in enumerate(words):
                warp.send_in_cluster(there, start + 4 * place * self.blocks, word, counted)
        repeat_while(lambda: warp.is_equal(warp.has_ended(barrier, self.phase), 0))
        found = []
        for rank in range(self.blocks):
            places = [start + 4 * (place * self.blocks + rank) for place in range(len(words))]
            found.append(from_words([warp.load_shared(self._base, at, 1, warp.i32())[0] for at in places], value.type))
        return merge(found, combine)

    @property
    def _base(self) -> ir.Value:
        return llvm.ptrtoint(warp.i32(), self.shared)

    def _start(self, slot: int) -> int:
        return self.offset + slot * SLOT_BYTES
