"""The gradient of attention by Hopper's warpgroups: the launches of `gradient.py`, with 64 rows for each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import size_of
from blu.passes.gpu.attention.schedule import LAUNCHES, WarpgroupGradientSchedule
from blu.passes.gpu.attention.slopes import Gradient
from blu.passes.gpu.attention.warpgroups import roles
from blu.passes.gpu.attention.warpgroups.key_gradient import KeyLayout, WarpgroupKeyGradient
from blu.passes.gpu.attention.warpgroups.order import heads_together
from blu.passes.gpu.attention.warpgroups.query_gradient import QueryLayout, WarpgroupQueryGradient
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS, mapped, open_with_maps
from blu.passes.gpu.shared import shared_address
from blu.passes.kernels.updates import find_operation


def emit(kernel: func.FuncOp, schedule: WarpgroupGradientSchedule) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention_gradient, whose operands the copy engine reads, by its launches."""
    operation = find_operation(kernel, "blu.attention_gradient")
    g, query, key, value, *_ = operands_of(operation)
    columns = [ir.RankedTensorType(item.type).shape[-1] for item in (query, value)]
    of_query = [(query, ROWS), (g, ROWS), (key, schedule.keys), (value, schedule.keys)]
    of_keys = [(key, ROWS), (value, ROWS), (query, schedule.queries), (g, schedule.queries)]
    layouts = [layout.of(schedule, *columns, size_of(query)) for layout in (QueryLayout, KeyLayout)]
    launches = [emit_launch(kernel, "_query", of_query, layouts[0], schedule.query_blocks, WarpgroupQueryGradient)]
    for suffix, *found in LAUNCHES[schedule.launches]:
        emitter = partial(WarpgroupKeyGradient, finds=found)
        launches.append(emit_launch(kernel, suffix, of_keys, layouts[1], schedule.key_blocks, emitter))
    kernel.operation.erase()
    return launches


def emit_launch(
    kernel: func.FuncOp,
    suffix: str,
    operands: Sequence[tuple[ir.Value, int]],
    layout: QueryLayout | KeyLayout,
    blocks: int,
    emitter: Callable[..., WarpgroupQueryGradient | WarpgroupKeyGradient],
    planes: Sequence[int] = (),
    kinds: int = 1,
) -> func.FuncOp:
    """One launch, whose groups have each 64 rows of a head of the first operand, of operands or of their planes.

    There may be blocks of several kinds, as many of each, one kind after the other.
    """
    frame = open_with_maps(kernel, operands, f"{kernel.name.value}{suffix}", planes)
    rows, _, *walked = (ir.RankedTensorType(operand.type).shape for operand, _ in operands)
    groups = layout.own.count
    parts = -(-rows[-2] // (ROWS * groups))
    grid, operation = (prod(rows[:-2]) * parts * kinds,), find_operation(kernel, "blu.attention_gradient")
    threads, num_bytes = THREADS if groups == 1 else THREADS * (groups + 1), layout.memory.bytes
    # Of groups that hand on registers, ptxas must know with how many they begin, which it does where this is said.
    is_said = groups > 1
    with operation.location, frame.launch(grid, threads, num_bytes, per_processor=blocks, is_small=is_said) as here:
        gradient, maps = Gradient.read(operation, frame), mapped(frame, [operand for operand, _ in operands])
        together = heads_together(rows, walked, gradient.problem.size) if gradient.problem.causal else 1
        position, shared = RowPosition.of(here, parts, together), shared_address(frame)
        if groups == 1:
            emitter(gradient, layout, position, shared, maps).emit()
        else:
            of_group = partial(emitter, gradient, layout, roles.in_group(position), shared, maps)
            first = of_group()
            stages = (first.own, first.tiles)
            roles.share(position, groups, stages, maps, first.copy, lambda group: of_group(group).emit())
    return frame.replacement
