"""How scans and additions at indices on a GPU are cut: the choice of their schedules, and what these may not be.

Sizes and dtypes decide, so that blu-choose-schedules chooses all; blu-fit-schedules only does where nothing is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.others.add_runs import MOST_PLACES, TOGETHER, find_addition
from blu.passes.gpu.others.schedule import (
    SCAN_KINDS,
    SCATTER_KINDS,
    InOrderSchedule,
    RadixScatterSchedule,
    ScanColumnsSchedule,
    ScanRowsSchedule,
    SortedSchedule,
)
from blu.passes.gpu.others.team_scan import ITEMS, THREADS
from blu.passes.kernels.scan_body import ScanBody
from blu.passes.kernels.schedules import Fields, Schedule, by_sizes
from blu.passes.kernels.updates import is_half

SHORT = 1024
"""Elements up to which a warp takes a row."""
PIECE = 2048
"""Elements that a piece of a row would have at least, of rows that are cut."""
COLUMN_PIECE = 32
"""Elements that a piece of a column has at least."""
MOST_PIECES = 1024
BLOCKS_PER_PROCESSOR = 4
FEW = 64
"""Up to so many updates, each thread takes a column through all of them."""
MANY = 4096
"""Beyond so many updates, sorting them by bytes takes less time than comparing each index with all."""
SHORT_PLACES, LONG_PLACES = 16, 64
"""Sorted places that a block adds up, of some thousand updates, so that many blocks have work, or of more."""
MANY_PLACES = 16384
"""Updates up to which there are so few that pieces of them are short."""


def _choose_scan(kernel: func.FuncOp, target: GpuTarget) -> Schedule:
    sizes = ScanBody.of(kernel).nest.sizes
    points, width = prod(sizes[:-1]), sizes[-1]
    if len(sizes) > 2:
        wanted = min(BLOCKS_PER_PROCESSOR * target.processors * THREADS // points, MOST_PIECES)
        return ScanColumnsSchedule(ceil(width / max(1, min(wanted, width // COLUMN_PIECE))))
    length = _length_of_pieces(points, width, target)
    return ScanRowsSchedule(length, WARP if width <= SHORT and length >= width else THREADS)


def _length_of_pieces(rows: int, width: int, target: GpuTarget) -> int:
    """How many elements a block takes: all of a row, or tiles of a few long ones, of which one is soonest done."""
    wanted, tile = BLOCKS_PER_PROCESSOR * target.processors // rows, ITEMS * THREADS
    if min(wanted, width // PIECE) < 2:
        return width
    return ceil(width / min(2 * wanted, ceil(width / tile), MOST_PIECES) / tile) * tile


def _excess_scan(schedule: Schedule, kernel: func.FuncOp, target: GpuTarget) -> Iterator[str]:
    assert isinstance(schedule, ScanRowsSchedule | ScanColumnsSchedule), "there is no other kind"
    sizes = ScanBody.of(kernel).nest.sizes
    if isinstance(schedule, ScanColumnsSchedule) != (len(sizes) > 2):
        yield f"kind '{schedule.kind}' does not go along what is scanned: the other one does"
    if ceil(sizes[-1] / schedule.length) > MOST_PIECES:
        yield f"length = {schedule.length}: {sizes[-1]} elements have at most {MOST_PIECES} pieces"
    if isinstance(schedule, ScanRowsSchedule) and schedule.team not in (WARP, THREADS):
        yield f"team = {schedule.team}: a row, or a piece of one, has {WARP} threads, or {THREADS}"
    if isinstance(schedule, ScanRowsSchedule) and schedule.team == WARP and schedule.length < sizes[-1]:
        yield f"team = {WARP}: pieces of a row have {THREADS} threads"


def _updates(kernel: func.FuncOp) -> tuple[int, bool]:
    """How many updates there are, of any elements, and whether of halves."""
    indices, updates = (ir.RankedTensorType(item.type) for item in operands_of(find_addition(kernel))[1:])
    return prod(indices.shape) if prod(updates.shape) else 0, is_half(updates.element_type)


def _choose_scatter(kernel: func.FuncOp, target: GpuTarget) -> Schedule:
    count, of_halves = _updates(kernel)
    if count > MANY:
        return RadixScatterSchedule(_piece(count))
    # Memory would round sums of halves after each of them.
    return SortedSchedule(_piece(count)) if count > (1 if of_halves else FEW) else InOrderSchedule()


def _piece(count: int) -> int:
    """How many sorted places a block adds up. It decides the order of sums, so that it is the same on all GPUs."""
    return LONG_PLACES if count > MANY_PLACES or count <= LONG_PLACES else SHORT_PLACES


def _pieces(kernel: func.FuncOp, target: GpuTarget) -> Fields:
    """For whoever asks for another kind than the one that is chosen."""
    return {"piece": _piece(_updates(kernel)[0])}


def _excess_scatter(schedule: Schedule, kernel: func.FuncOp, target: GpuTarget) -> Iterator[str]:
    count, of_halves = _updates(kernel)
    if isinstance(schedule, InOrderSchedule):
        if of_halves and count > 1:
            yield f"kind '{schedule.kind}' would round sums of halves after each of {count} updates"
        return
    assert isinstance(schedule, SortedSchedule | RadixScatterSchedule), "there is no other kind"
    if not count:
        yield f"kind '{schedule.kind}' sorts updates, of which there are none"
    if schedule.piece % TOGETHER or schedule.piece > MOST_PLACES:
        yield f"piece = {schedule.piece}: pieces have a multiple of {TOGETHER} places, {MOST_PLACES} at most"


SCAN_SCHEDULER = by_sizes(SCAN_KINDS, _choose_scan, _excess_scan)
SCATTER_SCHEDULER = by_sizes(SCATTER_KINDS, _choose_scatter, _excess_scatter, _pieces)
