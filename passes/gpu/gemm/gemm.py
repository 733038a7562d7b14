"""Matrix multiplication with an elementwise epilogue, on GPUs.

A block computes a tile of the result: operands come to shared memory a step of k at a time, sums stay in registers
(mma.py, simt.py), and go through shared memory to the fused operations (output.py). Where k is split
among blocks, these leave their sums in scratch memory and a second kernel adds them in order (split.py).
"""

from __future__ import annotations

from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm import column_sums
from blu.passes.gpu.gemm import split as gemm_split
from blu.passes.gpu.gemm import wgmma as gemm_wgmma
from blu.passes.gpu.gemm.copy import BlockPosition, FactorLoader, FactorTile
from blu.passes.gpu.gemm.few_rows import rows as gemm_rows
from blu.passes.gpu.gemm.few_rows import strips as gemm_strips
from blu.passes.gpu.gemm.few_rows.prologue import Prologue, as_multiplied, made_factor, makes_rows, with_left
from blu.passes.gpu.gemm.output import (
    Output,
    Staged,
    choose_lanes,
    choose_together,
    epilogue_sink,
    stage_fragments,
    staged_bytes,
)
from blu.passes.gpu.gemm.pipeline import Range, StageRing
from blu.passes.gpu.gemm.problem import Product, read_product
from blu.passes.gpu.gemm.schedule import (
    FewRowsSchedule,
    LoopsSchedule,
    MmaSchedule,
    SimtSchedule,
    StripsSchedule,
    WgmmaSchedule,
    schedule_of,
)
from blu.passes.gpu.gemm.simt import Lane, SimtLoop, SimtTile, readers_of
from blu.passes.gpu.gemm.split import PART
from blu.passes.gpu.gemm.warps.fragments import Reader
from blu.passes.gpu.gemm.warps.mma import MmaLoop, WarpTile
from blu.passes.gpu.gemm.warps.repair import Repair
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.others import loops
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.contraction import Point, read_contraction
from blu.passes.kernels.epilogue import Epilogue, read_epilogue
from blu.passes.kernels.schedules import Schedule, refused

WarpSchedule = MmaSchedule | SimtSchedule


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace `kernel`, whose body is one linalg.contract with an elementwise epilogue, as its schedule says.

    PassError where it says nothing, or not yet by which kind of kernel.
    """
    schedule = schedule_of(kernel)
    if isinstance(schedule, LoopsSchedule):
        return loops.emit(kernel, target)
    sums = column_sums.emit_apart(kernel, read, schedule)
    return [*_emit_product(kernel, schedule, target), *sums]


def _emit_product(kernel: func.FuncOp, schedule: Schedule, target: GpuTarget) -> list[func.FuncOp]:
    if isinstance(schedule, FewRowsSchedule):
        frame = GpuKernel.open(kernel)
        gemm_rows.emit(frame, *read(frame), schedule, target)
        return frame.finish()
    if isinstance(schedule, StripsSchedule):
        frame = GpuKernel.open(kernel)
        gemm_strips.emit(frame, *read(frame), schedule, target, prologue_of(frame))
        return frame.finish()
    if isinstance(schedule, WgmmaSchedule):
        return gemm_wgmma.emit_with(kernel, read, schedule, target)
    if isinstance(schedule, MmaSchedule | SimtSchedule):
        return emit_with(kernel, schedule)
    message = f"the schedule of kernel '{kernel.name.value}' is of kind '{schedule.kind}', which does not say how"
    raise refused(kernel, message, "blu-fit-schedules decides, before blu-emit-gpu-kernels.")


def product_of(kernel: func.FuncOp) -> Product | None:
    """The product of a kernel that is still on tensors; None where it is none of two matrices."""
    operation = _contraction_of(kernel)
    buffers = with_left(kernel, operation, GpuKernel.read(kernel).buffers)
    if any(operand not in buffers for operand in list(operation.operands)[:2]):
        return None
    contraction = read_contraction(operation, buffers)
    if None in (contraction.rows, contraction.columns, contraction.depth):
        return None
    return as_multiplied(read_product(contraction))


def share_out(schedule: WarpSchedule) -> tuple[SharedMemory, int, int]:
    """The shared memory of a block, and where its stages and its staged sums begin."""
    shared, is_simt = SharedMemory(), isinstance(schedule, SimtSchedule)
    operands, sums = schedule.stages * schedule.stage_bytes, staged_bytes(schedule.rows, schedule.columns)
    stages = shared.take(operands if is_simt else max(operands, sums), alignment=1024)
    # Tensor cores are done with the operands when sums are staged: these lie over them.
    return shared, stages, shared.take(sums, alignment=128) if is_simt else stages


def emit_with(kernel: func.FuncOp, schedule: WarpSchedule) -> list[func.FuncOp]:
    """The same with a given schedule."""
    frame = GpuKernel.open(kernel)
    gemm = _Gemm(frame, *read(frame), schedule)
    gemm.emit()
    return gemm_split.finish(frame, read, schedule.split)


def read(frame: GpuKernel) -> tuple[Product, Epilogue]:
    """What a kernel multiplies, and what follows."""
    operation = _contraction_of(frame.function)
    contraction = read_contraction(operation, with_left(frame.function, operation, frame.buffers))
    product = as_multiplied(read_product(contraction))
    return product, read_epilogue(contraction, frame.buffers, frame.outputs)


def prologue_of(frame: GpuKernel) -> Prologue | None:
    """What makes the left factor of a kernel's product in it; None where that is in memory."""
    if not makes_rows(frame.function):
        return None
    product, _ = read(frame)
    return Prologue(product.contraction, made_factor(product.contraction.operation), frame.buffers)


def _contraction_of(kernel: func.FuncOp) -> ir.Operation:
    return next(op.operation for op in kernel.body.blocks[0] if op.operation.name == "linalg.contract")


@dataclass(frozen=True)
class _Block:
    """What a block computes: `point` has the indices of its product, (row, column) begins its tile; i32."""

    point: Point
    row: ir.Value
    column: ir.Value
    part: ir.Value


@dataclass(frozen=True)
class _Gemm:
    """One kernel while it is emitted."""

    frame: GpuKernel
    product: Product
    epilogue: Epilogue
    schedule: WarpSchedule

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles down the rows and along the columns of one product."""
        return ceil(self.product.rows / self.schedule.rows), ceil(self.product.columns / self.schedule.columns)

    @property
    def steps(self) -> int:
        """Steps of k in all."""
        return self.product.runs * ceil(self.product.depth / self.schedule.depth)

    def emit(self) -> None:
        schedule, (shared, stages, staging) = self.schedule, share_out(self.schedule)
        down, along = self.tiles
        grid = (down * along * schedule.split * self.product.outer,)
        location = self.product.contraction.operation.location
        # Else ptxas would rather spill a little than have one block fewer on a multiprocessor.
        self.frame.replacement.operation.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(numbers.i32(), 1)
        with location, self.frame.launch(grid, schedule.threads, shared.bytes) as here:
            thread = numbers.as_number(here.thread)
            block = self._locate(here)
            base = shared_address(self.frame)
            staged = Staged(numbers.add(base, staging), schedule.rows, schedule.columns)
            if isinstance(schedule, MmaSchedule):
                self._compute_mma(schedule, block, thread, numbers.add(base, stages), staged)
            else:
                self._compute_simt(schedule, block, thread, numbers.add(base, stages), staged)
            barrier.sync()
            if schedule.instruction == "3xtf32":
                repair = Repair(self.product, block.point, block.row, block.column, self._range(block), schedule.depth)
                repair.look_through(staged, thread, schedule.threads)
                barrier.sync()
            self._output(thread).write(staged, {**block.point, PART: block.part}, block.row, block.column)

    def _locate(self, here: Thread) -> _Block:
        """Tiles change fastest, a group of rows of them at a time, then the parts of k, then the products."""
        schedule, (down, along) = self.schedule, self.tiles
        number = numbers.as_number(here.block[0])
        rest, tile = numbers.divide(number, down * along), numbers.remainder(number, down * along)
        rest, part = numbers.divide(rest, schedule.split), numbers.remainder(rest, schedule.split)
        point: dict[int, ir.Value] = {}
        for dim in reversed(self.product.contraction.outer):
            size = self.product.contraction.size(dim)
            rest, point[dim] = numbers.divide(rest, size), numbers.remainder(rest, size)
        group = min(schedule.group, down)
        first = numbers.multiply(numbers.divide(tile, group * along), group)
        inside = numbers.remainder(tile, group * along)
        height: numbers.Number = group if down % group == 0 else numbers.smaller(group, numbers.subtract(down, first))
        row = numbers.add(first, arith.remui(inside, numbers.number(height)))
        column = arith.divui(inside, numbers.number(height))
        return _Block(point, numbers.multiply(row, schedule.rows), numbers.multiply(column, schedule.columns), part)

    def _range(self, block: _Block) -> Range:
        """The steps of k of a block."""
        each = ceil(self.steps / self.schedule.split)
        if self.schedule.split == 1:
            return numbers.number(0), numbers.number(self.steps)
        first = numbers.multiply(block.part, each)
        return first, numbers.smaller(numbers.add(first, each), self.steps)

    def _pipeline(
        self, block: _Block, thread: ir.Value, tiles: tuple[FactorTile, FactorTile], base: ir.Value
    ) -> StageRing:
        """What brings the operands' tiles to shared memory."""
        contraction, schedule = self.product.contraction, self.schedule
        outer = [block.point[dim] for dim in contraction.outer]
        runs = [contraction.size(dim) for dim in contraction.outer_depth]
        left = BlockPosition(outer, block.row, thread, schedule.threads)
        right = BlockPosition(outer, block.column, thread, schedule.threads)
        loaders = (
            FactorLoader(self.product.left, tiles[0], left, 0, runs, schedule.instruction),
            FactorLoader(self.product.right, tiles[1], right, tiles[0].size, runs, schedule.instruction),
        )
        return StageRing(loaders, schedule.stages, schedule.stage_bytes, base)

    def _compute_mma(
        self, schedule: MmaSchedule, block: _Block, thread: ir.Value, base: ir.Value, staged: Staged
    ) -> None:
        tiles = self._tiles(FactorTile)
        own = WarpTile.of(thread, schedule)
        readers = (
            Reader(tiles[0], True, own.row, schedule.warp_rows, own.lane, 0),
            Reader(tiles[1], False, own.column, schedule.warp_columns, own.lane, tiles[0].size),
        )
        pipeline = self._pipeline(block, thread, tiles, base)
        sums = MmaLoop(schedule, readers).sums(pipeline, self._range(block))
        stage_fragments(staged, own.row, own.column, own.lane, sums, schedule.warp_columns // 8)

    def _compute_simt(
        self, schedule: SimtSchedule, block: _Block, thread: ir.Value, base: ir.Value, staged: Staged
    ) -> None:
        tiles, lane = self._tiles(SimtTile), Lane.of(thread, schedule)
        loop = SimtLoop(schedule, readers_of(schedule, tiles, lane), staged, lane)
        pipeline = self._pipeline(block, thread, tiles, base)
        loop.sum_up(pipeline, self._range(block), self.product.depth * self.product.runs)

    def _tiles(self, kind: type[FactorTile]) -> tuple[FactorTile, FactorTile]:
        """The shapes of both operands' tiles."""
        schedule, size = self.schedule, self.schedule.element_bytes
        left, right = self.product.left, self.product.right
        return kind(schedule.rows, size, left.is_deep), kind(schedule.columns, size, right.is_deep)

    def _output(self, thread: ir.Value) -> Output:
        """What becomes of staged sums."""
        threads = self.schedule.threads
        if self.schedule.split > 1:
            sink = gemm_split.partial_sink(self.product, gemm_split.scratch_of(self.frame))
            return Output(self.product, sink, gemm_split.choose_part_lanes(self.product), 4, thread, threads)
        lanes = choose_lanes(self.epilogue, [operand for _, operand in self.epilogue.outputs])
        together = choose_together(self.epilogue, lanes)
        return Output(self.product, epilogue_sink(self.epilogue), lanes, together, thread, threads)
