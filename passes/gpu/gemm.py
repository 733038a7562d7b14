"""Matrix multiplication with an elementwise epilogue, on GPUs.

A block computes a tile of the result: operands come to shared memory a step of k at a time, sums stay in registers
(gemm_mma.py), and go through shared memory to the fused operations (gemm_output.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from blu.dialects.gpu_target import GpuTarget
from blu.dialects.mlir import arith, func, ir
from blu.passes.gpu import loops, warp
from blu.passes.gpu.gemm_copy import Loader, Place
from blu.passes.gpu.gemm_fragments import Reader
from blu.passes.gpu.gemm_mma import MmaLoop, Range, WarpTile, tiles_of
from blu.passes.gpu.gemm_output import (
    Output,
    Staged,
    choose_lanes,
    choose_together,
    epilogue_sink,
    stage_fragments,
    staged_bytes,
)
from blu.passes.gpu.gemm_problem import Product, read_product
from blu.passes.gpu.gemm_schedule import GemmSchedule, choose_schedule
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.contraction import Point, read_contraction
from blu.passes.kernels.epilogue import Epilogue, read_epilogue


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace `kernel`, whose body is one linalg.contract with an elementwise epilogue; what no tile fits: by loops."""
    schedule = schedule_of(kernel, target)
    return loops.emit(kernel, target) if schedule is None else emit_with(kernel, schedule)


def schedule_of(kernel: func.FuncOp, target: GpuTarget) -> GemmSchedule | None:
    """The schedule that `emit` uses, None for plain loops."""
    operation = _contraction_of(kernel)
    buffers = {value: value.owner.operands[0] for value in operation.operands if _is_input(value)}
    if any(operand not in buffers for operand in list(operation.operands)[:2]):
        return None
    contraction = read_contraction(operation, buffers)
    if None in (contraction.rows, contraction.columns, contraction.depth):
        return None
    return choose_schedule(read_product(contraction), target)


def emit_with(kernel: func.FuncOp, schedule: GemmSchedule) -> list[func.FuncOp]:
    """The same with a given schedule."""
    frame = GpuKernel.open(kernel)
    _Gemm.read(frame, schedule).emit()
    return frame.finish()


def read(frame: GpuKernel) -> tuple[Product, Epilogue]:
    """What a kernel multiplies, and what follows."""
    contraction = read_contraction(_contraction_of(frame.function), frame.buffers)
    return read_product(contraction), read_epilogue(contraction, frame.buffers, frame.outputs)


def _contraction_of(kernel: func.FuncOp) -> ir.Operation:
    return next(op.operation for op in kernel.body.blocks[0] if op.operation.name == "linalg.contract")


def _is_input(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "bufferization.to_tensor"


@dataclass(frozen=True)
class _Block:
    """What a block computes: `outer` are the indices of its product, (row, column) begins its tile, all i32."""

    point: Point
    row: ir.Value
    column: ir.Value
    split: ir.Value


@dataclass(frozen=True)
class _Gemm:
    """One kernel while it is emitted."""

    frame: GpuKernel
    product: Product
    epilogue: Epilogue
    schedule: GemmSchedule

    @classmethod
    def read(cls, frame: GpuKernel, schedule: GemmSchedule) -> _Gemm:
        return cls(frame, *read(frame), schedule)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles down the rows and along the columns of one product."""
        return ceil(self.product.rows / self.schedule.rows), ceil(self.product.columns / self.schedule.columns)

    @property
    def steps(self) -> int:
        """Steps of k in all."""
        return self.product.runs * ceil(self.product.depth / self.schedule.depth)

    def emit(self) -> None:
        schedule, shared = self.schedule, SharedMemory()
        # Sums are staged where operands were.
        size = max(schedule.stages * schedule.stage_bytes, staged_bytes(schedule.rows, schedule.columns))
        base = shared.take(size, alignment=1024)
        down, along = self.tiles
        grid = (down * along * schedule.split * self.product.outer,)
        location = self.product.contraction.operation.location
        with location, self.frame.launch(grid, schedule.threads, shared.bytes) as here:
            thread = warp.as_number(here.thread)
            block = self._locate(here)
            address = warp.add(shared_address(self.frame), base)
            staged = Staged(address, schedule.rows, schedule.columns)
            self._compute(block, thread, staged)
            warp.wait_for_block()
            self._output(thread).write(staged, block.point, block.row, block.column)

    def _locate(self, here: Thread) -> _Block:
        """Tiles change fastest, a group of rows of them at a time, then the parts of k, then the products."""
        schedule, (down, along) = self.schedule, self.tiles
        number = warp.as_number(here.block[0])
        rest, tile = warp.divide(number, down * along), warp.remainder(number, down * along)
        rest, split = warp.divide(rest, schedule.split), warp.remainder(rest, schedule.split)
        point: dict[int, ir.Value] = {}
        for dim in reversed(self.product.contraction.outer):
            size = self.product.contraction.size(dim)
            rest, point[dim] = warp.divide(rest, size), warp.remainder(rest, size)
        group = min(schedule.group, down)
        first = warp.multiply(warp.divide(tile, group * along), group)
        inside = warp.remainder(tile, group * along)
        height: warp.Number = group if down % group == 0 else warp.smaller(group, warp.subtract(down, first))
        row = warp.add(first, arith.remui(inside, warp.number(height)))
        column = arith.divui(inside, warp.number(height))
        return _Block(point, warp.multiply(row, schedule.rows), warp.multiply(column, schedule.columns), split)

    def _range(self, block: _Block) -> Range:
        """The steps of k of a block."""
        each = ceil(self.steps / self.schedule.split)
        if self.schedule.split == 1:
            return warp.number(0), warp.number(self.steps)
        first = warp.multiply(block.split, each)
        return first, warp.smaller(warp.add(first, each), self.steps)

    def _compute(self, block: _Block, thread: ir.Value, staged: Staged) -> None:
        product, schedule = self.product, self.schedule
        outer = [block.point[dim] for dim in product.contraction.outer]
        runs = [product.contraction.size(dim) for dim in product.contraction.outer_depth]
        tiles = tiles_of(schedule, product.left.is_deep, product.right.is_deep)
        loaders, bases = [], (0, tiles[0].size)
        for factor, tile, first, base in zip(
            (product.left, product.right), tiles, (block.row, block.column), bases, strict=True
        ):
            place = Place(outer, first, thread, schedule.threads)
            loaders.append(Loader(factor, tile, place, base, runs, schedule.instruction))
        own = WarpTile.of(thread, schedule)
        readers = (
            Reader(tiles[0], True, own.row, schedule.warp_rows, own.lane, bases[0]),
            Reader(tiles[1], False, own.column, schedule.warp_columns, own.lane, bases[1]),
        )
        sums = MmaLoop(schedule, tuple(loaders), readers, staged.address).sums(self._range(block))
        stage_fragments(staged, own.row, own.column, own.lane, sums, schedule.warp_columns // 8)

    def _output(self, thread: ir.Value) -> Output:
        schedule = self.schedule
        lanes = choose_lanes(self.epilogue, [operand for _, operand in self.epilogue.outputs])
        together = choose_together(self.epilogue, lanes)
        return Output(self.product, epilogue_sink(self.epilogue), lanes, together, thread, schedule.threads)
