"""The gradient of attention by five products: a block has 128 keys, and walks over tiles of 64 queries.

    scores^T = keys @ queries^T, slopes of weights^T = values @ g^T      | of the next tile
    of_value += weights^T @ g, of_key += slopes of scores^T @ queries
    of_query[64 of the columns] = slopes of scores @ all 128 keys        | once both groups' slopes are in shared memory

Two warpgroups have 64 keys each. What a block finds of a tile's gradient of queries, one thread adds to what others
have found, in memory: blocks in the order of their numbers, so that sums are the same each time. The first one writes,
and each one counts. A block waits for such alone as have lower numbers, which began before it: all blocks of some heads
are there at a time, each a tile behind the one before it, and so they end, and the next ones may go on as they begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

from blu.dialects.core.mlir import func, ir, scf
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import AttentionOperand, operand_of
from blu.passes.gpu.attention.schedule import JointGradientSchedule
from blu.passes.gpu.attention.slopes import ROW_NUMBERS, Gradient
from blu.passes.gpu.attention.warpgroups import roles
from blu.passes.gpu.attention.warpgroups.five_products import rounding, row_numbers
from blu.passes.gpu.attention.warpgroups.five_products.keys import JointKeyGradient
from blu.passes.gpu.attention.warpgroups.five_products.layout import (
    BLOCK_ROWS,
    GROUPS,
    SUM_BYTES,
    JointLayout,
    blocks_of,
)
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS, MappedOperand, mapped, open_with_maps
from blu.passes.gpu.isa import barrier, tma
from blu.passes.gpu.kernel import repeat, repeat_while, when
from blu.passes.gpu.shared import shared_address
from blu.passes.kernels.updates import find_operation


def emit(kernel: func.FuncOp, schedule: JointGradientSchedule, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention_gradient, whose operands the copy engine reads, by its launches."""
    operation = find_operation(kernel, "blu.attention_gradient")
    g, query, key, value, *_ = operands_of(operation)
    shapes = [ir.RankedTensorType(item.type).shape for item in (query, key, value)]
    operands = [(item, ROWS) for item in (key, value, query, g)]
    before = row_numbers.emit(kernel)
    frame = open_with_maps(kernel, operands, f"{kernel.name.value}_joint")
    layout = JointLayout.of(schedule.stages, shapes[0][-1], shapes[2][-1])
    heads, parts = prod(shapes[1][:-2]), blocks_of(shapes[1][-2])
    num_bytes, threads = layout.memory.bytes, (GROUPS + 1) * THREADS
    # Heads take turns, as far as all blocks of these are there at a time.
    together = next(count for count in range(max(1, target.processors // parts), 0, -1) if heads % count == 0)
    with operation.location, frame.launch((heads * parts,), threads, num_bytes, is_small=True) as here:
        gradient, maps = Gradient.read(operation, frame), mapped(frame, [operand for operand, _ in operands])
        sums, counts = (operand_of(item) for item in frame.scratch[ROW_NUMBERS : ROW_NUMBERS + 2])
        position, shared = RowPosition.of(here, parts, together), shared_address(frame)
        _Block(gradient, layout, position, shared, maps, sums, counts).emit()
    after = rounding.emit(kernel)
    kernel.operation.erase()
    return [before, frame.replacement, after]


class _Block:
    """Emits the roles of a block."""

    def __init__(
        self, gradient: Gradient, layout: JointLayout, position: RowPosition, shared: ir.Value,
        maps: Sequence[MappedOperand], sums: AttentionOperand, counts: AttentionOperand,
    ):  # fmt: skip
        self.gradient, self.layout, self.position, self.shared, self.maps = gradient, layout, position, shared, maps
        self.sums, self.counts, self.order = sums, counts, position.part
        if gradient.problem.causal:
            # The last keys have least to do, and are the first to do it: nobody waits for others.
            self.position = replace(position, part=numbers.subtract(position.parts - 1, position.part))

    def emit(self) -> None:
        """All roles."""
        first = self._of_group(self.position, 0)
        stages, in_group = (first.own, first.tiles, first.results), roles.in_group(self.position)
        multiply = lambda group: self._of_group(in_group, group).emit()  # noqa: E731
        roles.share(self.position, GROUPS, stages, self.maps, first.copy, multiply, [partial(self._add, first)])

    def _of_group(self, position: RowPosition, group: int | ir.Value) -> JointKeyGradient:
        return JointKeyGradient(self.gradient, self.layout, position, self.shared, self.maps, group)

    def _add(self, first: JointKeyGradient) -> None:
        """Add what the groups leave of each tile to what other blocks have found."""
        repeat(0, first.walk.total, 1, [], partial(self._add_tile, first))

    def _add_tile(self, first: JointKeyGradient, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        head, row = first.walk.locate(number)
        flat, tile = first.walk.flat_head(head), numbers.divide(numbers.number(row), ROWS)
        depth = self.gradient.problem.depth
        target = self.sums.matrix([flat]).address(tile, 0)
        count = self.counts.matrix([]).address(flat, tile)
        source, num_bytes = first.results.address, ROWS * depth * SUM_BYTES
        turn = self._turn(numbers.number(row))
        with when(numbers.is_below(0, turn)):
            repeat_while(lambda: numbers.is_below(barrier.acquire(count), turn))
        first.results.wait(number)
        is_first = scf.IfOp(numbers.is_equal(turn, 0), has_else=True)
        for block, send in (
            (is_first.then_block, tma.store_bytes),
            (is_first.else_block, tma.add_bytes),
        ):
            with ir.InsertionPoint(block):
                send(target, source, num_bytes)
                scf.yield_([])
        tma.commit_group()
        tma.wait_group_read(0)
        first.results.give_back()
        tma.wait_group(0)
        barrier.release(count, numbers.number(numbers.add(turn, 1)))
        return carried

    def _turn(self, row: ir.Value) -> ir.Value:
        """How many blocks add to a tile before this one."""
        problem = self.gradient.problem
        if not problem.causal:
            return numbers.number(self.order)
        limit = problem.limit(numbers.add(row, ROWS - 1))
        seen = numbers.divide(numbers.number(numbers.add(limit, BLOCK_ROWS - 1)), BLOCK_ROWS)
        return numbers.subtract(self.order, numbers.subtract(self.position.parts, seen))
