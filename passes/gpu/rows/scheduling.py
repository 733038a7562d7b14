"""The schedules of row kernels: chosen on tensors, fitted to buffers, refused where they do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import ceil

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.errors import ParseError
from blu.passes.framework.families import SCRATCH
from blu.passes.gpu.others.loops import LoopsSchedule
from blu.passes.gpu.rows import choice
from blu.passes.gpu.rows.columns import spell_out_sums, words_of
from blu.passes.gpu.rows.group import RowGroup, elements_of, has_folds, read_group
from blu.passes.gpu.rows.schedule import (
    AHEAD,
    DIRECTLY,
    INPUTS,
    KINDS,
    VALUES,
    ColumnSchedule,
    ColumnsSchedule,
    NestSchedule,
    PointsSchedule,
    RowRangesSchedule,
    RowsAheadSchedule,
    RowSchedule,
    RowsSchedule,
    SlicesSchedule,
    SquaresSchedule,
    SweepSchedule,
    parts_of,
)
from blu.passes.gpu.rows.sums import (
    RangeGroup,
    copied_ahead,
    has_ranges,
    has_rows,
    read_columns,
    read_rows,
)
from blu.passes.gpu.rows.transposes import find_square
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.rows.fills import spell_out_fills
from blu.passes.kernels.rows.program import RowProgram, analyse
from blu.passes.kernels.schedules import Fields, Schedule, Scheduler, check, given_to, make, missing

MOST_THREADS = 1024
MOST_REGISTERS = 255
"""Of a thread."""
MOST_UNROLL = 16
CLUSTERS = (1, 2, 4, 8)
SIDES = (16, 32, 64)


# Before strides are known


def choose(kernel: func.FuncOp, target: GpuTarget, given: Fields) -> Fields:
    """In how many parts the reductions of a kernel on tensors are split; what is given stays."""
    program = _program_of(kernel)
    parts = choice.count_parts(program, target) if program else 1
    if not given and parts == 1:
        return {}
    fields = {"kind": NestSchedule.kind, **given}
    check(KINDS, fields)
    kind = KINDS[str(fields["kind"])]
    if kind in (NestSchedule, ColumnsSchedule, SlicesSchedule):
        fields = {**fields, "split": fields.get("split", max(parts, 2 if kind is SlicesSchedule else 1))}
    split = parts_of(fields)
    if split > 1 and program is None:
        raise ParseError(f"split = {split}: there is no reduction whose parts could be put together")
    if split > choice.MOST_PARTS:
        raise ParseError(f"split = {split}: reductions have at most {choice.MOST_PARTS} parts")
    return fields


def _program_of(kernel: func.FuncOp) -> RowProgram | None:
    """The reductions of a kernel on tensors, if there are such, and they can be split."""
    plain = ("func.return", "arith.constant", "tensor.empty")
    operations = [item.operation for item in kernel.entry_block.operations if item.operation.name not in plain]
    program = analyse(operations)
    if not isinstance(program, RowProgram) or not has_folds(program) or 0 in program.sizes:
        return None
    return program if program.reductions else None


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The buffers for parts of a kernel on tensors: one for each result of a reduction, none if no block shares one."""
    split = parts_of(given_to(kernel))
    program = _program_of(kernel) if split > 1 else None
    return [] if program is None else choice.reduction_types(program, split)


# With strides


def fit(kernel: func.FuncOp, target: GpuTarget, given: Fields) -> Schedule:
    """How a kernel over buffers goes about its work. ParseError where what is given does not fit."""
    if not given and SCRATCH in kernel.attributes:
        raise missing(kernel)
    if given:
        check(KINDS, given)
    spell_out_fills(kernel)
    with _reading(kernel) as group:
        if group is None:
            return _fit_loops(given)
        split = parts_of(given)
        _check_parts(kernel, group, split)
        natural = _choose(group, target, split)
        schedule = _complete(group, target, natural, given)
        if schedule != natural and (message := next(_excesses(schedule, group, target), "")):
            raise ParseError(message)
        return schedule


@contextmanager
def _reading(kernel: func.FuncOp) -> Iterator[RowGroup | None]:
    """What a kernel computes; None where it has a form that only loops have."""
    if not has_ranges(kernel):
        yield read_group(Kernel.read(kernel))
    elif has_rows(kernel):
        yield read_rows(Kernel.read(kernel))
    else:
        with ir.InsertionPoint(kernel.operation):
            copy = kernel.operation.clone().opview
        try:
            spell_out_sums(copy)
            yield read_columns(Kernel.read(copy))
        finally:
            copy.operation.erase()


def _choose(group: RowGroup, target: GpuTarget, split: int) -> Schedule:
    if not isinstance(group, RangeGroup):
        return choice.choose_kind(group, target, split)
    return choice.choose_row_ranges(group, target) if group.program.across else choice.choose_column_ranges(group)


def _fit_loops(given: Fields) -> Schedule:
    kind = given.get("kind", LoopsSchedule.kind)
    if kind not in (NestSchedule.kind, LoopsSchedule.kind):
        raise ParseError(f"kernels of kind '{kind}' do not compute what is here: only loops do")
    return LoopsSchedule()


def _check_parts(kernel: func.FuncOp, group: RowGroup, split: int) -> None:
    """The memory of a kernel holds as many parts as its schedule says."""
    has = [ir.TypeAttr(item).value for item in ir.ArrayAttr(kernel.attributes.get(SCRATCH, ir.ArrayAttr.get([])))]
    wanted = choice.reduction_types(group.program, split) if split > 1 else []
    if has != wanted:
        found, wish = (", ".join(map(str, types)) or "none" for types in (has, wanted))
        advice = "blu-reserve-gpu-scratch gives memory by the schedule that a kernel has then."
        raise ParseError(f"split = {split} takes memory of {wish} for parts, and the kernel has {found}", advice=advice)


def _complete(group: RowGroup, target: GpuTarget, natural: Schedule, given: Fields) -> Schedule:
    """The schedule of the kind that is given, with the fields that are given, and others that go with them."""
    kind = given.get("kind", NestSchedule.kind)
    if kind == NestSchedule.kind:
        return natural
    others = natural if kind == natural.kind else _other(group, natural, str(kind), parts_of(given))
    schedule = make(KINDS, given, {**others.fields, **_team_with(others, given)})
    if isinstance(schedule, RowRangesSchedule) and isinstance(group, RangeGroup) and "reads" not in given:
        can = schedule.team <= choice.WARP and bool(copied_ahead(group, schedule, target))
        return replace(schedule, reads=AHEAD if can else DIRECTLY)
    return schedule


def _team_with(others: Schedule, given: Fields) -> Fields:
    """Where a whole block has a row, its threads and those of the row are the same."""
    if not isinstance(others, RowsSchedule | RowRangesSchedule):
        return {}
    team, threads = given.get("team", others.team), given.get("threads", others.threads)
    if not isinstance(team, int) or team <= choice.WARP:
        return {}
    return {"threads": team} if "team" in given else {"team": threads}


def _other(group: RowGroup, natural: Schedule, kind: str, split: int) -> Schedule:
    """The schedule of a kind that would not be chosen. ParseError where there can be none."""
    if kind == LoopsSchedule.kind:
        return LoopsSchedule()
    if kind == PointsSchedule.kind and isinstance(natural, SquaresSchedule):
        return choice.choose_points(group)
    if isinstance(natural, RowsSchedule | RowsAheadSchedule | SweepSchedule | SlicesSchedule):
        block = choice.choose_block(group)
        alike = {
            RowsSchedule.kind: block,
            RowsAheadSchedule.kind: RowsAheadSchedule(block.threads, block.lanes),
            SweepSchedule.kind: choice.choose_sweep(group),
            **({SlicesSchedule.kind: choice.choose_slices(group, split)} if split > 1 else {}),
        }
        if kind in alike:
            return alike[kind]
    raise ParseError(f"a kernel of kind '{kind}' does not compute what is here: one of kind '{natural.kind}' would")


# What does not fit


def _excesses(schedule: Schedule, group: RowGroup, target: GpuTarget) -> Iterator[str]:
    if isinstance(schedule, RowSchedule):
        yield from _excess_block(schedule, group)
        yield from _excess_sharing(schedule)
    if isinstance(schedule, RowsSchedule | RowRangesSchedule):
        yield from _excess_team(schedule)
    if isinstance(schedule, RowsSchedule | RowsAheadSchedule | RowRangesSchedule):
        yield from _excess_registers(schedule, group)
    if isinstance(schedule, RowsAheadSchedule):
        yield from _excess_ahead(schedule, group, target)
    if isinstance(schedule, ColumnSchedule):
        yield from _excess_columns(schedule, group, target)
    if isinstance(schedule, RowRangesSchedule):
        yield from _excess_ranges(schedule, group, target)
    if isinstance(schedule, SquaresSchedule):
        yield from _excess_squares(schedule, group, target)


def _excess_block(schedule: RowSchedule, group: RowGroup) -> Iterator[str]:
    if schedule.threads % choice.WARP or schedule.threads > MOST_THREADS:
        yield f"threads = {schedule.threads}: blocks have a multiple of {choice.WARP} threads, {MOST_THREADS} at most"
    if group.lanes % schedule.lanes:
        yield f"lanes = {schedule.lanes}: vectors have {group.lanes} elements here, or a part of that"
    unroll = schedule.cut(group.width).unroll
    if unroll > MOST_UNROLL:
        yield f"unroll = {unroll}: threads have at most {MOST_UNROLL} vectors under way"


def _excess_sharing(schedule: RowSchedule) -> Iterator[str]:
    if isinstance(schedule, SweepSchedule) and schedule.per_processor > 2:
        yield f"per_processor = {schedule.per_processor}: of blocks that sweep, a processor has 1 or 2"
    if isinstance(schedule, SlicesSchedule) and schedule.split > schedule.threads:
        yield f"split = {schedule.split}: {schedule.threads} threads put as many slices of a row together at most"


def _excess_team(schedule: RowsSchedule | RowRangesSchedule) -> Iterator[str]:
    is_part = schedule.team <= choice.WARP and schedule.team & (schedule.team - 1) == 0
    if not is_part and schedule.team != schedule.threads:
        yield f"team = {schedule.team}: a row has a power of two of threads up to {choice.WARP}, or all of a block"
    if isinstance(schedule, RowsSchedule) and schedule.keeps not in (VALUES, INPUTS):
        yield f"keeps = '{schedule.keeps}': of a row, '{VALUES}' are kept or '{INPUTS}'"


def _excess_registers(schedule: RowSchedule, group: RowGroup) -> Iterator[str]:
    cut = schedule.cut(group.width)
    inputs = [operand for operand in group.operands if operand.is_input]
    made = max(sum(operand.words for operand in inputs), 1.0)
    each = choice.kept_words(inputs, cut.lanes) if cut.hides else made
    sums = len(group.sums) if isinstance(group, RangeGroup) else 0
    needed, most = ceil((cut.chunks or 0) * cut.lanes * (each + sums)), min(MOST_REGISTERS, (1 << 16) // cut.threads)
    if needed > most:
        row = f"a row of {group.width} elements takes {needed} registers of each of {cut.team} threads"
        yield f"{row}, of at most {most} in blocks of {cut.threads}"


def _excess_ahead(schedule: RowsAheadSchedule, group: RowGroup, target: GpuTarget) -> Iterator[str]:
    if not target.tma:
        yield f"{target.name} has too few registers for rows that are read ahead"
    if schedule.cluster not in CLUSTERS:
        yield f"cluster = {schedule.cluster}: clusters have {', '.join(map(str, CLUSTERS))} blocks"
    if schedule.threads * schedule.per_processor > target.threads_per_processor:
        threads = f"{schedule.per_processor} blocks of {schedule.threads} threads"
        yield f"per_processor = {schedule.per_processor}: {threads}, of {target.threads_per_processor} of a processor"
    if not choice.can_read_ahead(group, schedule, target):
        yield (
            f"what is read along rows cannot be copied ahead: it is read in one walk only, lies apart, or takes more "
            f"than {target.shared_bytes // schedule.per_processor} bytes of shared memory"
        )


def _excess_columns(schedule: ColumnSchedule, group: RowGroup, target: GpuTarget) -> Iterator[str]:
    if schedule.width & (schedule.width - 1) or schedule.width > schedule.threads:
        yield f"width = {schedule.width}: a power of two of the {schedule.threads} threads are beside each other"
    elif schedule.threads % schedule.width:
        yield f"width = {schedule.width}: {schedule.threads} threads are no multiple of that"
    if isinstance(schedule, ColumnsSchedule) and schedule.cluster > 1:
        yield from _excess_column_cluster(schedule, target)
    types = [item.element for item in group.sums] if isinstance(group, RangeGroup) else elements_of(group.program)
    needed = max(map(words_of, types), default=0) * 4 * schedule.lanes * schedule.threads
    if needed > target.shared_bytes:
        yield f"sums of {schedule.threads} threads take {needed} bytes of shared memory, of {target.shared_bytes}"


def _excess_column_cluster(schedule: ColumnsSchedule, target: GpuTarget) -> Iterator[str]:
    if not target.clusters or schedule.cluster not in CLUSTERS:
        blocks = ", ".join(map(str, CLUSTERS))
        yield f"cluster = {schedule.cluster}: clusters have {blocks} blocks, and {target.name} may have none"
    if schedule.split > 1:
        yield f"split = {schedule.split}: a cluster of blocks leaves nothing to add up"
    rows = choice.WARP // schedule.width if schedule.width <= choice.WARP else 0
    if not rows or schedule.cluster % rows or schedule.threads // choice.WARP % rows:
        yield f"width = {schedule.width}: a warp has {rows} rows of that, by which warps and blocks are to be divisible"


def _excess_ranges(schedule: RowRangesSchedule, group: RowGroup, target: GpuTarget) -> Iterator[str]:
    assert isinstance(group, RangeGroup), "ranges of a group without any"
    if schedule.reads not in (DIRECTLY, AHEAD):
        yield f"reads = '{schedule.reads}': rows are read '{DIRECTLY}' or '{AHEAD}'"
    if schedule.reads == AHEAD and schedule.team > choice.WARP:
        yield f"reads = '{AHEAD}': a row that a whole block has is read '{DIRECTLY}'"
    elif schedule.reads == AHEAD and not copied_ahead(group, schedule, target):
        yield f"reads = '{AHEAD}': rows lie apart, or take more than {target.shared_bytes} bytes of shared memory"


def _excess_squares(schedule: SquaresSchedule, group: RowGroup, target: GpuTarget) -> Iterator[str]:
    if schedule.side not in SIDES:
        yield f"side = {schedule.side}: tiles have sides of {', '.join(map(str, SIDES))}"
    square = find_square(group.program, group.layout, group.frame)
    needed = 4 * replace(square, side=schedule.side).words * len(square.sources) if square else 0
    if needed > target.shared_bytes:
        yield f"tiles take {needed} bytes of shared memory, and a block on {target.name} has {target.shared_bytes}"


SCHEDULER = Scheduler(choose, fit)
