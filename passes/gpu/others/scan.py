"""Kernels that carry a value along each row, or along the columns of a matrix, on a GPU.

A team of threads (a warp for short rows, else a block) takes a row tile by tile: each thread scans a few neighbours in
registers, the warps scan what their threads have come to by shuffles, and what the warps have come to goes through
shared memory. Columns are carried by a thread each, side by side. Rows or columns that are few and long are cut into
pieces: a first launch finds what each piece comes to, a second one begins each piece with what those before it came
to, put together in the same order by every block. Nothing waits for another block, and the order is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from math import ceil, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref, scf
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.kernel import GpuKernel, below, when
from blu.passes.gpu.others.schedule import SCAN_KINDS, ScanColumnsSchedule, ScanRowsSchedule
from blu.passes.gpu.others.team_scan import THREADS, TeamScan
from blu.passes.gpu.shared import SharedMemory
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.scan_body import ScanBody
from blu.passes.kernels.schedules import schedule_of


@dataclass(frozen=True)
class _Cut:
    """How the loops of a scan are cut: in pieces of `length` elements; (outer, inner, width) by columns.

    A `team` of threads has a row.
    """

    sizes: tuple[int, ...]
    length: int
    team: int

    @classmethod
    def of(cls, kernel: func.FuncOp) -> _Cut:
        schedule = schedule_of(kernel, SCAN_KINDS)
        assert isinstance(schedule, ScanRowsSchedule | ScanColumnsSchedule), "there is no other kind"
        team = schedule.team if isinstance(schedule, ScanRowsSchedule) else 1
        return cls(ScanBody.of(kernel).nest.sizes, schedule.length, team)

    @property
    def pieces(self) -> int:
        return ceil(self.sizes[-1] / self.length)

    @property
    def is_by_columns(self) -> bool:
        return len(self.sizes) > 2

    def bounds(self, piece: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where a piece begins and ends."""
        begin = arith.muli(piece, vectors.index(self.length))
        return begin, arith.minui(vectors.offset(begin, self.length), vectors.index(self.sizes[-1]))


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """What the pieces of each row come to, for a kernel that is still on tensors."""
    body, cut = ScanBody.of(kernel), _Cut.of(kernel)
    points = prod(cut.sizes[:-1])
    # Neighbouring threads read neighbouring elements: pieces of a row, or columns.
    shape = [cut.pieces, points] if cut.is_by_columns else [points, cut.pieces]
    return [ir.MemRefType.get(shape, type_) for type_ in body.types] if cut.pieces > 1 else []


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a scan."""
    body, cut = ScanBody.of(kernel), _Cut.of(kernel)
    scans = _Scan(GpuKernel.open(kernel, name=kernel.name.value), body, cut)
    launches = [scans]
    with kernel.location:
        if cut.pieces > 1:
            totals = _Scan(GpuKernel.open(kernel, name=f"{kernel.name.value}_totals"), body, cut)
            totals.column_totals() if cut.is_by_columns else totals.row_totals()
            launches.insert(0, totals)
        scans.columns() if cut.is_by_columns else scans.rows()
    kernel.operation.erase()
    return [launch.frame.replacement for launch in launches]


@dataclass(frozen=True)
class _Scan:
    """One launch of a scan."""

    frame: GpuKernel
    body: ScanBody
    cut: _Cut

    def start(self, row: Sequence[ir.Value]) -> list[ir.Value]:
        """What is carried into a row."""
        return self.body.read_starts(self.frame.buffers, row)

    def lifted(self, indices: Sequence[ir.Value]) -> list[ir.Value]:
        """What the elements at some indices of the loops bring."""
        nest = self.body.nest
        elements = [
            memref.load(self.frame.buffers[tensor], [indices[dim] for dim in dims or ()])
            for tensor, dims in zip(nest.inputs, nest.dims, strict=False)
        ]
        return self.body.lift(elements, indices)

    def write(self, indices: Sequence[ir.Value], totals: list[ir.Value]) -> None:
        """Write what the elements at some indices have come to; nothing of results that nobody reads."""
        results = list(self.body.nest.operation.results)
        kept = self.body.nest.dims[len(self.body.nest.inputs) :]
        for number, value in zip(self.body.written, self.body.finish(totals), strict=True):
            if results[number] in self._memory:
                memref.store(value, self._memory[results[number]], [indices[dim] for dim in kept[number] or ()])

    @cached_property
    def _memory(self) -> dict[ir.Value, ir.Value]:
        return dict(self.frame.outputs)

    def rows(self) -> None:
        """Each team scans a row, or a piece of one."""
        rows, _ = self.cut.sizes
        together = THREADS // self.cut.team
        shared = SharedMemory()
        team = TeamScan(self.frame, self.body, shared, self.cut.team)
        with self.frame.launch((ceil(rows * self.cut.pieces / together),), THREADS, shared.bytes) as here:
            place = here.block[0]
            if together > 1:
                number = arith.divui(here.thread, vectors.index(self.cut.team))
                place = arith.addi(arith.muli(place, vectors.index(together)), number)
            # Without a branch around it, what is read first may be read before kernels before this one are over.
            with when(below(place, rows * self.cut.pieces)) if rows % together else nullcontext():
                row, piece = vectors.split(place, self.cut.pieces)
                team.stand(here.thread)
                if self.cut.pieces > 1:
                    self._piece(team, row, piece)
                else:
                    team.walk(*self.cut.bounds(piece), self.start([row]), *self._along(row))

    def _piece(self, team: TeamScan, row: ir.Value, piece: ir.Value) -> None:
        """Scan a piece of a row behind all before. One of a tile is on its way before those are put together."""
        begin, end = self.cut.bounds(piece)
        read, write = self._along(row)
        tile = team.read_tile(begin, end, read) if self.cut.length <= team.tile else None
        carry = team.walk(vectors.index(0), piece, self.start([row]), lambda at: self._totals([row, at]))
        tile.go_on(carry, write) if tile else team.walk(begin, end, carry, read, write)

    def row_totals(self) -> None:
        """Each block finds what a piece of a row comes to."""
        rows, _ = self.cut.sizes
        shared = SharedMemory()
        team = TeamScan(self.frame, self.body, shared, THREADS)
        with self.frame.launch((rows * self.cut.pieces,), THREADS, shared.bytes) as here:
            row, piece = vectors.split(here.block[0], self.cut.pieces)
            team.stand(here.thread)
            begin, end = self.cut.bounds(piece)
            read, _ = self._along(row)
            total = team.walk(vectors.offset(begin, 1), end, read(begin), read)
            with when(below(here.thread, 1)):
                self._keep([row, piece], total)

    def _along(self, row: ir.Value) -> tuple[Callable, Callable]:
        return lambda at: self.lifted([row, at]), lambda at, totals: self.write([row, at], totals)

    def _totals(self, place: Sequence[ir.Value]) -> list[ir.Value]:
        return [memref.load(memory, list(place)) for memory in self.frame.scratch]

    def _keep(self, place: Sequence[ir.Value], totals: Sequence[ir.Value]) -> None:
        for value, memory in zip(totals, self.frame.scratch, strict=True):
            memref.store(value, memory, list(place))

    def columns(self) -> None:
        """Each thread scans a column, or a piece of one."""
        with self._in_columns() as (piece, point, outer, inner):
            begin, end = self.cut.bounds(piece)
            carry = self.start([outer, inner])
            if self.cut.pieces > 1:
                carry = self._walk(vectors.index(0), piece, carry, lambda at: self._totals([at, point]))
            self._walk(begin, end, carry, *self._down(outer, inner))

    def column_totals(self) -> None:
        """Each thread finds what a piece of a column comes to."""
        with self._in_columns() as (piece, point, outer, inner):
            read, _ = self._down(outer, inner)
            begin, end = self.cut.bounds(piece)
            total = self._walk(vectors.offset(begin, 1), end, read(begin), read)
            self._keep([piece, point], total)

    @contextmanager
    def _in_columns(self) -> Iterator[tuple[ir.Value, ir.Value, ir.Value, ir.Value]]:
        """Fill a launch of a thread for each piece of a column: its number, the column's, and the column's indices."""
        points = prod(self.cut.sizes[:-1])
        count = points * self.cut.pieces
        with self.frame.launch((ceil(count / THREADS),), THREADS) as here:
            number = arith.addi(arith.muli(here.block[0], vectors.index(THREADS)), here.thread)
            with when(below(number, count)):
                piece, point = vectors.split(number, points)
                yield (piece, point, *vectors.split(point, self.cut.sizes[1]))

    def _down(self, outer: ir.Value, inner: ir.Value) -> tuple[Callable, Callable]:
        return (
            lambda at: self.lifted([outer, inner, at]),
            lambda at, totals: self.write([outer, inner, at], totals),
        )

    def _walk(
        self, begin: ir.Value, end: ir.Value, carry: list[ir.Value], read: Callable, write: Callable | None = None
    ) -> list[ir.Value]:
        """One thread goes from one place to another."""
        loop = scf.ForOp(begin, end, vectors.index(1), carry)
        with ir.InsertionPoint(loop.body):
            total = self.body.combine(list(loop.inner_iter_args), read(loop.induction_variable))
            if write:
                write(loop.induction_variable, total)
            scf.yield_(total)
        return list(loop.results)
