"""Threads that work on one row together, and how what they have found becomes one result, always in the same order.

On Hopper, blocks of a cluster can have a row together: each has a part of every row, and they meet in one another's
shared memory. A row that is too long for one block's registers need not be read twice then, and the next one still
comes while a block works. What a block has found it sends to all, whose barriers count the bytes: a barrier of the
cluster would wait for all that is on its way to and from memory.

Source: PTX ISA, "st.async", "mbarrier".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier, cluster, mbarrier, shared_memory, shfl
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import repeat_while, when
from blu.passes.gpu.rows.bodies import element_bytes, from_words, to_words
from blu.passes.kernels import lanes as vectors

Combine = Callable[[ir.Value, ir.Value], ir.Value]
SLOT_BYTES = 32 * 8
"""Shared memory for one reduction: a value of up to 8 bytes from each warp."""
COUNTER_BYTES = 16
"""A barrier, where what is behind it begins at a multiple of 16 bytes."""
BARRIER = SLOT_BYTES - mbarrier.BYTES
"""Where in a slot the barrier is that counts what comes there."""


@dataclass(frozen=True)
class Team:
    """`size` threads: a part of a warp (a power of two), or whole warps that are all of the block.

    `number` (i32) is the thread's own place in it, `shared` (an !llvm.ptr<3>) holds a slot for each reduction.
    """

    size: int
    number: ir.Value
    shared: ir.Value | None

    def reduce(self, value: ir.Value, combine: Combine, slot: int) -> ir.Value:
        """All threads' values combined; every thread of the team has the result."""
        value = _butterfly(value, combine, min(self.size, WARP))
        if self.size <= WARP:
            return value
        warps = self.size // WARP
        lane, own_warp = numbers.remainder(self.number, WARP), numbers.divide(self.number, WARP)
        words = to_words(value)
        with when(numbers.is_equal(lane, 0)):
            for place, word in enumerate(words):
                llvm.store(word, self._slot(slot, own_warp, place), alignment=4)
        barrier.sync()
        if warps & (warps - 1):
            return merge([self._found(slot, numbers.number(source), value.type) for source in range(warps)], combine)
        return _butterfly(self._found(slot, numbers.remainder(lane, warps), value.type), combine, warps)

    def wait(self) -> None:
        """Wait for all threads, and see what they wrote to shared memory."""
        barrier.sync()

    def _found(self, slot: int, source: ir.Value, type_: ir.Type) -> ir.Value:
        """What a warp has left."""
        count = max(1, element_bytes(type_) // 4)
        words = [llvm.load(numbers.i32(), self._slot(slot, source, place), alignment=4) for place in range(count)]
        return from_words(words, type_)

    def _slot(self, slot: int, own_warp: ir.Value, place: int) -> ir.Value:
        index = numbers.add(own_warp, slot * (SLOT_BYTES // 4) + place * WARP)
        return element_pointer(self.shared, index, numbers.i32())


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
        with when(numbers.is_equal(self.thread, 0)):
            for slot in range(slots):
                mbarrier.init(numbers.number(numbers.add(self._base, self._start(slot) + BARRIER)), 1)
            mbarrier.fence_init()
        barrier.cluster_sync()

    def wait(self) -> None:
        """Wait for all threads, and see what they wrote to shared memory."""
        barrier.cluster_sync()

    def reduce(self, value: ir.Value, combine: Combine, slot: int) -> ir.Value:
        """All threads' values combined; every thread of the cluster has the result."""
        value = Team(self.size // self.blocks, self.thread, self.shared).reduce(value, combine, slot)
        words, start = to_words(value), self._start(slot)
        counter = numbers.number(numbers.add(self._base, start + BARRIER))
        with when(numbers.is_equal(self.thread, 0)):
            mbarrier.arrive_expect_tx(counter, 4 * len(words) * self.blocks)
        with when(numbers.is_below(self.thread, self.blocks)):
            own = numbers.number(numbers.add(self._base, numbers.multiply(self.rank, 4)))
            there, counted = (cluster.mapa(address, self.thread) for address in (own, counter))
            for place, word in enumerate(words):
                cluster.st_async(there, start + 4 * place * self.blocks, word, counted)
        repeat_while(lambda: numbers.is_equal(mbarrier.try_wait_cluster(counter, self.phase), 0))
        found = []
        for rank in range(self.blocks):
            places = [start + 4 * (place * self.blocks + rank) for place in range(len(words))]
            found.append(
                from_words([shared_memory.ld(self._base, at, 1, numbers.i32())[0] for at in places], value.type)
            )
        return merge(found, combine)

    @property
    def _base(self) -> ir.Value:
        return llvm.ptrtoint(numbers.i32(), self.shared)

    def _start(self, slot: int) -> int:
        return self.offset + slot * SLOT_BYTES


def combine_depth(
    shared: ir.Value, thread: ir.Value, value: ir.Value, combine: Combine, width: int, depth: int
) -> ir.Value:
    """The values of threads that are `width` apart, combined in order; right in the block's first `width` threads only.

    `shared` has room for the values of all `width * depth` threads.
    """
    if depth == 1:
        return value
    words = to_words(value)

    def slot(source: ir.Value, place: int) -> ir.Value:
        return element_pointer(shared, numbers.add(source, place * width * depth), numbers.i32())

    barrier.sync()
    for place, word in enumerate(words):
        llvm.store(word, slot(thread, place), alignment=4)
    barrier.sync()
    column = numbers.remainder(thread, width)
    found = []
    for number in range(depth):
        source = numbers.add(column, number * width)
        read = [llvm.load(numbers.i32(), slot(source, place), alignment=4) for place in range(len(words))]
        found.append(from_words(read, value.type))
    result = found[0]
    for other in found[1:]:
        result = combine(result, other)
    return result


@dataclass(frozen=True)
class ColumnCluster:
    """Blocks of a cluster that have the same columns: of each block `warps` warps, of which each has `32 / width` rows
    of `width` threads.

    `shared` (an i32) is where shared memory has `bytes_of` each value: what the warps of a block have found, then (in
    the first block) what the blocks have sent, and the barrier that counts that.
    """

    shared: ir.Value
    thread: ir.Value
    rank: ir.Value
    blocks: int
    warps: int
    width: int

    def bytes_of(self, words: int) -> int:
        """Shared memory for one value of so many words."""
        return cluster_bytes(self.blocks, self.warps, self.width, words)

    def begin(self, sizes: Sequence[int]) -> None:
        """Make the barriers of values of so many words; `combine` is to wait until all blocks have."""
        with when(numbers.is_equal(self.thread, 0)):
            end = 0
            for words in sizes:
                end += self.bytes_of(words)
                mbarrier.init(numbers.add(self.shared, end - COUNTER_BYTES), 1)
            mbarrier.fence_init()
        barrier.cluster_arrive_relaxed()

    def combine(self, value: ir.Value, combine: Combine, offset: int) -> ir.Value:
        """The values of all threads of a column combined; right in the first `width` threads of the first block only.

        The first value of all has the offset 0.
        """
        value = self._in_block(value, combine, offset)
        words, size = to_words(value), self._size(value)
        if offset == 0:
            barrier.cluster_wait()
        offset += self.warps * size
        counter = numbers.add(self.shared, offset + self.blocks * size)
        is_first = numbers.is_equal(self.rank, 0)
        with when(arith.andi(is_first, numbers.is_equal(self.thread, 0))):
            mbarrier.arrive_expect_tx(counter, self.blocks * size)
        with when(numbers.is_below(self.thread, self.width)):
            place = self._place(offset, self.rank, self.thread, size)
            there, counted = (cluster.mapa(address, numbers.number(0)) for address in (place, counter))
            for number, word in enumerate(words):
                cluster.st_async(there, 4 * number, word, counted)
        phase = numbers.number(0)
        with when(is_first):
            repeat_while(lambda: numbers.is_equal(mbarrier.try_wait_cluster(counter, phase), 0))
        return self._gather(value.type, combine, offset, self.blocks, size)

    def _in_block(self, value: ir.Value, combine: Combine, offset: int) -> ir.Value:
        """The values of all threads of a column in a block; every thread of it has the result."""
        value = self._across(value, combine)
        lane, warp = numbers.remainder(self.thread, WARP), numbers.divide(self.thread, WARP)
        words, size = to_words(value), self._size(value)
        with when(numbers.is_below(lane, self.width)):
            at, count = self._place(offset, warp, lane, size), gcd(4, len(words))
            for number in range(0, len(words), count):
                shared_memory.st(at, 4 * number, words[number : number + count])
        barrier.sync()
        return self._gather(value.type, combine, offset, self.warps, size)

    def _size(self, value: ir.Value) -> int:
        """Bytes of the values of a row of threads."""
        return 4 * len(to_words(value)) * self.width

    def _across(self, value: ir.Value, combine: Combine) -> ir.Value:
        """The values of a warp's threads of the same column."""
        return _butterfly(value, combine, WARP, self.width)

    def _gather(self, type_: ir.Type, combine: Combine, offset: int, count: int, size: int) -> ir.Value:
        """What `count` have left combined, in order; the rows of a warp take turns."""
        lane, rows = numbers.remainder(self.thread, WARP), WARP // self.width
        column, first = numbers.remainder(lane, self.width), numbers.divide(lane, self.width)
        words, found = size // 4 // self.width, []
        step = gcd(4, words)
        for number in range(0, count, rows):
            at = self._place(offset, numbers.add(first, number), column, size)
            read = [shared_memory.ld(at, 4 * place, step, numbers.i32()) for place in range(0, words, step)]
            found.append(from_words([word for some in read for word in some], type_))
        total = found[0]
        for other in found[1:]:
            total = combine(total, other)
        return self._across(total, combine)

    def _place(self, offset: int, group: ir.Value, column: ir.Value, size: int) -> ir.Value:
        own = numbers.multiply(column, size // self.width)
        return numbers.add(numbers.add(self.shared, offset), numbers.add(numbers.multiply(group, size), own))


def cluster_bytes(blocks: int, warps: int, width: int, words: int) -> int:
    """Shared memory of each of some blocks that put values of so many words together (ColumnCluster)."""
    return 4 * words * width * (blocks + warps) + COUNTER_BYTES


def element_pointer(base: ir.Value, index: ir.Value, element: ir.Type) -> ir.Value:
    """The address of an element (a number, i32) of an array in shared memory."""
    return llvm.getelementptr(base.type, base, [index], [-(2**31)], element, None)


def _butterfly(value: ir.Value, combine: Combine, size: int, nearest: int = 1) -> ir.Value:
    """The values of `size` lanes combined, of those whose numbers differ by multiples of `nearest`."""
    distance = size // 2
    while distance >= nearest:
        other = [_exchange(word, distance) for word in to_words(value)]
        value = combine(value, from_words(other, value.type))
        distance //= 2
    return value


def _exchange(word: ir.Value, distance: int) -> ir.Value:
    return shfl.bfly(word, distance)


def merge_lanes(value: ir.Value, combine: Combine) -> ir.Value:
    """The lanes of a vector combined pairwise; a scalar as it is."""
    if not vectors.is_vector(value):
        return value
    parts = [vector.extract(value, [], [lane]) for lane in range(ir.VectorType(value.type).shape[0])]
    return merge(parts, combine)


def merge(parts: list[ir.Value], combine: Combine) -> ir.Value:
    """Values combined pairwise, neighbours first."""
    while len(parts) > 1:
        pairs = [parts[place : place + 2] for place in range(0, len(parts), 2)]
        parts = [combine(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def all_of(conditions: list[ir.Value | None]) -> ir.Value | None:
    """Whether all of some conditions hold; None, which is no condition, always does."""
    present = [condition for condition in conditions if condition is not None]
    return merge(present, arith.andi) if present else None
