"""The schedules of kernels of matrix products: chosen on tensors, fitted to buffers, refused where they do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.errors import ParseError
from blu.passes.framework.families import SCRATCH
from blu.passes.gpu.gemm import split
from blu.passes.gpu.gemm.choice import (
    TILES,
    ProductSizes,
    choose_by_sizes,
    choose_by_strides,
    clocks_of_warpgroups,
    clocks_of_warps,
    tiles_of,
)
from blu.passes.gpu.gemm.column_sums import has_row_sums
from blu.passes.gpu.gemm.few_rows.prologue import makes_rows
from blu.passes.gpu.gemm.gemm import product_of
from blu.passes.gpu.gemm.limits import excess, misfit, place_of_sums
from blu.passes.gpu.gemm.schedule import (
    KINDS,
    SUMS,
    WARPGROUP_STEPS,
    LoopsSchedule,
    MmaSchedule,
    ProductSchedule,
    SimtSchedule,
    WgmmaSchedule,
    parts_of,
)
from blu.passes.gpu.gemm.wgmma import largest
from blu.passes.kernels.schedules import Fields, Schedule, Scheduler, around, make, missing


def choose(kernel: func.FuncOp, target: GpuTarget, given: Fields) -> Fields:
    """What sizes decide of a product; what is given stays."""
    return _choose(kernel, target, given, can_split=not has_row_sums(kernel)).fields


def _choose(kernel: func.FuncOp, target: GpuTarget, given: Fields, can_split: bool) -> Schedule:
    contraction = split.contraction_of(kernel)
    if not makes_rows(kernel) and not all(map(_is_in_memory, list(contraction.operation.operands)[:2])):
        return LoopsSchedule()
    schedule = choose_by_sizes(contraction, target, given, can_split)
    if message := excess(schedule, contraction, target):
        raise ParseError(message)
    return schedule


def _is_in_memory(value: ir.Value) -> bool:
    """Whether a factor is what the kernel was given, and not made in it."""
    return isinstance(value.owner, ir.Block) or value.owner.name == "bufferization.to_tensor"


def fit(kernel: func.FuncOp, target: GpuTarget, given: Fields) -> Schedule:
    """Which kind of kernel a product over buffers is. ParseError where its schedule does not fit."""
    if not given and (SCRATCH in kernel.attributes or split.gives_parts(kernel)):
        raise missing(kernel)
    schedule = make(KINDS, given, {}) if given else _choose(kernel, target, {}, can_split=False)
    product = product_of(kernel)
    if isinstance(schedule, ProductSchedule):
        schedule = (
            LoopsSchedule() if product is None else choose_by_strides(product, schedule, target, makes_rows(kernel))
        )
        if isinstance(schedule, WgmmaSchedule):
            schedule = largest(schedule) if has_row_sums(kernel) else schedule
            schedule = replace(schedule, sums=place_of_sums(schedule, kernel, target))
    if product is not None and not isinstance(schedule, LoopsSchedule):
        _check_parts(kernel, schedule)
        if message := excess(schedule, product.contraction, target) or misfit(schedule, kernel, product):
            raise ParseError(message)
    return schedule


def _check_parts(kernel: func.FuncOp, schedule: Schedule) -> None:
    """The memory of a kernel holds as many parts as its schedule says."""
    contraction, count = split.contraction_of(kernel), parts_of(schedule)
    wanted = split.parts_type(contraction, count)
    if split.gives_parts(kernel):
        given = [value.operands[1].type for value in _written(kernel)]
    else:
        given = [ir.TypeAttr(item).value for item in ir.ArrayAttr(kernel.attributes.get(SCRATCH, ir.ArrayAttr.get([])))]
    if given != ([wanted] if count > 1 or split.gives_parts(kernel) else []):
        found = ", ".join(map(str, given)) or "none"
        advice = "blu-split-products and blu-reserve-gpu-scratch give memory by the schedule that a kernel has then."
        raise ParseError(
            f"split = {count} takes memory of {wanted} for parts, and the kernel has {found}", advice=advice
        )


def _written(kernel: func.FuncOp) -> list[ir.Operation]:
    names = "bufferization.materialize_in_destination"
    return [item.operation for item in kernel.body.blocks[0] if item.operation.name == names]


def neighbours(schedule: Fields) -> Iterator[Fields]:
    """Other tiles, with as many bytes under way, then other numbers and places of sums."""
    number = {name: value for name, value in schedule.items() if isinstance(value, int)}
    if schedule["kind"] == WgmmaSchedule.kind:
        yield from _of_warpgroups(schedule, number)
        return
    if schedule["kind"] == MmaSchedule.kind:
        for rows, columns in TILES:
            yield {**schedule, "rows": rows, "columns": columns, "warp_rows": rows // 2, "warp_columns": columns // 2}
    yield from around(schedule)


def _of_warpgroups(schedule: Fields, number: Mapping[str, int]) -> Iterator[Fields]:
    yield from ({**schedule, "sums": sums} for sums in SUMS)
    yield {**schedule, "stages": number["stages"] + 1}
    if schedule["registers"] == "none":
        bytes_under_way = number["stages"] * (number["rows"] + number["columns"])
        for rows, columns in WARPGROUP_STEPS:
            stages = bytes_under_way // (rows + columns)
            yield {**schedule, "rows": rows, "columns": columns, "stages": stages, "lead": 1}
    yield from ({**schedule, **other} for other in around({"group": number["group"]}))
    yield from _other_parts(schedule, number["split"], number["lead"])
    yield {**schedule, "stages": number["stages"] - 1}


def _other_parts(schedule: Fields, parts: int, lead: int) -> Iterator[Fields]:
    """Other parts of k, which are sums in f32 that no box takes, and other lengths of the first."""
    for count in (2 * parts, parts // 2, parts + 1, parts - 1):
        if count:
            leads = [each for each in (lead, 1) if each or count == split.REST_PARTS]
            yield from ({**schedule, "split": count, "lead": each, "sums": "staged"} for each in leads)
    if parts > 1:
        yield from ({**schedule, "lead": each} for each in (lead + 1, lead - 1) if each > 0)
    yield {**schedule, "split": split.REST_PARTS, "lead": 0, "sums": "staged"}


def expected(kernel: func.FuncOp, target: GpuTarget, schedule: Fields) -> float:
    """Clocks, by the model that schedules are chosen by; 0 of a kind that it does not choose by clocks."""
    if schedule["kind"] not in (WgmmaSchedule.kind, MmaSchedule.kind, SimtSchedule.kind):
        return 0.0
    sizes = ProductSizes.of(split.contraction_of(kernel), str(schedule["instruction"]))
    rows, columns, parts = (int(schedule[name]) for name in ("rows", "columns", "split"))
    if schedule["kind"] != WgmmaSchedule.kind:
        return clocks_of_warps(sizes, target, rows, columns, parts) if (rows, columns) in TILES else 0.0
    step = WARPGROUP_STEPS.get((rows, columns))
    is_few = tiles_of(sizes, rows, columns) < target.processors
    lead = int(schedule.get("lead", 1)) if is_few else 1  # which does not fit where there are more tiles
    return clocks_of_warpgroups(sizes, target, (rows, columns), step, parts, lead) if step else 0.0


SCHEDULER = Scheduler(choose, fit, lambda kernel: split.contraction_of(kernel).operation.location, neighbours, expected)
