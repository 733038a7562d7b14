"""Long rows that fill a processor's registers: while a block works on one row, its next one comes to shared memory.

Only on Hopper: for older GPUs, ptxas finds too few registers for the loop over rows. Each thread copies just what it
reads itself, so the block's threads do not wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import arith, ir, llvm, memref
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.isa import cp_async, shift, warp
from blu.passes.gpu.rows.bodies import GpuBodies, GuardedScope, element_bytes
from blu.passes.gpu.rows.teams import all_of, element_pointer
from blu.passes.gpu.rows.walks import RowKernel
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
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
    schedule, lane_dim = kernel.schedule, kernel.layout.vector_dim
    assert lane_dim is not None and schedule.chunks is not None, "a row in registers has vectors"
    found: dict[ir.Value, Access] = {}
    last = max(level for level, walk in enumerate(kernel.walks[:-1]) if not walk.is_empty)
    for walk in kernel.walks[:last]:
        for node in (kernel.program.nodes[number] for number in (*walk.nodes, *walk.reductions)):
            for value, access in zip(node.operation.operands, node.accesses, strict=True):
                if value in frame.buffers and lane_dim in access:
                    found[value] = access
    sources = copied(found, kernel, frame)
    return sources if shared_bytes(kernel, sources) <= target.shared_bytes // schedule.per_processor else []


def copied(found: dict[ir.Value, Access], kernel: RowKernel, frame: Kernel) -> list[RowSource]:
    """Inputs with places in shared memory; none if one of them cannot be copied as vectors."""
    schedule, layout, lane_dim = kernel.schedule, kernel.layout, kernel.layout.vector_dim
    sources, offset = [], kernel.slot_bytes
    for value, access in found.items():
        type_ = ir.MemRefType(frame.buffers[value].type)
        strides = layout.strides(access, vectors.strides_of(frame.buffers[value]))
        size = element_bytes(type_.element_type) * schedule.lanes
        steps = [step for dim, step in strides.items() if dim != lane_dim]
        aligned = all(step * element_bytes(type_.element_type) % size == 0 for step in steps)
        start = type_.get_strides_and_offset()[1] * element_bytes(type_.element_type)
        if is_bool(type_.element_type) or size not in COPIES or not aligned or start % size:
            return []
        if strides[lane_dim] != 1:
            return []
        sources.append(RowSource(value, access, offset, size))
        offset += size * schedule.threads * (schedule.chunks or 0)
    return sources


def shared_bytes(kernel: RowKernel, sources: list[RowSource]) -> int:
    """The slots of reductions, and the rows after them."""
    schedule = kernel.schedule
    vectors_of_block = schedule.threads * (schedule.chunks or 0)
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
                    size = warp.number(source.size)
                    if present is not None:
                        size = arith.select(present, size, warp.number(0))
                    address = llvm.ptrtoint(warp.i32(), self._slot(source, 0))
                    step = number * self.kernel.schedule.threads * source.size
                    cp_async.copy(address, step, _address(buffer, index), source.size, size)

    def fill(self, places: list[GuardedScope]) -> None:
        """Let places know what has been copied for them."""
        lanes = self.kernel.schedule.lanes
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
        place = warp.add(self.thread, number * self.kernel.schedule.threads)
        index = warp.add(warp.multiply(place, source.size), source.offset)
        return element_pointer(self.shared, index, ir.IntegerType.get_signless(8))


def not_hoisted(number: ir.Value, row: ir.Value) -> ir.Value:
    """The same number; what is computed from it seems to change with the row, and is not kept from row to row.

    There is no register to keep it in. (A row has no sign, but nobody else knows.)
    """
    sign = shift.shr(row, 31)
    return warp.add(number, sign)


def _address(buffer: FlatBuffer, index: ir.Value) -> ir.Value:
    """The address of an element in global memory, an i64."""
    size = element_bytes(buffer.element)
    _, offset = ir.MemRefType(buffer.flat.type).get_strides_and_offset()
    base = memref.extract_aligned_pointer_as_index(buffer.flat)
    place = arith.muli(vectors.offset(index, offset), vectors.index(size))
    return arith.index_cast(ir.IntegerType.get_signless(64), arith.addi(base, place))
