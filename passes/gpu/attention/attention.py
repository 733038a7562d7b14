"""Attention on a GPU by tensor cores: a block has some rows of queries, and walks over tiles of keys.

Each warp has 16 or 32 rows of queries: scores, weights and results stay in its registers, and weights are the left
factor of their product with values as they are. Tiles of keys and values come to shared memory while the tile before is
worked on. Tiles that no query of the block sees are not read; tiles that all of them see are not masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition, SeenKeys, SoftmaxStep, TileBlock
from blu.passes.gpu.attention.few_queries import decode as attention_decode
from blu.passes.gpu.attention.operands import (
    AttentionOperand,
    forward_in,
    forward_operands,
    operand_of,
    read_problem,
    split_head,
    sums_of,
)
from blu.passes.gpu.attention.output import write_sums, write_tile
from blu.passes.gpu.attention.schedule import (
    REGISTERS,
    WARPS,
    FewQueriesSchedule,
    PartsSchedule,
    QueryTilesSchedule,
    SharedKeysSchedule,
    WarpgroupSchedule,
    schedule_of,
)
from blu.passes.gpu.attention.scores import (
    KeySpan,
    Mask,
    RunningSoftmax,
    Sums,
    add_product,
    as_left,
    kept,
    scaled,
)
from blu.passes.gpu.attention.tiles import MatrixTile, tile_bytes
from blu.passes.gpu.attention.warpgroups import forward as warpgroups_forward
from blu.passes.gpu.attention.warpgroups import part_keys, shared_keys
from blu.passes.gpu.isa import barrier, cp_async
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.schedules import given_to

LARGEST_ROW = 256
"""Columns of queries and values of 16 bits, up to which a warp's results fit in registers."""

LARGEST_WIDE_ROW = 128
"""The same for f32, whose tiles take twice the shared memory."""


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention, or a piece of one, as its schedule says."""
    schedule = schedule_of(kernel)
    if isinstance(schedule, FewQueriesSchedule):
        return attention_decode.emit(kernel, schedule, target)
    if isinstance(schedule, WarpgroupSchedule):
        return warpgroups_forward.emit(kernel, schedule)
    if isinstance(schedule, SharedKeysSchedule):
        return shared_keys.emit(kernel, schedule)
    if isinstance(schedule, PartsSchedule):
        return part_keys.emit(kernel, schedule)
    assert isinstance(schedule, QueryTilesSchedule), "there is no other kind"
    operation = forward_in(kernel)
    operands = forward_operands(operation)
    frame = GpuKernel.open(kernel)
    query, value = (ir.RankedTensorType(item.type).shape for item in (operands[0], operands[2]))
    size = ir.RankedTensorType(operands[0].type).element_type.width // 8
    layout = SharedLayout.of(schedule, query[-1], value[-1], size)
    leave_registers(frame)
    grid = (max(1, prod(query[:-2]) * layout.blocks(query[-2])),)
    with operation.location, frame.launch(grid, WARPS * WARP, layout.memory.bytes) as here:
        if prod(query[:-1]) * value[-1]:
            problem = read_problem(operation, frame, operands)
            shared, output = shared_address(frame), operand_of(frame.outputs[0][1])
            position = RowPosition.of(here, layout.blocks(query[-2]))
            block = TileBlock(problem, position, WARPS, schedule.strips, shared)
            Forward(block, layout, output, sums_of(frame)).emit()
    return frame.finish()


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The scratch memory of a kernel: the parts of what it reads, where its schedule says so."""
    if given_to(kernel).get("kind") != PartsSchedule.kind:
        return []
    schedule = schedule_of(kernel)
    assert isinstance(schedule, PartsSchedule)
    return part_keys.reserve(kernel, schedule)


def takes(operation: ir.Operation) -> bool:
    """Whether `emit` takes a blu.attention: floats of up to 32 bits in rows that fit in registers, or few queries."""
    types = [ir.RankedTensorType(item.type) for item in operands_of(operation)[:3]]
    is_few = not isinstance(types[0].element_type, ir.F64Type) and attention_decode.suits(operation)
    return (is_few and types[0].shape[-1] <= LARGEST_ROW) or rows_fit(types[0], types[2])


def takes_piece(operation: ir.Operation) -> bool:
    """Whether `emit` takes a blu.attention_piece: never as few queries, so rows are to fit."""
    query, _, value, _ = operands_of(operation)
    return rows_fit(ir.RankedTensorType(query.type), ir.RankedTensorType(value.type))


def rows_fit(query: ir.RankedTensorType, value: ir.RankedTensorType) -> bool:
    """Whether rows have columns, and no more than registers have room for."""
    longest = {16: LARGEST_ROW, 32: LARGEST_WIDE_ROW}.get(query.element_type.width, 0)
    return all(1 <= item.shape[-1] <= longest for item in (query, value))


def leave_registers(frame: GpuKernel) -> None:
    """Say that one block to a multiprocessor is enough, or ptxas would rather spill than take more registers."""
    frame.replacement.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(numbers.i32(), 1)


@dataclass(frozen=True)
class SharedLayout:
    """Where the tiles of queries, of keys and of values are in shared memory; the last two are there twice."""

    schedule: QueryTilesSchedule
    memory: SharedMemory
    queries: int
    keys: int
    values: int

    @classmethod
    def of(cls, schedule: QueryTilesSchedule, depth: int, width: int, size: int) -> SharedLayout:
        """Tiles of queries and keys with `depth` columns, and of values and results with `width`, of `size` bytes."""
        memory = SharedMemory()
        queries = memory.take(tile_bytes(schedule.rows, max(depth, width), size))
        keys, values = (memory.take(tile_bytes(schedule.keys, columns, size)) for columns in (depth, width))
        memory.take(memory.bytes - keys)
        return cls(schedule, memory, queries, keys, values)

    @property
    def stage(self) -> int:
        """Bytes from the first keys and values to the second."""
        return (self.memory.bytes - self.keys) // 2

    def blocks(self, queries: int) -> int:
        """Blocks for each head."""
        return -(-queries // self.schedule.rows)


@dataclass(frozen=True)
class Forward:
    """Emits one kernel."""

    block: TileBlock
    layout: SharedLayout
    output: AttentionOperand
    sums: AttentionOperand | None = None

    def emit(self) -> None:
        """What one thread does."""
        block, problem, schedule = self.block, self.block.problem, self.layout.schedule
        position, keys = block.position, self._keys
        # With causal masks the last queries have most to do, so that they are begun first.
        first = numbers.multiply(numbers.subtract(position.parts - 1, position.part), schedule.rows)
        head = split_head(position.head, problem.heads)
        own_row = block.own_row()
        span = KeySpan(position.lane, numbers.add(first, own_row), schedule.strips)
        queries = block.tile(self.layout.queries, schedule.rows, problem.depth)
        walk = keys.walk(first, head)
        block.loader(problem.query.matrix(head)).copy(queries, first, problem.queries)
        walk.begin()
        step = self._step(keys, span, queries, own_row, head)
        softmax, results = keys.run(walk, first, step)
        inverses, found = softmax.finish(step.mask.exponent)
        if self.sums is not None:
            write_sums(found, span, head, self.sums)
        if schedule.queries != REGISTERS:
            walk.end()
        if problem.width != problem.depth:
            barrier.sync()  # rows of other warps are in this warp's rows of results
        stage = block.tile(self.layout.queries, schedule.rows, problem.width)
        write_tile(scaled(results, inverses), span, stage, own_row, self.output.matrix(head))

    @property
    def _keys(self) -> SeenKeys:
        layout = self.layout
        places = layout.keys, layout.values
        return SeenKeys(self.block, layout.schedule.rows, layout.schedule.keys, places, layout.stage)

    def _step(
        self, keys: SeenKeys, span: KeySpan, queries: MatrixTile, own_row: Number, head: Sequence[ir.Value]
    ) -> TileStep:
        problem, schedule = self.block.problem, self.layout.schedule
        left = self.block.left(queries, own_row)
        if schedule.queries == REGISTERS:
            cp_async.wait_all()
            barrier.sync()
            left = kept(left, queries.steps)
        mask = Mask(problem, problem.mask and problem.mask.matrix(head), span)
        steps = [tile.steps for tile in keys.tiles]
        return TileStep(mask, left, *keys.right(span.lane), *steps, schedule.keys // 16)


@dataclass(frozen=True)
class TileStep(SoftmaxStep):
    """Weights, and their product with the values added to the results."""

    @property
    def sum_steps(self) -> int:
        return self.width_steps

    def emit(
        self, softmax: RunningSoftmax, sums: Sums, first: Number, stage: ir.Value, hides: bool
    ) -> tuple[RunningSoftmax, Sums]:
        element = self.mask.problem.element
        keys, values = self.keys.at(stage), self.values.at(stage)
        softmax, weights, shares = softmax.step(self.scores(keys, first, hides), self.mask.exponent)
        left = as_left(weights, element)
        return softmax, add_product(scaled(sums, shares), left, values.as_rows, self.pairs, element)
