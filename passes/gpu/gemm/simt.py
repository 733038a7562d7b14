"""The sums of a tile in f32 without tensor cores: each thread multiplies its own few rows and columns.

An element is one chain of fused multiply-adds in the order of k, or for long k the sum of chains of 256: the same
rounding as on a CPU (see passes/cpu/gemm/schedule.py). Sums of finished chains wait in shared memory, where the
epilogue reads them.

The warps of a block are four down and two across, the lanes of a warp four down and eight across; a thread has four
neighbouring rows of every 16 of its warp, and four neighbouring columns of every 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, math, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.copy import PIECES, FactorTile
from blu.passes.gpu.gemm.output import Staged
from blu.passes.gpu.gemm.pipeline import Range, StageRing
from blu.passes.gpu.gemm.problem import COPY_BYTES
from blu.passes.gpu.gemm.schedule import ROW_BYTES, SimtSchedule
from blu.passes.gpu.isa import shared_memory
from blu.passes.gpu.isa.warp import WARP

LONG_DEPTH = 512
"""Beyond this many products, an element is the sum of chains of `CHAIN`."""
CHAIN = 256
LANES = 4
"""Neighbours that are read together: 16 bytes."""
_BLOCK = (16, 32)  # rows and columns of a warp between a thread's blocks of four
_WARPS = (4, 2)


class SimtTile(FactorTile):
    """A tile of f32 of which threads read four neighbours at a time, in rows that are four apart."""

    def swizzle(self, piece: numbers.Number, row: numbers.Number) -> ir.Value:
        if not self.is_deep:
            return super().swizzle(piece, row)
        turn = numbers.remainder(numbers.divide(numbers.number(row), LANES), PIECES)
        return arith.xori(numbers.number(piece), turn)


@dataclass(frozen=True)
class Lane:
    """Where a thread's first row and first column are in the tile (i32)."""

    row: ir.Value
    column: ir.Value

    @classmethod
    def of(cls, thread: ir.Value, schedule: SimtSchedule) -> Lane:
        number, lane = numbers.divide(thread, WARP), numbers.remainder(thread, WARP)
        down, across = _WARPS
        row = numbers.multiply(numbers.remainder(number, down), schedule.rows // down)
        column = numbers.multiply(numbers.divide(number, down), schedule.columns // across)
        row = numbers.add(row, numbers.multiply(numbers.remainder(lane, 4), LANES))
        return cls(row, numbers.add(column, numbers.multiply(numbers.divide(lane, 4), LANES)))


@dataclass(frozen=True)
class SimtReader:
    """Reads a thread's values of one factor: `count` blocks of four, from the row or column `first` on."""

    tile: FactorTile
    is_left: bool
    first: ir.Value
    count: int
    base: int

    @cached_property
    def address(self) -> ir.Value:
        """What the thread adds to a stage's address for its first block."""
        if self.tile.is_deep:
            place = numbers.multiply(self.first, ROW_BYTES)
            piece = self.tile.swizzle(0, self.first)
        else:
            place = numbers.multiply(numbers.divide(self.first, self.tile.width), self.tile.panel_bytes)
            piece = numbers.divide(numbers.remainder(self.first, self.tile.width), LANES)
        return numbers.add(numbers.add(place, numbers.multiply(piece, COPY_BYTES)), self.base)

    def load(self, stage: ir.Value, piece: int) -> list[list[ir.Value]]:
        """For each of four k (those of a piece of a deep row), the thread's values."""
        start = numbers.add(stage, self.address)
        if self.tile.is_deep:
            rows = [self._load(start, piece * COPY_BYTES, block, row * ROW_BYTES)
                    for block in range(self.count) for row in range(LANES)]  # fmt: skip
            return [list(values) for values in zip(*rows, strict=True)]
        return [self._load_turned(start, piece * LANES + k) for k in range(LANES)]

    def _load_turned(self, start: ir.Value, k: int) -> list[ir.Value]:
        turn = k % LANES * 2 * COPY_BYTES
        return [value for block in range(self.count) for value in self._load(start, turn, block, k * ROW_BYTES)]

    def _load(self, start: ir.Value, turn: int, block: int, offset: int) -> list[ir.Value]:
        """Four neighbours: `turn` is XORed to the address, as is the place of a left factor's block in its row."""
        step = _BLOCK[0] if self.is_left else _BLOCK[1]
        if self.is_left:
            turn ^= block * (step // LANES) * COPY_BYTES
        if self.tile.is_deep:
            offset += block * step * ROW_BYTES
        elif not self.is_left:
            offset += block * self.tile.panel_bytes
        address = arith.xori(start, numbers.number(turn)) if turn else start
        return shared_memory.ld(address, offset, LANES, numbers.f32())


@dataclass(frozen=True)
class SimtLoop:
    """Sums of one block, left in `staged`."""

    schedule: SimtSchedule
    readers: tuple[SimtReader, SimtReader]
    staged: Staged
    lane: Lane

    def sum_up(self, pipeline: StageRing, steps: Range, depth: int) -> None:
        """All steps; `depth` products make an element."""
        for reader in self.readers:
            _ = reader.address  # emitted here, before the loop
        zeros = [numbers.real(0.0)] * (16 * self.readers[0].count * self.readers[1].count)
        is_long, chain = depth > LONG_DEPTH, CHAIN // self.schedule.depth
        if is_long:
            self._stage(zeros, add=False)

        def multiply(number: ir.Value, stage: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            sums = self._multiply(stage, sums)
            return self._end_chain(number, chain, sums, zeros) if is_long else sums

        self._stage(pipeline.run(steps, zeros, multiply), add=is_long)

    def _multiply(self, stage: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        for piece in range(PIECES):
            left, right = (reader.load(stage, piece) for reader in self.readers)
            for k in range(LANES):
                sums = [math.fma(a, b, sums[i * len(right[k]) + j])
                        for i, a in enumerate(left[k]) for j, b in enumerate(right[k])]  # fmt: skip
        return sums

    def _end_chain(self, number: ir.Value, chain: int, sums: list[ir.Value], zeros: list[ir.Value]) -> list[ir.Value]:
        """After the last step of a chain, its sums are added to those of the others."""
        is_last = numbers.is_equal(numbers.remainder(number, chain), chain - 1)
        branch = scf.IfOp(is_last, [value.type for value in sums], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            self._stage(sums, add=True)
            scf.yield_(zeros)
        with ir.InsertionPoint(branch.else_block):
            scf.yield_(sums)
        return list(branch.results)

    def _stage(self, sums: Sequence[ir.Value], add: bool) -> None:
        """Store sums, or add them to those that were stored."""
        start, (left, right) = self.staged.at(self.lane.row, self.lane.column), self.readers
        for i in range(left.count * LANES):
            row = i // LANES * _BLOCK[0] + i % LANES
            for j in range(right.count):
                place = (i * right.count + j) * LANES
                offset = row * self.staged.pitch + j * _BLOCK[1] * 4
                values = list(sums[place : place + LANES])
                if add:
                    before = shared_memory.ld(start, offset, LANES, numbers.f32())
                    values = [arith.addf(*pair) for pair in zip(before, values, strict=True)]
                shared_memory.st(start, offset, [arith.bitcast(numbers.i32(), value) for value in values])


def readers_of(
    schedule: SimtSchedule, tiles: tuple[FactorTile, FactorTile], lane: Lane
) -> tuple[SimtReader, SimtReader]:
    """What a thread reads of both tiles of a stage."""
    left, right = (size // wide // warps for size, wide, warps in
                   zip((schedule.rows, schedule.columns), _BLOCK, _WARPS, strict=True))  # fmt: skip
    return (
        SimtReader(tiles[0], True, lane.row, left, 0),
        SimtReader(tiles[1], False, lane.column, right, tiles[0].size),
    )
