"""The sums of a tile by tensor cores: `mma.sync`, with several tiles of k on their way to shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.mlir import arith, ir, scf
from blu.passes.gpu import warp
from blu.passes.gpu.gemm_copy import Loader, Tile
from blu.passes.gpu.gemm_fragments import (
    STEPS,
    Fragment,
    Reader,
    multiply_add,
    rounded_to_tf32,
    split_in_two,
)
from blu.passes.gpu.gemm_schedule import GemmSchedule

Range = tuple[ir.Value, ir.Value]
"""The first step of k of a block, and the first that is not its own (i32)."""


@dataclass(frozen=True)
class WarpTile:
    """Where the sums of a thread are: those of a fragment are rows lane / 4 and lane / 4 + 8, two columns of each."""

    row: ir.Value
    column: ir.Value
    lane: ir.Value

    @classmethod
    def of(cls, thread: ir.Value, schedule: GemmSchedule) -> WarpTile:
        """The warps of a block go down the rows first."""
        number = warp.divide(thread, warp.WARP)
        down = schedule.rows // schedule.warp_rows
        row, column = warp.remainder(number, down), warp.divide(number, down)
        return cls(
            warp.multiply(row, schedule.warp_rows),
            warp.multiply(column, schedule.warp_columns),
            warp.remainder(thread, warp.WARP),
        )


@dataclass(frozen=True)
class MmaLoop:
    """The loop over k of one block. `base` is the shared address of the first stage, a multiple of 128."""

    schedule: GemmSchedule
    loaders: tuple[Loader, Loader]
    readers: tuple[Reader, Reader]
    base: ir.Value

    def sums(self, steps: Range) -> list[Fragment]:
        """The finished sums: for every 16 rows of the warp, for every 8 columns, four f32."""
        schedule = self.schedule
        for reader in self.readers:
            _ = reader.address  # emitted here, before the loop
        first, end = steps
        for number in range(schedule.stages - 1):
            self._prefetch(warp.add(first, number), end, warp.add(self.base, number * schedule.stage_bytes))
        zero = warp.real(0.0)
        sums = [zero] * (schedule.warp_rows // 16 * (schedule.warp_columns // 8) * 4)
        index = ir.IndexType.get()
        bounds = [arith.index_cast(index, value) for value in (first, end)]
        start = [warp.number(0), warp.number((schedule.stages - 1) * schedule.stage_bytes)]
        loop = scf.ForOp(*bounds, arith.constant(index, 1), [*start, *sums])
        with ir.InsertionPoint(loop.body):
            scf.yield_(self._step(warp.as_number(loop.induction_variable), end, list(loop.inner_iter_args)))
        wait_for_groups(0)
        warp.wait_for_block()
        sums = list(loop.results)[2:]
        return [sums[place : place + 4] for place in range(0, len(sums), 4)]

    def _step(self, number: ir.Value, end: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """One tile of k: the next free stage is filled while this one is multiplied."""
        schedule = self.schedule
        read, write, *sums = carried
        wait_for_groups(schedule.stages - 2)
        warp.wait_for_block()
        stage, target = warp.add(self.base, read), warp.add(self.base, write)
        ahead = warp.add(number, schedule.stages - 1)
        pending = self._begin(ahead, end, target)
        sums = self._multiply(stage, sums)
        self._end(pending, target)
        return [self._following(read), self._following(write), *sums]

    def _following(self, stage: ir.Value) -> ir.Value:
        """The offset of the stage after this one."""
        size, stages = self.schedule.stage_bytes, self.schedule.stages
        last = warp.is_equal(stage, (stages - 1) * size)
        return arith.select(last, warp.number(0), warp.add(stage, size))

    def _prefetch(self, number: ir.Value, end: ir.Value, target: ir.Value) -> None:
        self._end(self._begin(number, end, target), target)

    def _begin(self, number: ir.Value, end: ir.Value, target: ir.Value) -> list[list[ir.Value]]:
        """Start to copy a tile where there is one; what is to be stored later."""
        types = [loader.result_types() for loader in self.loaders]
        branch = scf.IfOp(warp.is_below(number, end), [type_ for each in types for type_ in each], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.yield_([value for loader in self.loaders for value in loader.begin(number, target)])
        with ir.InsertionPoint(branch.else_block):
            scf.yield_([warp.number(0) for each in types for _ in each])
        commit = any(not loader.in_registers for loader in self.loaders)
        if commit:
            commit_copies()
        values = list(branch.results)
        return [values[: len(types[0])], values[len(types[0]) :]]

    def _end(self, pending: list[list[ir.Value]], target: ir.Value) -> None:
        for loader, values in zip(self.loaders, pending, strict=True):
            loader.end(values, target)

    def _multiply(self, stage: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """Add the products of a stage; fragments are read one step ahead."""
        precise = self.schedule.instruction == "3xtf32"
        before, sums = sums, [warp.real(0.0)] * len(sums) if precise else sums
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
        return tuple([[rounded_to_tf32(value) for value in part] for part in side] for side in (left, right))

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
    pairs = [[split_in_two(value) for value in fragment] for fragment in fragments]
    return tuple([[pair[part] for pair in fragment] for fragment in pairs] for part in (0, 1))


def commit_copies() -> None:
    """Close the group of copies that were begun since the last group."""
    warp.assembly([], [], "cp.async.commit_group;", "~{memory}")


def wait_for_groups(count: int) -> None:
    """Wait until at most the last `count` groups of copies are still on their way."""
    warp.assembly([], [], f"cp.async.wait_group {count};", "~{memory}")


def tiles_of(schedule: GemmSchedule, left_is_deep: bool, right_is_deep: bool) -> tuple[Tile, Tile]:
    """The shapes of both operands' tiles."""
    size = schedule.element_bytes
    return Tile(schedule.rows, size, left_is_deep), Tile(schedule.columns, size, right_is_deep)
