"""The gradient of attention on a GPU, without a matrix of all scores: scores are computed again, twice.

With weights P and D = P * (g V^T - inner), where inner is the sum of g * result for each query:

    of_query = factor * D K        of_key = factor * D^T Q        of_value = P^T g

The first launch walks over keys for some queries (query_gradient.py). It has a running softmax as the forward
does, which is linear in what is summed, so that no pass for the sums of weights comes before; it leaves the largest
scores, the logarithms of these sums and inner to the next. That one walks over queries for some keys. Sums stay in the
registers of one warp: results do not depend on the order in which blocks run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.attention.attention import leave_registers, rows_fit
from blu.passes.gpu.attention.block import RowPosition, RowTiles, TileBlock
from blu.passes.gpu.attention.key_gradient import KeyGradient, KeyTiles
from blu.passes.gpu.attention.limits import suits_joint, warpgroup_misfit
from blu.passes.gpu.attention.query_gradient import QueryGradient, QueryTiles
from blu.passes.gpu.attention.row_sums import ranges
from blu.passes.gpu.attention.schedule import (
    LAUNCHES,
    GradientTilesSchedule,
    JointGradientSchedule,
    PartsGradientSchedule,
    WarpgroupGradientSchedule,
    gradient_schedule_of,
)
from blu.passes.gpu.attention.sizes import ScheduleSizes
from blu.passes.gpu.attention.slopes import ROW_NUMBERS, Gradient
from blu.passes.gpu.attention.warpgroups import gradient as warpgroups_gradient
from blu.passes.gpu.attention.warpgroups import part_gradient
from blu.passes.gpu.attention.warpgroups.five_products import launch as joint
from blu.passes.gpu.attention.warpgroups.five_products import layout as joint_layout
from blu.passes.gpu.attention.warpgroups.stages import ROWS
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.shared import shared_address
from blu.passes.kernels.schedules import given_to
from blu.passes.kernels.updates import find_operation


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The numbers of each query: its largest score, the logarithm of its sum of weights, and inner.

    Warpgroups write and read those of 64 queries at a time. The parts of f32, if these are multiplied, come behind, or
    what blocks add up: strides may say later that they do not.
    """
    operation = find_operation(kernel, "blu.attention_gradient")
    *heads, rows, columns = ir.RankedTensorType(operands_of(operation)[1].type).shape
    target, kind = GpuTarget.of(kernel.operation.parent), given_to(kernel).get("kind")
    if kind == JointGradientSchedule.kind or (kind is None and suits_joint(operation, target)):
        return joint_layout.reserve([*heads, rows, columns])
    is_of_parts = kind == PartsGradientSchedule.kind
    has_groups = target.wgmma and not warpgroup_misfit(ScheduleSizes.of(operation))
    if is_of_parts or has_groups:
        rows = -(-rows // ROWS) * ROWS
    own = [ir.MemRefType.get([prod(heads), rows], ir.F32Type.get())] * ROW_NUMBERS
    schedule = gradient_schedule_of(kernel) if is_of_parts else None
    return [*own, *part_gradient.reserve(kernel, schedule)] if isinstance(schedule, PartsGradientSchedule) else own


def takes(operation: ir.Operation) -> bool:
    """Whether `emit` takes a blu.attention_gradient: floats of up to 32 bits in rows that fit in registers."""
    _, query, _, value, *_ = operands_of(operation)
    return rows_fit(ir.RankedTensorType(query.type), ir.RankedTensorType(value.type))


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention_gradient by two launches or three, and those of sums."""
    schedule, operation = gradient_schedule_of(kernel), find_operation(kernel, "blu.attention_gradient")
    if isinstance(schedule, WarpgroupGradientSchedule):
        return warpgroups_gradient.emit(kernel, schedule)
    if isinstance(schedule, PartsGradientSchedule):
        return part_gradient.emit(kernel, schedule)
    if isinstance(schedule, JointGradientSchedule):
        return joint.emit(kernel, schedule, target)
    assert isinstance(schedule, GradientTilesSchedule), "there is no other kind"
    query, key, value = (ir.RankedTensorType(item.type).shape for item in operands_of(operation)[1:4])
    columns = (query[-1], value[-1])
    size = ir.RankedTensorType(operands_of(operation)[1].type).element_type.width // 8
    of_query = QueryTiles.by(schedule, columns, size)
    launches = [_launch(kernel, "_query", of_query, query, partial(QueryGradient, schedule=of_query))]
    for suffix, of_key, of_value in LAUNCHES[schedule.launches]:
        tiles = replace(KeyTiles.by(schedule, columns, size), of_key=of_key, of_value=of_value)
        launches.append(_launch(kernel, suffix, tiles, key, partial(KeyGradient, schedule=tiles)))
    launches += ranges.emit_apart(kernel, operation)
    kernel.operation.erase()
    return launches


def _launch(
    kernel: func.FuncOp,
    suffix: str,
    tiles: RowTiles,
    rows: Sequence[int],
    emitter: Callable[..., QueryGradient | KeyGradient],
) -> func.FuncOp:
    """One launch, whose blocks have each a part of the rows of a head, of all heads [.., rows, columns]."""
    operation = find_operation(kernel, "blu.attention_gradient")
    frame = GpuKernel.open(kernel, name=f"{kernel.name.value}{suffix}")
    leave_registers(frame)
    parts = -(-rows[-2] // tiles.rows)
    grid = (max(1, prod(rows[:-2]) * parts),)
    with operation.location, frame.launch(grid, tiles.warps * WARP, tiles.memory.bytes) as here:
        if prod(rows):
            gradient, position = Gradient.read(operation, frame), RowPosition.of(here, parts)
            block = TileBlock(gradient.problem, position, tiles.warps, tiles.strips, shared_address(frame))
            emitter(gradient=gradient, block=block).emit()
    return frame.replacement
