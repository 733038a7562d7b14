"""What the launches of attention by Hopper's warpgroups share: maps of operands, barriers, and who copies tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.warpgroups.panels import PanelTile, map_of, panel_tile_bytes, place_of
from blu.passes.gpu.attention.warpgroups.parts import PartTile
from blu.passes.gpu.isa import barrier, mbarrier, tma, wgmma
from blu.passes.gpu.isa.wgmma import PIECE_BYTES
from blu.passes.gpu.kernel import GpuKernel, when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory
from blu.passes.kernels.launch import MAPS

ROWS = wgmma.ROWS
"""Of a block: queries, or keys."""
THREADS = wgmma.THREADS
TILE_ALIGNMENT = 1024
_WIDE = 192
"""Columns beyond which descriptors are made of each stage anew: those of the first one would be spilled."""


@dataclass(frozen=True)
class MappedOperand:
    """An operand [.., rows, columns] that the copy engine reads by the map at an address."""

    map: ir.Value
    shape: tuple[int, ...]

    def load(self, tile: PanelTile | PartTile, row: Number, head: Sequence[ir.Value], counts: ir.Value) -> None:
        """Begin to copy a tile of a head, by one thread; a barrier counts its bytes."""
        tile.load(self.map, row, place_of(self.shape, head), counts)


def open_with_maps(
    kernel: func.FuncOp, operands: Sequence[tuple[ir.Value, int]], name: str = "", planes: Sequence[int] = ()
) -> GpuKernel:
    """Open a kernel for a launch that reads operands by maps of tiles of so many rows.

    Where these are read by their parts, `planes` are the numbers of these among the kernel's scratch memory.
    """
    frame = GpuKernel.open(kernel, (tma.map_type(),) * len(operands), name)
    arguments = list(frame.replacement.arguments)
    maps = []
    buffers = [frame.scratch[number] for number in planes] or [frame.buffers[operand] for operand, _ in operands]
    for buffer, (_, rows) in zip(buffers, operands, strict=True):
        maps.append(map_of(ir.MemRefType(buffer.type), arguments.index(buffer), rows).to_attribute())
    frame.replacement.operation.attributes[MAPS] = ir.ArrayAttr.get(maps)
    return frame


def mapped(frame: GpuKernel, operands: Sequence[ir.Value]) -> list[MappedOperand]:
    """The operands of `open_with_maps`, at the current insertion point."""
    arguments = list(frame.replacement.arguments)[-len(operands) :]
    return [
        MappedOperand(tma.map_pointer(argument), tuple(ir.RankedTensorType(operand.type).shape))
        for argument, operand in zip(arguments, operands, strict=True)
    ]


@dataclass(frozen=True)
class StageRange:
    """Offsets in shared memory of `count` stages of tiles of some rows and columns, and of the stages' barriers."""

    tiles: int
    extents: tuple[tuple[int, int], ...]
    count: int
    barriers: int = 0
    readers: int = 0
    size: int = 2

    @classmethod
    def take(
        cls, memory: SharedMemory, count: int, *extents: tuple[int, int], size: int = 2, least: int = 0
    ) -> StageRange:
        """Take the room for tiles of elements of `size` bytes, and no less than so many bytes.

        `with_barriers` comes after all of them.
        """
        needed = count * sum(panel_tile_bytes(*extent, size) for extent in extents)
        return cls(memory.take(max(needed, least), alignment=TILE_ALIGNMENT), extents, count, size=size)

    def with_barriers(self, memory: SharedMemory, readers: int = 0) -> StageRange:
        """The same with room for barriers: where there are readers that give stages back, two of each stage."""
        num_bytes = self.count * mbarrier.BYTES * (2 if readers else 1)
        return replace(self, barriers=memory.take(num_bytes), readers=readers)

    def at(self, shared: ir.Value) -> Stages:
        """The stages in shared memory from an address on."""
        return Stages(self, numbers.number(numbers.add(shared, self.tiles)), numbers.add(shared, self.barriers))


@dataclass(frozen=True)
class Stages:
    """The same at addresses. A barrier waits for all bytes of its stage, and another for all readers' last reading."""

    range: StageRange
    address: ir.Value
    barriers: ir.Value

    @property
    def count(self) -> int:
        return self.range.count

    @property
    def stage_bytes(self) -> int:
        """Bytes from a stage to the next."""
        return sum(panel_tile_bytes(*extent, self.range.size) for extent in self.range.extents)

    def tile(self, place: int, stage: Number = 0) -> PanelTile:
        """A tile of a stage, by its place among them."""
        before = sum(panel_tile_bytes(*extent, self.range.size) for extent in self.range.extents[:place])
        first = numbers.number(numbers.add(self.address, before))
        address = numbers.number(numbers.add(first, numbers.multiply(stage, self.stage_bytes)))
        rows, columns = self.range.extents[place]
        if columns > _WIDE:
            return PanelTile(address, rows, columns, self.range.size)
        pieces = numbers.multiply(stage, self.stage_bytes // PIECE_BYTES)
        return PanelTile(address, rows, columns, self.range.size, first, pieces)

    def part_tile(self, parts: int, place: int = 0, stage: Number = 0) -> PartTile:
        """Tiles of a stage that are the parts of one, by its place among such."""
        return PartTile.beginning(self.tile(place * parts, stage), parts)

    def barrier(self, stage: Number = 0) -> ir.Value:
        """The barrier of a stage."""
        return numbers.number(numbers.add(self.barriers, numbers.multiply(stage, mbarrier.BYTES)))

    def empty(self, stage: Number = 0) -> ir.Value:
        """The barrier of a stage's readers."""
        return numbers.number(numbers.add(self.barrier(stage), self.count * mbarrier.BYTES))

    def begin(self) -> None:
        """Make the barriers, by one thread."""
        for stage in range(self.count):
            mbarrier.init(self.barrier(stage), 1)
            if self.range.readers:
                mbarrier.init(self.empty(stage), self.range.readers)

    def announce(self, stage: Number = 0, more_bytes: int = 0) -> ir.Value:
        """Let a stage's barrier wait for its tiles, and more; the barrier."""
        barrier = self.barrier(stage)
        mbarrier.arrive_expect_tx(barrier, self.stage_bytes + more_bytes)
        return barrier

    def wait(self, number: Number = 0, stage: Number = 0) -> None:
        """Wait until the tiles of a number are there, in their stage."""
        turn = numbers.divide(numbers.number(number), self.count)
        mbarrier.wait(self.barrier(stage), numbers.remainder(turn, 2))

    def wait_empty(self, number: Number, stage: Number) -> None:
        """Wait until all readers have given back the stage for the tiles of a number; the first turn finds it so."""
        turn = numbers.divide(numbers.number(number), self.count)
        mbarrier.wait(self.empty(stage), numbers.remainder(numbers.number(numbers.add(turn, 1)), 2))

    def give_back(self, stage: Number) -> None:
        """Say, by one thread of a reader, that it reads a stage no more."""
        mbarrier.arrive(self.empty(stage))


def begin(thread: ir.Value, all_stages: Sequence[Stages], load: Callable[[], None]) -> None:
    """Make all barriers, and begin to copy what comes first, by one thread, before all others go on."""
    with when(numbers.is_equal(thread, 0)):
        for stages in all_stages:
            stages.begin()
        mbarrier.fence_init()
        load()
    barrier.sync()


def refill(thread: ir.Value, number: Number, count: Number, load: Callable[[], None]) -> None:
    """Begin to copy the tile of a number to a stage that nobody reads any more, by one thread, if there is such."""
    is_there = numbers.is_below(number, count)
    with when(arith.andi(numbers.is_equal(thread, 0), is_there)):
        load()
