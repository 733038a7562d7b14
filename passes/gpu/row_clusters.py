"""Rows that several blocks have together: each has a part of every row, and they meet in one another's shared memory.

Only on Hopper, where blocks of a cluster run at the same time. A row that is too long for one block's registers need
not be read twice then, and the next one still comes while a block works.
"""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.mlir import ir, llvm
from blu.passes.gpu import warp
from blu.passes.gpu.kernel import when
from blu.passes.gpu.row_bodies import from_words, to_words
from blu.passes.gpu.row_teams import SLOT_BYTES, Combine, Team, merge


@dataclass(frozen=True)
class ClusterTeam(Team):
    """All threads of `blocks` blocks. `thread` (i32) is the thread's place in its own block, `rank` (i32) the block's.

    `shared` holds the slots of the blocks' own reductions, and after them (`offset` bytes) those where all blocks leave
    what they have found.
    """

    blocks: int
    thread: ir.Value
    rank: ir.Value
    offset: int

    def wait(self) -> None:
        """Wait for all threads, and see what they wrote to shared memory."""
        warp.wait_for_cluster()

    def reduce(self, value: ir.Value, combine: Combine, slot: int) -> ir.Value:
        """All threads' values combined; every thread of the cluster has the result."""
        value = Team(self.size // self.blocks, self.thread, self.shared).reduce(value, combine, slot)
        words, start = to_words(value), self.offset + slot * SLOT_BYTES
        base = llvm.ptrtoint(warp.i32(), self.shared)
        with when(warp.is_below(self.thread, self.blocks)):
            own = warp.add(base, warp.multiply(self.rank, 4))
            there = warp.address_in_block(own, self.thread)
            for place, word in enumerate(words):
                warp.store_in_cluster(there, start + 4 * place * self.blocks, word)
        warp.wait_for_cluster()
        found = []
        for rank in range(self.blocks):
            places = [start + 4 * (place * self.blocks + rank) for place in range(len(words))]
            found.append(from_words([warp.load_shared(base, at, 1, warp.i32())[0] for at in places], value.type))
        return merge(found, combine)
