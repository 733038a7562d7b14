"""How a row kernel on the CPU is cut into blocks: the choice of its schedule, and what that may not be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import ceil, prod

from blu.dialects.core.mlir import func
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.others import loops
from blu.passes.cpu.rows.chains import CHAIN, rounds
from blu.passes.cpu.rows.rows import PIECE
from blu.passes.cpu.rows.schedule import KINDS, REPEATED, ColumnPiecesSchedule, RowBlocksSchedule, ScalarLoopsSchedule
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.rows.fills import spell_out_fills
from blu.passes.kernels.rows.layout import Layout, collapse, strides
from blu.passes.kernels.rows.program import RowProgram, analyse, cost_of
from blu.passes.kernels.schedules import Fields, Schedule, by_strides

NANOSECONDS_PER_COST = 0.02
NANOSECONDS_PER_ACCESS = 0.05
NANOSECONDS_PER_MOVED = 0.2
"""Of an element that is moved and nothing else: memory takes that long."""
BLOCK_NANOSECONDS = 20_000
SHARED_NANOSECONDS = 2_500
"""From so many on, two threads have half of the rows of a kernel in a loop each."""
NANOSECONDS_PER_STEP = 3
"""Of a scalar loop."""
LOOPS_NANOSECONDS = 30_000


def _choose(kernel: func.FuncOp, target: CpuTarget) -> Schedule:
    """Blocks of about 20 us by a rough estimate; a kernel of less than one and a half blocks is a single one.

    In a loop, where launches follow each other, it is two: waking a thread takes longer than half of such a kernel, and
    telling one that is awake does not.
    """
    group = _group_of(kernel)
    if group is None:
        return choose_loops(kernel)
    program, layout = group
    rows, width = _items(program, layout)
    columns = prod(layout.sizes[dim] for dim in layout.columns)
    nanoseconds = rows * width * max(columns, 1) * _nanoseconds_of_element(program)
    fewest = 2 if REPEATED in kernel.attributes and nanoseconds >= SHARED_NANOSECONDS else 1
    blocks = max(fewest, round(nanoseconds / BLOCK_NANOSECONDS))
    chain = _chain(program, layout)
    if program.across or width <= PIECE or rows >= 4 * blocks:
        return RowBlocksSchedule(max(1, ceil(rows / blocks)), chain)
    pieces = ceil(blocks / max(rows, 1))
    return ColumnPiecesSchedule(ceil(width / pieces / PIECE) * PIECE, chain)


def _nanoseconds_of_element(program: RowProgram) -> float:
    accesses = sum(len(node.accesses) for node in program.nodes)
    if accesses and all(len(list(node.body.operations)) == 1 for node in program.nodes):
        return NANOSECONDS_PER_MOVED * accesses
    return sum(cost_of(node) for node in program.nodes) * NANOSECONDS_PER_COST + accesses * NANOSECONDS_PER_ACCESS


def _chain(program: RowProgram, layout: Layout) -> int:
    """Of sums of many terms that one lane adds up, how many are a chain."""
    terms = prod(layout.sizes[dim] for dim in layout.columns if dim != layout.vector_dim)
    return CHAIN if terms > CHAIN and any(rounds(program, number) for number in program.reductions) else 0


def _group_of(kernel: func.FuncOp) -> tuple[RowProgram, Layout] | None:
    """What a kernel computes; None where it has a form that only loops have."""
    spell_out_fills(kernel)
    frame = Kernel.read(kernel)
    program = analyse(frame.operations, partial(strides, frame))
    return (program, collapse(program, frame)) if isinstance(program, RowProgram) else None


def _items(program: RowProgram, layout: Layout) -> tuple[int, int]:
    """Rows, and the columns beside each other that lanes run along."""
    rows = prod(layout.sizes[dim] for dim in layout.rows if program.across or dim != layout.vector_dim)
    return rows, 1 if program.across or layout.vector_dim is None else layout.sizes[layout.vector_dim]


def choose_loops(kernel: func.FuncOp) -> ScalarLoopsSchedule:
    """Blocks of about 30 us."""
    frame = Kernel.read(kernel)
    blocks = round(loops.steps_of(frame) * NANOSECONDS_PER_STEP / LOOPS_NANOSECONDS)
    return ScalarLoopsSchedule(max(1, min(blocks, loops.points_of(frame))))


def _excesses(schedule: Schedule, kernel: func.FuncOp, target: CpuTarget) -> Iterator[str]:
    group = _group_of(kernel)
    if isinstance(schedule, ScalarLoopsSchedule):
        points = loops.points_of(Kernel.read(kernel))
        if schedule.blocks > max(1, points):
            yield f"blocks = {schedule.blocks}: there are {points} elements"
        return
    if group is None:
        yield f"kernels of kind '{schedule.kind}' do not compute what is here: only loops do"
        return
    assert isinstance(schedule, RowBlocksSchedule | ColumnPiecesSchedule), "there is no other kind"
    if schedule.chain != (chain := _chain(*group)):
        yield f"chain = {schedule.chain}: here it is {chain} whatever the schedule, so that bits are the same"
    if isinstance(schedule, ColumnPiecesSchedule):
        if group[0].across or group[1].vector_dim is None:
            yield "kind 'pieces' cuts columns beside each other, and here rows are walked along: they are not cut"
        if schedule.columns % PIECE:
            yield f"columns = {schedule.columns}: pieces are multiples of {PIECE} columns"


def _others(kernel: func.FuncOp, target: CpuTarget) -> Fields:
    return {**RowBlocksSchedule(1).fields, **ColumnPiecesSchedule(PIECE).fields, **choose_loops(kernel).fields}


SCHEDULER = by_strides(KINDS, _choose, _excesses, _others)
