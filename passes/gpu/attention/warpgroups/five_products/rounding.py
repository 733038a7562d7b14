"""The launch after: queries' gradients, rounded, of the sums that blocks have left as their threads held them."""

from __future__ import annotations

from math import prod

from blu.dialects.core.mlir import arith, func, ir, llvm, vector
from blu.dialects.core.op import operands_of
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import COPY_BYTES, further, operand_of, pointer, split_head
from blu.passes.gpu.attention.output import write_tile
from blu.passes.gpu.attention.row_sums.ranges import add_up_warps, write_warp_sums
from blu.passes.gpu.attention.scores import STRIP, KeySpan, map_sums
from blu.passes.gpu.attention.slopes import Gradient
from blu.passes.gpu.attention.tiles import MatrixTile, tile_bytes
from blu.passes.gpu.attention.warpgroups.five_products.layout import SIZE, SUMS, tiles_of
from blu.passes.gpu.attention.warpgroups.panels import as_sums
from blu.passes.gpu.attention.warpgroups.stages import ROWS, THREADS
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.shared import shared_address
from blu.passes.kernels.updates import find_operation


def emit(kernel: func.FuncOp) -> func.FuncOp:
    """The launch: a block rounds a tile."""
    operation = find_operation(kernel, "blu.attention_gradient")
    frame = GpuKernel.open(kernel, name=f"{kernel.name.value}_rounding")
    shape = ir.RankedTensorType(operands_of(operation)[1].type).shape
    parts, num_bytes = tiles_of(shape[-2]), tile_bytes(ROWS, shape[-1], SIZE)
    with operation.location, frame.launch((prod(shape[:-2]) * parts,), THREADS, num_bytes) as here:
        gradient, position = Gradient.read(operation, frame), RowPosition.of(here, parts)
        problem, head = gradient.problem, split_head(position.head, gradient.problem.heads)
        first = numbers.multiply(position.part, ROWS)
        own_row = numbers.multiply(position.own_warp, STRIP)
        base = operand_of(frame.scratch[SUMS]).matrix([position.head]).address(position.part, 0)
        base = further(base, position.thread, COPY_BYTES)
        values = [_load(further(base, number, THREADS * COPY_BYTES)) for number in range(problem.depth // 8)]
        sums = as_sums([value for four in values for value in four])
        last = numbers.smaller(numbers.number(numbers.add(first, ROWS - 1)), problem.queries - 1)
        is_seen = numbers.is_below(0, problem.limit(last))
        factor, zero = numbers.real(problem.factor), numbers.real(0)
        rows = map_sums(sums, lambda value, *_: arith.select(is_seen, arith.mulf(value, factor), zero))
        stage = MatrixTile(shared_address(frame), ROWS, problem.depth, SIZE)
        span = KeySpan(position.lane, numbers.number(numbers.add(first, own_row)), 1)
        write_tile(rows, span, stage, own_row, gradient.of_query.matrix(head))
        if (target := gradient.sums.get(0)) is not None:
            own = numbers.add(stage.address, numbers.multiply(own_row, stage.pitch))
            write_warp_sums(rows, position.lane, own, gradient.of_query.element)
            barrier.sync()
            add_up_warps(stage, target.matrix(head), position.part, position.thread)
    return frame.replacement


def _load(address: ir.Value) -> list[ir.Value]:
    loaded = llvm.load(ir.VectorType.get([4], numbers.f32()), pointer(address), alignment=COPY_BYTES)
    return [vector.extract(loaded, [], [place]) for place in range(4)]
