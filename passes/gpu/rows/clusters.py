"""Rows that several blocks have together: each has a part of every row, and they meet in one another's shared memory.

Only on Hopper, where blocks of a cluster run at the same time. A row that is too long for one block's registers need
not be read twice then, and the next one still comes while a block works. What a block has found it sends to all, whose
barriers count the bytes: a barrier of the cluster would wait for all that is on its way to and from memory.

Source: PTX ISA, "st.async", "mbarrier".
"""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import ir, llvm
from blu.passes.gpu.isa import barrier, cluster, mbarrier, shared_memory, warp
from blu.passes.gpu.kernel import repeat_while, when
from blu.passes.gpu.rows.bodies import from_words, to_words
from blu.passes.gpu.rows.teams import SLOT_BYTES, Combine, Team, merge

BARRIER = SLOT_BYTES - mbarrier.BYTES
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
                mbarrier.init(warp.number(warp.add(self._base, self._start(slot) + BARRIER)), 1)
            mbarrier.fence_init()
        barrier.cluster_sync()

    def wait(self) -> None:
        """Wait for all threads, and see what they wrote to shared memory."""
        barrier.cluster_sync()

    def reduce(self, value: ir.Value, combine: Combine, slot: int) -> ir.Value:
        """All threads' values combined; every thread of the cluster has the result."""
        value = Team(self.size // self.blocks, self.thread, self.shared).reduce(value, combine, slot)
        words, start = to_words(value), self._start(slot)
        counter = warp.number(warp.add(self._base, start + BARRIER))
        with when(warp.is_equal(self.thread, 0)):
            mbarrier.arrive_expect_tx(counter, 4 * len(words) * self.blocks)
        with when(warp.is_below(self.thread, self.blocks)):
            own = warp.number(warp.add(self._base, warp.multiply(self.rank, 4)))
            there, counted = (cluster.mapa(address, self.thread) for address in (own, counter))
            for place, word in enumerate(words):
                cluster.st_async(there, start + 4 * place * self.blocks, word, counted)
        repeat_while(lambda: warp.is_equal(mbarrier.try_wait_cluster(counter, self.phase), 0))
        found = []
        for rank in range(self.blocks):
            places = [start + 4 * (place * self.blocks + rank) for place in range(len(words))]
            found.append(from_words([shared_memory.ld(self._base, at, 1, warp.i32())[0] for at in places], value.type))
        return merge(found, combine)

    @property
    def _base(self) -> ir.Value:
        return llvm.ptrtoint(warp.i32(), self.shared)

    def _start(self, slot: int) -> int:
        return self.offset + slot * SLOT_BYTES
