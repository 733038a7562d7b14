"""How scans and sorts on the CPU are cut: the choice of their schedules, and what these may not be."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.others.schedule import (
    SCAN_KINDS,
    SORT_KINDS,
    ColumnScansSchedule,
    InsertionSchedule,
    PieceScansSchedule,
    RadixSchedule,
    RowScansSchedule,
)
from blu.passes.kernels.scan_body import ScanBody
from blu.passes.kernels.schedules import Fields, Schedule, by_sizes
from blu.passes.kernels.updates import find_operation

LONG = 1 << 16
PIECE = 1 << 14
"""Rows of at least LONG elements are cut into pieces of at least PIECE, if there are fewer than FEW_ROWS."""
FEW_ROWS = 16
MOST_PIECES = 64
ELEMENTS_PER_BLOCK = 8192
SHORT = 32
"""Up to so many keys of a row are sorted by insertion."""
FEW = 16
"""Up to so many keys of those that are selected are kept in order as they come."""
MAX_BLOCKS = 16
"""Every block of a sort has its own scratch, so there are few."""


def _choose_scan(kernel: func.FuncOp, target: CpuTarget) -> Schedule:
    rows, columns, *others = ScanBody.of(kernel).nest.sizes
    if others:
        return ColumnScansSchedule()
    if rows >= FEW_ROWS or columns < LONG:
        return RowScansSchedule(max(1, ELEMENTS_PER_BLOCK // columns))
    return PieceScansSchedule(max(PIECE, ceil(columns / MOST_PIECES)))


def _excess_scan(schedule: Schedule, kernel: func.FuncOp, target: CpuTarget) -> Iterator[str]:
    sizes = ScanBody.of(kernel).nest.sizes
    if isinstance(schedule, ColumnScansSchedule) != (len(sizes) > 2):
        yield f"kind '{schedule.kind}' does not go along what is scanned"
    if isinstance(schedule, ColumnScansSchedule) and schedule.vectors > target.registers:
        yield f"vectors = {schedule.vectors}: {target.name} has {target.registers} registers"
    if isinstance(schedule, PieceScansSchedule) and ceil(sizes[-1] / schedule.length) > 16 * MOST_PIECES:
        yield f"length = {schedule.length}: {sizes[-1]} elements have at most {16 * MOST_PIECES} pieces"


def _other_scans(kernel: func.FuncOp, target: CpuTarget) -> Fields:
    return {"rows": 1, "length": PIECE}


def _rows_of(kernel: func.FuncOp, name: str) -> tuple[int, int]:
    rows, width = ir.ShapedType(operands_of(find_operation(kernel, name))[0].type).shape
    return rows, width


def _blocks_of(rows: int, width: int) -> int:
    """How many blocks share some rows of keys."""
    wanted = max(1, min(rows, MAX_BLOCKS, rows * width // ELEMENTS_PER_BLOCK))
    return ceil(rows / ceil(rows / wanted))


def _choose_sort(kernel: func.FuncOp, target: CpuTarget) -> Schedule:
    rows, width = _rows_of(kernel, "blu.argsort")
    blocks = _blocks_of(rows, width)
    return InsertionSchedule(blocks) if width <= SHORT else RadixSchedule(blocks)


def _choose_selection(kernel: func.FuncOp, target: CpuTarget) -> Schedule:
    blocks = _blocks_of(*_rows_of(kernel, "blu.arg_top_k"))
    few = attributes_of(find_operation(kernel, "blu.arg_top_k"))["k"] <= FEW
    return InsertionSchedule(blocks) if few else RadixSchedule(blocks)


def _excess_sort(schedule: Schedule, kernel: func.FuncOp, target: CpuTarget) -> Iterator[str]:
    assert isinstance(schedule, InsertionSchedule | RadixSchedule), "there is no other kind"
    names = [item.operation.name for item in kernel.entry_block.operations]
    rows, _ = _rows_of(kernel, "blu.argsort" if "blu.argsort" in names else "blu.arg_top_k")
    if schedule.blocks > rows:
        yield f"blocks = {schedule.blocks}: there are {rows} rows"


def _other_sorts(kernel: func.FuncOp, target: CpuTarget) -> Fields:
    return {"blocks": 1}


SCAN_SCHEDULER = by_sizes(SCAN_KINDS, _choose_scan, _excess_scan, _other_scans)
SORT_SCHEDULER = by_sizes(SORT_KINDS, _choose_sort, _excess_sort, _other_sorts)
SELECTION_SCHEDULER = by_sizes(SORT_KINDS, _choose_selection, _excess_sort, _other_sorts)
