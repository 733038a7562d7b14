"""Attention on a GPU by tensor cores: a block has some rows of queries, and walks over tiles of keys.

Each warp has 16 or 32 rows of queries: scores, weights and results stay in its registers, and weights are the left
factor of their product with values as they are. Tiles of keys and values come to shared memory while the tile before is
worked on. Tiles that no query of the block sees are not read; tiles that all of them see are not masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.attention import decode as attention_decode
from blu.passes.gpu.attention.fragments import Fragments, RightFragments
from blu.passes.gpu.attention.operands import AttentionOperand, Problem, operand_of, read_problem, split_head
from blu.passes.gpu.attention.output import write_tile
from blu.passes.gpu.attention.schedule import REGISTERS, WARPS, FewQueriesSchedule, TilesSchedule, schedule_of
from blu.passes.gpu.attention.scores import (
    STRIP,
    KeySpan,
    LeftLoads,
    Mask,
    RunningSoftmax,
    Sums,
    add_product,
    as_left,
    flatten,
    kept,
    scaled,
    unflatten,
    zeros,
)
from blu.passes.gpu.attention.tiles import MatrixLoader, MatrixTile, tile_bytes
from blu.passes.gpu.attention.walk import Advance, TileWalk, tiles_of
from blu.passes.gpu.isa import barrier, cp_async
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.updates import find_operation

LARGEST_ROW = 256
"""Columns of queries and values of 16 bits, up to which a warp's results fit in registers."""

LARGEST_WIDE_ROW = 128
"""The same for f32, whose tiles take twice the shared memory."""


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel around a blu.attention, as its schedule says."""
    schedule = schedule_of(kernel)
    if isinstance(schedule, FewQueriesSchedule):
        return attention_decode.emit(kernel, schedule)
    assert isinstance(schedule, TilesSchedule), "there is no other kind"
    operation = find_operation(kernel, "blu.attention")
    operands = operands_of(operation)
    frame = GpuKernel.open(kernel)
    query, value = (ir.RankedTensorType(item.type).shape for item in (operands[0], operands[2]))
    size = ir.RankedTensorType(operands[0].type).element_type.width // 8
    layout = SharedLayout.of(schedule, query[-1], value[-1], size)
    leave_registers(frame)
    grid = (max(1, prod(query[:-2]) * layout.blocks(query[-2])),)
    with operation.location, frame.launch(grid, WARPS * WARP, layout.memory.bytes) as here:
        if prod(query[:-1]) * value[-1]:
            problem = read_problem(operation, frame, operands)
            shared = shared_address(frame)
            Forward(problem, layout, operand_of(frame.outputs[0][1]), here, shared).emit()
    return frame.finish()


def takes(operation: ir.Operation) -> bool:
    """Whether `emit` takes a blu.attention: floats of up to 32 bits in rows that fit in registers, or few queries."""
    types = [ir.RankedTensorType(item.type) for item in operands_of(operation)[:3]]
    is_few = not isinstance(types[0].element_type, ir.F64Type) and attention_decode.suits(operation)
    return (is_few and types[0].shape[-1] <= LARGEST_ROW) or rows_fit(types[0], types[2])


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

    schedule: TilesSchedule
    memory: SharedMemory
    queries: int
    keys: int
    values: int

    @classmethod
    def of(cls, schedule: TilesSchedule, depth: int, width: int, size: int) -> SharedLayout:
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

    problem: Problem
    layout: SharedLayout
    output: AttentionOperand
    here: Thread
    shared: ir.Value

    def emit(self) -> None:
        """What one thread does."""
        problem, schedule = self.problem, self.layout.schedule
        thread, block = numbers.as_number(self.here.thread), numbers.as_number(self.here.block[0])
        lane, own_warp = numbers.remainder(thread, WARP), numbers.divide(thread, WARP)
        blocks = self.layout.blocks(problem.queries)
        # With causal masks the last queries have most to do, so that they are begun first.
        first = numbers.multiply(numbers.subtract(blocks - 1, numbers.remainder(block, blocks)), schedule.rows)
        head = split_head(numbers.divide(block, blocks), problem.heads)
        own_row = numbers.multiply(own_warp, STRIP * schedule.strips)
        span = KeySpan(lane, numbers.add(first, own_row), schedule.strips)
        queries = self._tile(self.layout.queries, schedule.rows, problem.depth)
        walk = self._walk(thread, first, head)
        MatrixLoader(problem.query.matrix(head), thread, WARPS * WARP).copy(queries, first, problem.queries)
        walk.begin()
        step = self._step(span, queries, own_row, head)
        carried = [*RunningSoftmax.begin(span).values, *flatten(zeros(span.strips, step.values_steps))]
        full = self._full_tiles(first)
        carried = walk.run(0, full, carried, self._advance(step, hides=False))
        carried = walk.run(full, walk.count, carried, self._advance(step, hides=True))
        softmax, results = step.unpack(carried)
        inverses, _ = softmax.finish(step.mask.factor)
        if schedule.queries != REGISTERS:
            walk.end()
        if problem.width != problem.depth:
            barrier.sync()  # rows of other warps are in this warp's rows of results
        stage = self._tile(self.layout.queries, schedule.rows, problem.width)
        write_tile(scaled(results, inverses), span, stage, own_row, self.output.matrix(head))

    def _tile(self, offset: int, rows: int, columns: int) -> MatrixTile:
        return MatrixTile(numbers.add(self.shared, offset), rows, columns, self.problem.size)

    @property
    def _key_tiles(self) -> tuple[MatrixTile, MatrixTile]:
        """The first tiles of keys and values."""
        rows = self.layout.schedule.keys
        keys = self._tile(self.layout.keys, rows, self.problem.depth)
        return keys, self._tile(self.layout.values, rows, self.problem.width)

    def _walk(self, thread: ir.Value, first: ir.Value, head: Sequence[ir.Value]) -> TileWalk:
        """Over the tiles of keys that any query of the block sees."""
        problem, schedule = self.problem, self.layout.schedule
        limit = problem.limit(numbers.smaller(numbers.add(first, schedule.rows - 1), problem.queries - 1))
        key_head = problem.key_head(head)
        loaders = [MatrixLoader(item.matrix(key_head), thread, WARPS * WARP) for item in (problem.key, problem.value)]

        def copy(number: Number, stage: Number) -> None:
            for loader, tile in zip(loaders, self._key_tiles, strict=True):
                loader.copy(tile.at(stage), numbers.multiply(number, schedule.keys), limit)

        return TileWalk(copy, tiles_of(limit, schedule.keys), self.layout.stage)

    def _full_tiles(self, first: ir.Value) -> Number:
        """How many tiles of keys all queries of the block see whole."""
        seen = self.problem.limit(first)
        keys = self.layout.schedule.keys
        return seen // keys if isinstance(seen, int) else numbers.divide(seen, keys)

    def _step(self, span: KeySpan, queries: MatrixTile, own_row: ir.Value, head: Sequence[ir.Value]) -> TileStep:
        problem, schedule = self.problem, self.layout.schedule
        fragments = Fragments(queries, span.lane)
        left = [fragments.left(numbers.add(own_row, STRIP * strip)).load for strip in range(span.strips)]
        if schedule.queries == REGISTERS:
            cp_async.wait_all()
            barrier.sync()
            left = kept(left, queries.steps)
        mask = Mask(problem, problem.mask and problem.mask.matrix(head), span)
        keys, values = self._key_tiles
        right = [Fragments(tile, span.lane).right() for tile in (keys, values)]
        return TileStep(problem, mask, left, right[0], right[1], queries.steps, values.steps, schedule.keys // 16)

    def _advance(self, step: TileStep, hides: bool) -> Advance:
        keys = self.layout.schedule.keys

        def advance(carried: list[ir.Value], place: ir.Value, stage: ir.Value) -> list[ir.Value]:
            softmax, results = step.emit(*step.unpack(carried), numbers.multiply(place, keys), stage, hides)
            return [*softmax.values, *flatten(results)]

        return advance


@dataclass(frozen=True)
class TileStep:
    """What a warp does with one tile of keys and values."""

    problem: Problem
    mask: Mask
    left: LeftLoads
    keys: RightFragments
    values: RightFragments
    key_steps: int
    values_steps: int
    pairs: int

    def unpack(self, carried: list[ir.Value]) -> tuple[RunningSoftmax, Sums]:
        """The softmax and the results from what a loop carries."""
        count = 2 * len(self.mask.span.rows)
        results = unflatten(carried[count:], len(self.left), self.values_steps)
        return RunningSoftmax.of_values(carried[:count]), results

    def emit(
        self, softmax: RunningSoftmax, results: Sums, first: Number, stage: ir.Value, hides: bool
    ) -> tuple[RunningSoftmax, Sums]:
        """Scores, weights, and their product with the values added to the results."""
        element = self.problem.element
        keys, values = self.keys.at(stage), self.values.at(stage)
        scores = add_product(zeros(len(self.left), self.pairs), self.left, keys.as_columns, self.key_steps, element)
        scores = self.mask.finish(scores, first, hides)
        softmax, weights, shares = softmax.step(scores, self.mask.factor)
        left = as_left(weights, element)
        return softmax, add_product(scaled(results, shares), left, values.as_rows, self.pairs, element)
