"""The gradient of attention by Hopper's warpgroups: the launches of `gradient.py`, with 64 rows for each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from blu.dialects.core.mlir import func, ir, scf
from blu.dialects.core.op import operands_of
from blu.passes.gpu import numbers
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

Emitter = Callable[..., WarpgroupQueryGradient | WarpgroupKeyGradient]
"""What a group does, of what it computes, its shared memory, where it is, and what is copied."""


def emit(kernel: func.FuncOp, schedule: WarpgroupGradientSchedule) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention_gradient, whose operands the copy engine reads, by its launches."""
    operation = find_operation(kernel, "blu.attention_gradient")
    g, query, key, value, *_ = operands_of(operation)
    columns = [ir.RankedTensorType(item.type).shape[-1] for item in (query, value)]
    of_query = [(query, ROWS), (g, ROWS), (key, schedule.keys), (value, schedule.keys)]
    of_keys = [(key, ROWS), (value, ROWS), (query, schedule.queries), (g, schedule.queries)]
    layouts = [layout.of(schedule, *columns, size_of(query)) for layout in (QueryLayout, KeyLayout)]
    launches = [emit_launch(kernel, "_query", of_query, layouts[0], schedule.query_blocks, [WarpgroupQueryGradient])]
    for suffix, *found in LAUNCHES[schedule.launches]:
        emitter = partial(WarpgroupKeyGradient, finds=found)
        launches.append(emit_launch(kernel, suffix, of_keys, layouts[1], schedule.key_blocks, [emitter]))
    kernel.operation.erase()
    return launches


def emit_launch(
    kernel: func.FuncOp,
    suffix: str,
    operands: Sequence[tuple[ir.Value, int]],
    layout: QueryLayout | KeyLayout,
    blocks: int,
    emitters: Sequence[Emitter],
    planes: Sequence[int] = (),
) -> func.FuncOp:
    """One launch, whose groups have each 64 rows of a head of the first operand, of operands or of their planes.

    Of two emitters, each has as many blocks, those of the first one before the others.
    """
    frame = open_with_maps(kernel, operands, f"{kernel.name.value}{suffix}", planes)
    rows, _, *walked = (ir.RankedTensorType(operand.type).shape for operand, _ in operands)
    groups = layout.own.count
    parts = -(-rows[-2] // (ROWS * groups))
    count, operation = prod(rows[:-2]) * parts, find_operation(kernel, "blu.attention_gradient")
    grid, num_bytes = (count * len(emitters),), layout.memory.bytes
    threads = THREADS if groups == 1 else THREADS * (groups + 1)
    # Of groups that hand on registers, ptxas must know with how many they begin, which it does where this is said.
    is_said = groups > 1
    with operation.location, frame.launch(grid, threads, num_bytes, per_processor=blocks, is_small=is_said) as here:
        gradient, maps = Gradient.read(operation, frame), mapped(frame, [operand for operand, _ in operands])
        together = heads_together(rows, walked, gradient.problem.size) if gradient.problem.causal else 1
        position, shared = RowPosition.of(here, parts, together), shared_address(frame)

        def emit_block(position: RowPosition, emitter: Emitter) -> None:
            if groups == 1:
                emitter(gradient, layout, position, shared, maps).emit()
                return
            of_group = partial(emitter, gradient, layout, roles.in_group(position), shared, maps)
            first = of_group()
            stages = (first.own, first.tiles)
            roles.share(position, groups, stages, maps, first.copy, lambda group: of_group(group).emit())

        _each_its_blocks(position, count, [partial(emit_block, emitter=emitter) for emitter in emitters])
    return frame.replacement


def _each_its_blocks(position: RowPosition, count: int, emits: Sequence[Callable[[RowPosition], None]]) -> None:
    """One emitter has all blocks; of two, each has `count` of them."""
    if len(emits) == 1:
        emits[0](position)
        return
    own = replace(position, block=numbers.remainder(position.block, count))
    branch = scf.IfOp(numbers.is_below(position.block, count), has_else=True)
    for block, emit_block in zip((branch.then_block, branch.else_block), emits, strict=True):
        with ir.InsertionPoint(block):
            emit_block(own)
            scf.yield_([])
