"""The gradient of attention by five products: a block has 128 keys, and walks over tiles of 64 queries.

    scores^T = keys @ queries^T, slopes of weights^T = values @ g^T      | of the next tile
    of_value += weights^T @ g, of_key += slopes of scores^T @ queries
    of_query[64 of the columns] = slopes of scores @ all 128 keys        | once both groups' slopes are in shared memory

Two warpgroups have 64 keys each. What a block finds of a tile's gradient of queries, one thread adds to what others
have found, in memory: in the order of the blocks' numbers, so that sums are the same each time. The first one writes,
and each one counts. A block waits for such alone as have lower numbers, and draws its number when it begins, so that
these have begun before it: all blocks of some heads are there at a time, each a tile behind the one before it, and so
they end, and the next ones may go on as they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from blu.dialects.core.mlir import arith, func, ir, scf
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import AttentionOperand, operand_of
from blu.passes.gpu.attention.schedule import JointGradientSchedule
from blu.passes.gpu.attention.slopes import Gradient
from blu.passes.gpu.attention.warpgroups import roles
from blu.passes.gpu.attention.warpgroups.five_products import rounding, row_numbers
from blu.passes.gpu.attention.warpgroups.five_products.keys import JointKeyGradient
from blu.passes.gpu.attention.warpgroups.five_products.layout import (
    BLOCK_ROWS,
    COUNTS,
    GROUPS,
    SUM_BYTES,
    SUMS,
    TICKETS,
    JointLayout,
    blocks_of,
)
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS, MappedOperand, mapped, open_with_maps
from blu.passes.gpu.isa import barrier, shared_memory, shfl, tma
from blu.passes.gpu.kernel import Thread, repeat, repeat_while, when
from blu.passes.gpu.numbers import Number
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
        sums, counts, tickets = (operand_of(frame.scratch[place]) for place in (SUMS, COUNTS, TICKETS))
        shared = shared_address(frame)
        place = numbers.number(numbers.add(shared, layout.ticket))
        _draw(tickets, place, here)
        find = partial(_position, place, here, parts, together)
        _Block(gradient, layout, find, shared, maps, sums, counts).emit()
    after = rounding.emit(kernel)
    kernel.operation.erase()
    return [before, frame.replacement, after]


def _draw(tickets: AttentionOperand, place: ir.Value, here: Thread) -> None:
    """Draw the number of the block, by one thread, which leaves it to all others in shared memory."""
    with when(numbers.is_equal(numbers.as_number(here.thread), 0)):
        shared_memory.st(place, 0, [barrier.take_ticket(tickets.matrix([]).address(0, 0))])
    barrier.sync()


def _position(place: ir.Value, here: Thread, parts: int, together: int, in_warp: bool) -> RowPosition:
    """Where a thread is in the block of the number that was drawn; `in_warp`, if all of a warp ask."""
    number = shared_memory.ld(place, 0, 1, numbers.i32())[0]
    if in_warp:
        number = shfl.idx(number, 0)  # known to be the same in all of these
    drawn = Thread((arith.index_castui(ir.IndexType.get(), number),), here.thread)
    return RowPosition.of(drawn, parts, together)


class _Block:
    """Emits the roles of a block. `find` reads where it is: nobody has registers to keep that."""

    def __init__(
        self, gradient: Gradient, layout: JointLayout, find: Callable[..., RowPosition], shared: ir.Value,
        maps: Sequence[MappedOperand], sums: AttentionOperand, counts: AttentionOperand,
    ):  # fmt: skip
        self.gradient, self.layout, self.find, self.shared, self.maps = gradient, layout, find, shared, maps
        self.sums, self.counts = sums, counts

    def emit(self) -> None:
        """All roles."""
        first = self._of_group(self._position(in_warp=True), 0)
        stages = (first.own, first.tiles, first.results)
        roles.share(first.position, GROUPS, stages, self.maps, self._copy, self._multiply, [self._add])

    def _position(self, in_warp: bool) -> RowPosition:
        position = self.find(in_warp=in_warp)
        return replace(position, part=self._order(position)) if self.gradient.problem.causal else position

    def _order(self, position: RowPosition) -> Number:
        """How many blocks of the head come before this one. The last keys have least to do where queries do not see
        all: they are the first to do it, so that nobody waits for others."""
        if not self.gradient.problem.causal:
            return position.part
        return numbers.subtract(position.parts - 1, position.part)

    def _of_group(self, position: RowPosition, group: int | ir.Value) -> JointKeyGradient:
        return JointKeyGradient(self.gradient, self.layout, position, self.shared, self.maps, group)

    def _copy(self) -> None:
        self._of_group(self._position(in_warp=False), 0).copy()

    def _multiply(self, group: ir.Value) -> None:
        sums = self._of_group(roles.in_group(self._position(in_warp=True)), group).find()
        self._of_group(roles.in_group(self._position(in_warp=True)), group).write(sums)

    def _add(self) -> None:
        """Add what the groups leave of each tile to what other blocks have found."""
        first = self._of_group(self._position(in_warp=False), 0)
        repeat(0, first.walk.total, 1, [], partial(self._add_tile, first))

    def _add_tile(self, first: JointKeyGradient, number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        head, row = first.walk.locate(number)
        flat, tile = first.walk.flat_head(head), numbers.divide(numbers.number(row), ROWS)
        depth = self.gradient.problem.depth
        target = self.sums.matrix([flat]).address(tile, 0)
        count = self.counts.matrix([]).address(flat, tile)
        source, num_bytes = first.results.address, ROWS * depth * SUM_BYTES
        turn = self._turn(first.position, numbers.number(row))
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

    def _turn(self, position: RowPosition, row: ir.Value) -> ir.Value:
        """How many blocks add to a tile before this one."""
        problem, order = self.gradient.problem, numbers.number(self._order(position))
        if not problem.causal:
            return order
        limit = problem.limit(numbers.add(row, ROWS - 1))
        seen = numbers.divide(numbers.number(numbers.add(limit, BLOCK_ROWS - 1)), BLOCK_ROWS)
        return numbers.subtract(order, numbers.subtract(position.parts, seen))
