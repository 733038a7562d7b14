"""Row kernels that read ahead: while a block works on one row, its next one comes to shared memory.

Long rows fill a processor's registers: there is a block for each processor, or a cluster of them, which copies its next
row, or its part of that. Only on Hopper: for older GPUs, ptxas finds too few registers for the loop over rows. Each
thread copies just what it reads itself, so the block's threads do not wait for each other.
"""

from __future__ import annotations

from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, memref
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import cp_async, shift
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.rows.bodies import GpuBodies, GuardedScope, element_bytes
from blu.passes.gpu.rows.group import RowGroup
from blu.passes.gpu.rows.launch import Launches, open_launch, row_place, team_of
from blu.passes.gpu.rows.schedule import RowsAheadSchedule
from blu.passes.gpu.rows.teams import SLOT_BYTES, ClusterTeam, Team, all_of, element_pointer
from blu.passes.gpu.rows.walks import RowKernel, RowThread
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.layout import FlatBuffer, is_bool
from blu.passes.kernels.rows.scope import Scope
from blu.passes.kernels.rows.space import Access

COPIES = (16, 8, 4)
"""Bytes that cp.async can copy."""


@dataclass(frozen=True)
class RowSource:
    """An input that walks before the last one read, in `bytes` of shared memory from `offset` on."""

    value: ir.Value
    access: Access
    offset: int
    size: int


def find_sources(kernel: RowKernel, frame: Kernel, target: GpuTarget) -> list[RowSource]:
    """What to copy ahead; nothing where it cannot be copied, or does not fit in shared memory."""
    cut, lane_dim = kernel.cut, kernel.layout.vector_dim
    assert lane_dim is not None and cut.chunks is not None, "a row in registers has vectors"
    found: dict[ir.Value, Access] = {}
    last = max(level for level, walk in enumerate(kernel.walks[:-1]) if not walk.is_empty)
    for walk in kernel.walks[:last]:
        for node in (kernel.program.nodes[number] for number in (*walk.nodes, *walk.reductions)):
            for value, access in zip(node.operation.operands, node.accesses, strict=True):
                if value in frame.buffers and lane_dim in access:
                    found[value] = access
    sources = copied(found, kernel, frame)
    return sources if shared_bytes(kernel, sources) <= target.shared_bytes // cut.per_processor else []


def copied(found: dict[ir.Value, Access], kernel: RowKernel, frame: Kernel) -> list[RowSource]:
    """Inputs with places in shared memory; none if one of them cannot be copied as vectors."""
    cut, layout, lane_dim = kernel.cut, kernel.layout, kernel.layout.vector_dim
    sources, offset = [], kernel.slot_bytes
    for value, access in found.items():
        type_ = ir.MemRefType(frame.buffers[value].type)
        strides = layout.strides(access, vectors.strides_of(frame.buffers[value]))
        size = element_bytes(type_.element_type) * cut.lanes
        steps = [step for dim, step in strides.items() if dim != lane_dim]
        aligned = all(step * element_bytes(type_.element_type) % size == 0 for step in steps)
        start = type_.get_strides_and_offset()[1] * element_bytes(type_.element_type)
        if is_bool(type_.element_type) or size not in COPIES or not aligned or start % size:
            return []
        if strides[lane_dim] != 1:
            return []
        sources.append(RowSource(value, access, offset, size))
        offset += size * cut.threads * (cut.chunks or 0)
    return sources


def shared_bytes(kernel: RowKernel, sources: list[RowSource]) -> int:
    """The slots of reductions, and the rows after them."""
    cut = kernel.cut
    vectors_of_block = cut.threads * (cut.chunks or 0)
    return kernel.slot_bytes + sum(source.size * vectors_of_block for source in sources)


@dataclass
class Prefetch:
    """Emits the copies of one thread (`thread`, an i32) and the loads of what it has copied."""

    kernel: RowKernel
    sources: list[RowSource]
    bodies: GpuBodies
    entry: Scope
    thread: ir.Value
    shared: ir.Value

    def copy(self, row: GuardedScope, places: list[GuardedScope]) -> None:
        """Begin to copy a row's vectors at some places; nothing of a row that is not present."""
        for number, place in enumerate(places):
            with place.cursor.point:
                present = all_of([row.present, place.present])
                for source in self.sources:
                    buffer = self.bodies.buffer(source.value, source.access)
                    index = self.bodies.linear(buffer.strides, [self.entry, row, place])
                    size = numbers.number(source.size)
                    if present is not None:
                        size = arith.select(present, size, numbers.number(0))
                    address = llvm.ptrtoint(numbers.i32(), self._slot(source, 0))
                    step = number * self.kernel.cut.threads * source.size
                    cp_async.copy(address, step, _address(buffer, index), source.size, size)

    def fill(self, places: list[GuardedScope]) -> None:
        """Let places know what has been copied for them."""
        lanes = self.kernel.cut.lanes
        with places[0].cursor.point:
            cp_async.wait_all()
        for number, place in enumerate(places):
            for source in self.sources:
                buffer = self.bodies.buffer(source.value, source.access)
                type_ = buffer.element if lanes == 1 else vectors.vector_type(lanes, buffer.element)
                with place.cursor.point:
                    value = llvm.load(type_, self._slot(source, number), alignment=source.size)
                place.memo[("load", buffer.flat, tuple(buffer.strides.items()))] = value

    def _slot(self, source: RowSource, number: int) -> ir.Value:
        place = numbers.add(self.thread, number * self.kernel.cut.threads)
        index = numbers.add(numbers.multiply(place, source.size), source.offset)
        return element_pointer(self.shared, index, ir.IntegerType.get_signless(8))


def not_hoisted(number: ir.Value, row: ir.Value) -> ir.Value:
    """The same number; what is computed from it seems to change with the row, and is not kept from row to row.

    There is no register to keep it in. (A row has no sign, but nobody else knows.)
    """
    sign = shift.shr(row, 31)
    return numbers.add(number, sign)


def _address(buffer: FlatBuffer, index: ir.Value) -> ir.Value:
    """The address of an element in global memory, an i64."""
    size = element_bytes(buffer.element)
    _, offset = ir.MemRefType(buffer.flat.type).get_strides_and_offset()
    base = memref.extract_aligned_pointer_as_index(buffer.flat)
    place = arith.muli(vectors.offset(index, offset), vectors.index(size))
    return arith.index_cast(ir.IntegerType.get_signless(64), arith.addi(base, place))


def write_ahead(launches: Launches, group: RowGroup, schedule: RowsAheadSchedule) -> None:
    """A block for each processor, which copies its next row, or its part of that, while it works on one."""
    (frame,) = launches.frames
    kernel, rows = RowKernel.plan(group, schedule.cut(group.width)), group.rows
    clusters = _clusters_of(schedule, rows, launches.target)
    sources = find_sources(kernel, frame, launches.target)
    size = shared_bytes(kernel, sources)
    with open_launch(frame, kernel, clusters * schedule.cluster, schedule.threads, size) as (here, bodies, entry):
        cursor = entry.cursor
        with cursor.point:
            thread, block = numbers.as_number(here.thread), numbers.as_number(here.block[0])
        team, first = _team_of_cluster(frame, kernel, cursor, thread, block)
        ahead = Prefetch(kernel, sources, bodies, entry, thread, team.shared)

        def copy(where: Cursor, row: ir.Value, present: ir.Value | None) -> None:
            place = row_place(kernel, where, row, present)
            ahead.copy(place, RowThread(kernel, bodies, entry, place, team).new_places())

        def body(inner: Cursor, row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            def fill(places: list[GuardedScope]) -> None:
                ahead.fill(places)
                with inner.point:
                    following = numbers.add(row, clusters)
                    present = numbers.is_below(following, rows)
                    following = arith.select(present, following, numbers.number(0))
                copy(inner, following, present)

            with inner.point:
                own = replace(team, number=not_hoisted(team.number, row))
                if isinstance(own, ClusterTeam):
                    own = replace(own, phase=carried[0])
                    carried = [arith.xori(carried[0], numbers.number(1))]
            RowThread(kernel, bodies, entry, row_place(kernel, inner, row, None), own, fill=fill).emit()
            if kernel.slots == 1:
                with inner.point:
                    own.wait()  # before the only slot is written again
            return carried

        copy(cursor, first, None)
        with cursor.point:
            bounds = first, numbers.number(rows), numbers.number(clusters)
            start = [team.phase] if isinstance(team, ClusterTeam) else []
        cursor.loop(*bounds, start, body)


def _clusters_of(schedule: RowsAheadSchedule, rows: int, target: GpuTarget) -> int:
    """How many clusters of blocks there are: as many as run at the same time, and have a row."""
    return min(rows, target.clusters_at_once(schedule.cluster) * schedule.per_processor)


def _team_of_cluster(
    frame: GpuKernel, kernel: RowKernel, cursor: Cursor, thread: ir.Value, block: ir.Value
) -> tuple[Team, ir.Value]:
    """The threads that have a row together, and their first row."""
    cut = kernel.cut
    if cut.cluster == 1:
        return team_of(frame, cursor, cut.team, thread), block
    with cursor.point:
        rank, first = numbers.remainder(block, cut.cluster), numbers.divide(block, cut.cluster)
        number = numbers.add(numbers.multiply(rank, cut.threads), thread)
        offset, phase = kernel.slots * SLOT_BYTES, numbers.number(0)
        team = ClusterTeam(cut.team, number, shared_pointer(frame), cut.cluster, thread, rank, offset, phase)
        team.begin(kernel.slots)
    return team, first
