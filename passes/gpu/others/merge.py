"""Kernels that find the stable order of integers in each row, or its beginning, by merging sorted runs.

A block sorts a tile of keys in shared memory: runs of one key are merged in pairs until the tile (or each of the rows
in it) is one run. Further launches merge several runs each, until a row is one run. In a merge each thread places one
key: its place is its place in its own run, and in each of the others the number of keys that come before it, which is
found by halving. Equal keys are in the order of their runs. Where only the first k of a row are wanted, no run keeps
more than k, so that all launches but the first have little to do: a selection takes a time linear in the row.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref, scf
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.kernel import GpuKernel, below, when
from blu.passes.gpu.others.ranks import COUNTER_BYTES, SUM_BYTES
from blu.passes.gpu.others.schedule import BYTES, MERGE_KINDS, MergeSchedule
from blu.passes.gpu.others.tiles import ByteSort, Tile, TileSort, comes_before, counted
from blu.passes.gpu.shared import SharedMemory
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.schedules import schedule_of
from blu.passes.kernels.updates import find_operation


@dataclass(frozen=True)
class Runs:
    """The sorted runs of each row between two launches: run r holds the first of `span` keys from r * span on."""

    width: int
    span: int
    wanted: int
    schedule: MergeSchedule

    @property
    def count(self) -> int:
        """How many there are in a row."""
        return ceil(self.width / self.span)

    @property
    def capacity(self) -> int:
        """The most keys that a run keeps."""
        return min(self.span, self.width, self.wanted)

    def length(self, run: ir.Value) -> ir.Value:
        """How many keys a run holds; 0 for those that there are not."""
        left = numbers.subtract(self.width, numbers.multiply(run, self.span))
        return numbers.larger(numbers.smaller(left, self.capacity), 0)

    def merged(self) -> Runs:
        """The runs after another launch."""
        return Runs(self.width, min(self.span * self.together, self.width), self.wanted, self.schedule)

    @property
    def steps(self) -> int:
        """Steps of halving to place a key when runs are merged."""
        return (min(self.together, self.count) - 1) * self.capacity.bit_length()

    @property
    def together(self) -> int:
        """How many are merged."""
        return self.schedule.short_runs if self.capacity <= self.schedule.short else self.schedule.runs


def merged_levels(width: int, wanted: int, schedule: MergeSchedule) -> list[Runs]:
    """The runs of rows of so many keys, of which the first few are wanted, after each launch."""
    found = [Runs(width, min(schedule.tile, width), wanted, schedule)]
    while found[-1].count > 1:
        found.append(found[-1].merged())
    return found


@dataclass(frozen=True)
class _Problem:
    """Rows of keys, of which the first `wanted` in order are written."""

    rows: int
    width: int
    wanted: int
    element: ir.IntegerType
    schedule: MergeSchedule

    @classmethod
    def of(cls, kernel: func.FuncOp) -> _Problem:
        operation = find_order(kernel)
        keys, attributes = ir.ShapedType(operands_of(operation)[0].type), attributes_of(operation)
        rows, width = keys.shape
        is_known = attributes == _ASCENDING or attributes == {"k": attributes.get("k"), "largest": False}
        assert is_known, "lower_to_linalg gives every sort and selection this form"
        schedule = schedule_of(kernel, MERGE_KINDS)
        assert isinstance(schedule, MergeSchedule), "sorting.py asks for others elsewhere"
        return cls(rows, width, attributes.get("k", width), keys.element_type, schedule)

    @property
    def levels(self) -> list[Runs]:
        """The runs after each launch."""
        return merged_levels(self.width, self.wanted, self.schedule)

    @property
    def kept(self) -> int:
        """The most keys of a row that are kept between launches."""
        return max((level.count * level.capacity for level in self.levels[:-1]), default=0)


_ASCENDING = {"axis": 1, "descending": False}


def find_order(kernel: func.FuncOp) -> ir.Operation:
    """The blu.argsort or blu.arg_top_k of a kernel."""
    names = [item.operation.name for item in kernel.entry_block.operations]
    return find_operation(kernel, "blu.argsort" if "blu.argsort" in names else "blu.arg_top_k")


def key_bytes(kernel: func.FuncOp) -> int:
    """Bytes of a key."""
    return ir.ShapedType(operands_of(find_order(kernel))[0].type).element_type.width // 8


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """Keys and positions between launches, twice, for a kernel that is still on tensors."""
    problem = _Problem.of(kernel)
    shape = [2, problem.rows, problem.kept]
    return [ir.MemRefType.get(shape, element) for element in (problem.element, numbers.i32())] if problem.kept else []


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.argsort or blu.arg_top_k of keys [rows, n] along the last dimension, ascending."""
    problem, name = _Problem.of(kernel), kernel.name.value
    launches, levels = [], problem.levels
    for number, runs in enumerate(levels):
        is_last = number == len(levels) - 1
        launch = _Launch.open(kernel, problem, name if is_last else f"{name}_{number}", is_last)
        with kernel.location:
            if number:
                launch.merge(levels[number - 1], runs, (number - 1) % 2)
            else:
                launch.sort_tiles(runs)
        launches.append(launch)
    kernel.operation.erase()
    return [launch.frame.replacement for launch in launches]


@dataclass(frozen=True)
class _Launch:
    """One launch: from keys to runs, or from runs to fewer ones. The last one writes positions."""

    frame: GpuKernel
    problem: _Problem
    keys: ir.Value
    order: ir.Value
    is_last: bool

    @classmethod
    def open(cls, kernel: func.FuncOp, problem: _Problem, name: str, is_last: bool) -> _Launch:
        frame = GpuKernel.open(kernel, name=name)
        keys = frame.buffers[operands_of(find_order(kernel))[0]]
        return cls(frame, problem, keys, frame.outputs[0][1], is_last)

    def put(self, half: int, row: ir.Value, place: ir.Value, key: ir.Value, position: ir.Value) -> None:
        """Write what has found its place in a row."""
        if self.is_last:
            wide = arith.extsi(ir.IntegerType.get_signless(64), position)
            memref.store(wide, self.order, [row, _index(place)])
            return
        for value, memory in zip((key, position), self.frame.scratch, strict=True):
            memref.store(value, memory, [vectors.index(half), row, _index(place)])

    def sort_tiles(self, runs: Runs) -> None:
        """The first launch: a block sorts a tile of a row, or several short rows."""
        schedule = self.problem.schedule
        by_bytes = schedule.by == BYTES
        together = schedule.tile // self.problem.width if runs.count == 1 and not by_bytes else 1
        shared = SharedMemory()
        tile = Tile.take(self.frame, shared, self.problem.element, min(self.problem.width, schedule.tile), schedule)
        ranks = (shared.take(COUNTER_BYTES), shared.take(SUM_BYTES)) if by_bytes else ()
        grid = (ceil(self.problem.rows / together) * runs.count,)
        with self.frame.launch(grid, schedule.tile_threads, shared.bytes) as here:
            number, run = vectors.split(here.block[0], runs.count)
            first = arith.muli(number, vectors.index(together))
            rows = arith.minui(vectors.index(together), arith.subi(vectors.index(self.problem.rows), first))
            start = numbers.multiply(numbers.as_number(run), runs.span)
            length = numbers.smaller(numbers.subtract(self.problem.width, start), runs.span)
            count = numbers.multiply(numbers.as_number(rows), length)
            kind = ByteSort if by_bytes else TileSort
            sort = kind(tile, numbers.as_number(here.thread), count, length, together > 1, *ranks)
            sort.load(lambda row, place: self._key(arith.addi(first, _index(row)), numbers.add(start, place)), start)
            half = sort.run()
            out = numbers.multiply(numbers.as_number(run), runs.capacity)
            sort.each(
                half,
                runs.capacity,
                lambda row, place, key, position: self.put(
                    0, arith.addi(first, _index(row)), numbers.number(numbers.add(out, place)), key, position
                ),
            )

    def _key(self, row: ir.Value, place: ir.Value) -> ir.Value:
        return memref.load(self.keys, [row, _index(place)])

    def merge(self, runs: Runs, after: Runs, half: int) -> None:
        """A further launch: each thread places one key of one of the runs that become one."""
        each, threads = runs.count * runs.capacity, self.problem.schedule.threads
        with self.frame.launch((ceil(self.problem.rows * each / threads),), threads) as here:
            number = arith.addi(arith.muli(here.block[0], vectors.index(threads)), here.thread)
            with when(below(number, self.problem.rows * each)):
                row, column = vectors.split(number, each)
                run, offset = vectors.split(column, runs.capacity)
                run, offset = numbers.as_number(run), numbers.as_number(offset)
                with when(numbers.is_below(offset, runs.length(run))):
                    self._place(runs, after, half, row, run, offset)

    def _place(self, runs: Runs, after: Runs, half: int, row: ir.Value, run: ir.Value, offset: ir.Value) -> None:
        """Find the place of one key among those of the runs that become one."""
        memory = self.frame.scratch

        def read(place: ir.Value, which: int = 0) -> ir.Value:
            return memref.load(memory[which], [vectors.index(half), row, _index(place)])

        own = numbers.add(numbers.multiply(run, runs.capacity), offset)
        key, group = read(own), numbers.divide(run, runs.together)
        first = numbers.multiply(group, runs.together)
        loop = scf.ForOp(numbers.number(0), numbers.number(min(runs.together, runs.count)), numbers.number(1), [offset])
        with ir.InsertionPoint(loop.body):
            other = numbers.add(first, loop.induction_variable)
            length = arith.select(numbers.is_equal(other, run), numbers.number(0), runs.length(other))
            start = numbers.multiply(numbers.smaller(other, runs.count - 1), runs.capacity)
            found = _count_before(key, numbers.is_below(other, run), start, length, runs.capacity, read)
            scf.yield_([numbers.add(loop.inner_iter_args[0], found)])
        place = loop.results[0]
        with when(numbers.is_below(place, after.capacity)):
            out = numbers.add(numbers.multiply(group, after.capacity), place)
            self.put(1 - half, row, out, key, read(own, 1))


def _count_before(
    key: ir.Value, equal_counts: ir.Value, start: ir.Value, length: ir.Value, most: int, read: Callable
) -> ir.Value:
    """How many of the sorted keys from `start` on, of which there are `length`, come before a key."""
    count = numbers.number(0)
    last = numbers.subtract(numbers.larger(length, 1), 1)
    for step in reversed(range(most.bit_length())):
        longer = numbers.add(count, 1 << step)
        other = read(numbers.add(start, numbers.smaller(numbers.subtract(longer, 1), last)))
        count = counted(longer, count, length, comes_before(other, key, equal_counts))
    return count


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)
