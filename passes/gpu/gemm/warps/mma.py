"""The sums of a tile by tensor cores: `mma.sync`, with several tiles of k on their way to shared memory."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.pipeline import Range, StageRing
from blu.passes.gpu.gemm.schedule import MmaSchedule
from blu.passes.gpu.gemm.warps.fragments import STEPS, Fragment, Reader, multiply_add
from blu.passes.gpu.isa import cvt, mma
from blu.passes.gpu.isa.warp import WARP


@dataclass(frozen=True)
class WarpTile:
    """Where the sums of a thread are: those of a fragment are rows lane / 4 and lane / 4 + 8, two columns of each."""

    row: ir.Value
    column: ir.Value
    lane: ir.Value

    @classmethod
    def of(cls, thread: ir.Value, schedule: MmaSchedule) -> WarpTile:
        """The warps of a block go down the rows first."""
        number = numbers.divide(thread, WARP)
        down = schedule.rows // schedule.warp_rows
        row, column = numbers.remainder(number, down), numbers.divide(number, down)
        return cls(
            numbers.multiply(row, schedule.warp_rows),
            numbers.multiply(column, schedule.warp_columns),
            numbers.remainder(thread, WARP),
        )


@dataclass(frozen=True)
class MmaLoop:
    """Sums of one block; `readers` give the warp's fragments of both tiles."""

    schedule: MmaSchedule
    readers: tuple[Reader, Reader]

    def sums(self, pipeline: StageRing, steps: Range) -> list[Fragment]:
        """The finished sums: for every 16 rows of the warp, for every 8 columns, four f32."""
        schedule = self.schedule
        for reader in self.readers:
            _ = reader.address  # emitted here, before the loop
        start = [numbers.real(0.0)] * (schedule.warp_rows // 16 * (schedule.warp_columns // 8) * 4)
        sums = pipeline.run(steps, start, lambda _, stage, sums: self._multiply(stage, sums))
        return [sums[place : place + 4] for place in range(0, len(sums), 4)]

    def _multiply(self, stage: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """Add the products of a stage; fragments are read one step ahead."""
        precise = self.schedule.instruction == "3xtf32"
        before, sums = sums, [numbers.real(0.0)] * len(sums) if precise else sums
        following = self._fragments(stage, 0)
        for step in range(STEPS):
            left, right = following
            if step + 1 < STEPS:
                following = self._fragments(stage, step + 1)
            sums = self._multiply_precisely(sums, left, right) if precise else self._add(sums, left, right)
        # Tensor cores cut where they add: f32 sums keep their bits if only the products of a stage are added there.
        return [arith.addf(*pair) for pair in zip(before, sums, strict=True)] if precise else sums

    def _fragments(self, stage: ir.Value, step: int) -> tuple[list[Fragment], list[Fragment]]:
        left, right = (reader.load(stage, step) for reader in self.readers)
        if self.schedule.instruction != "tf32":
            return left, right
        return _rounded(left), _rounded(right)

    def _add(self, sums: list[ir.Value], left: list[Fragment], right: list[Fragment]) -> list[ir.Value]:
        instruction = "tf32" if self.schedule.instruction == "3xtf32" else self.schedule.instruction
        results: list[ir.Value] = []
        for i, row in enumerate(left):
            for j, column in enumerate(right):
                place = (i * len(right) + j) * 4
                results += multiply_add(sums[place : place + 4], row, column, instruction)
        return results

    def _multiply_precisely(self, sums: list[ir.Value], left: list[Fragment], right: list[Fragment]) -> list[ir.Value]:
        """f32 as two tf32 each: the products with small parts first, that of both small parts is left out."""
        (big, small), (other, less) = (_split_all(side) for side in (left, right))
        for factors in ((small, other), (big, less), (big, other)):
            sums = self._add(sums, *factors)
        return sums


def _split_all(fragments: list[Fragment]) -> tuple[list[Fragment], list[Fragment]]:
    pairs = [[mma.split(value) for value in fragment] for fragment in fragments]
    big, small = ([[pair[part] for pair in fragment] for fragment in pairs] for part in (0, 1))
    return big, small


def _rounded(fragments: list[Fragment]) -> list[Fragment]:
    return [[cvt.rna_tf32(value) for value in fragment] for fragment in fragments]
