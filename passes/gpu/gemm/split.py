"""Products whose k is split among blocks: partial sums in scratch memory, and the kernel that adds them in order.

Where nothing is fused to a product, split_products.py makes the partial sums its result, and leaves adding to others.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from blu.dialects.core.mlir import arith, func, ir, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.output import align, choose_lanes, epilogue_sink
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.gemm.schedule import parts_of, schedule_of
from blu.passes.gpu.kernel import GpuKernel, when
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import Contraction, Point, read_contraction
from blu.passes.kernels.epilogue import Epilogue
from blu.passes.kernels.schedules import refused

PART = -1
"""The key of a point that holds the number of its part of k."""
THREADS = 256
Read = Callable[[GpuKernel], tuple[Product, Epilogue]]
"""Gives the product and what follows it of an opened kernel."""


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The scratch memory of a kernel: f32 [parts, *outer, rows, columns], where its schedule splits k."""
    split = parts_of(schedule_of(kernel))
    return [] if split == 1 or gives_parts(kernel) else [parts_type(contraction_of(kernel), split)]


def contraction_of(kernel: func.FuncOp) -> Contraction:
    """What a kernel contracts: sizes and roles of its dims, of tensors, whatever memory they are in."""
    operation = next((op.operation for op in kernel.body.blocks[0] if op.operation.name == "linalg.contract"), None)
    if operation is None:
        raise refused(kernel, f"kernel '{kernel.name.value}' of a matrix product has no linalg.contract")
    return read_contraction(operation, {value: value for value in operation.operands})


def gives_parts(kernel: func.FuncOp) -> bool:
    """Whether the parts of a kernel's sums are its result: another kernel adds them."""
    return any(op.operation.name == "plan.parts" for op in kernel.body.blocks[0])


def parts_type(contraction: Contraction, split: int) -> ir.MemRefType:
    """The memory of the parts of a contraction whose k is split."""
    dims = (*contraction.outer, contraction.rows, contraction.columns)
    return ir.MemRefType.get([split, *(contraction.size(dim) for dim in dims)], ir.F32Type.get())


def scratch_of(frame: GpuKernel) -> ir.Value:
    """The buffer of partial sums: scratch memory, or the result."""
    (buffer,) = frame.scratch or [memory for _, memory in frame.outputs]
    return buffer


def choose_part_lanes(product: Product) -> int:
    """Partial sums are written four at a time, where rows begin at multiples of 16 bytes."""
    return 4 if product.columns % 4 == 0 else 1


def partial_sink(product: Product, buffer: ir.Value) -> Callable[[list[ir.Value], list[Point], int], None]:
    """Writes sums as they are."""

    def sink(totals: list[ir.Value], points: list[Point], lanes: int) -> None:
        for total, point in zip(totals, points, strict=True):
            align(vector.store(total, buffer, _place(product, point, point[PART])).operation)

    return sink


def _place(product: Product, point: Point, part: ir.Value) -> list[ir.Value]:
    contraction = product.contraction
    dims = (*contraction.outer, contraction.rows, contraction.columns)
    return [part, *(vectors.index(0) if dim is None else point[dim] for dim in dims)]


def finish(frame: GpuKernel, read: Read, split: int) -> list[func.FuncOp]:
    """The replacements of a kernel: its own, and that of the sums of parts which it does not give as its result."""
    kernel = frame.function
    if split == 1 or gives_parts(kernel):
        return frame.finish()
    final = GpuKernel.open(kernel, name=f"{kernel.name.value}_sum")
    emit_sum(final, *read(final), split)
    return [*frame.finish(), final.replacement]


def emit_sum(frame: GpuKernel, product: Product, epilogue: Epilogue, split: int) -> None:
    """Each thread adds the partial sums of a few neighbours, part by part, and runs the fused operations."""
    buffer = scratch_of(frame)
    lanes = choose_lanes(epilogue, [operand for _, operand in epilogue.outputs])
    while product.columns % lanes:
        lanes //= 2
    wide = product.columns // lanes
    pieces = product.outer * product.rows * wide
    location = product.contraction.operation.location
    with location, frame.launch((ceil(pieces / THREADS),), THREADS) as here:
        number = numbers.add(
            numbers.multiply(numbers.as_number(here.block[0]), THREADS), numbers.as_number(here.thread)
        )
        with when(numbers.is_below(number, pieces)):
            point = _point_of(product, number, wide, lanes)
            type_ = vectors.vector_type(lanes, numbers.f32())
            parts = []
            for part in range(split):
                parts.append(vector.load(type_, buffer, _place(product, point, vectors.index(part))))
                align(parts[-1].owner)
            total = parts[0]
            for part in parts[1:]:
                total = arith.addf(total, part)
            epilogue_sink(epilogue)([total], [point], lanes)


def _point_of(product: Product, number: ir.Value, wide: int, lanes: int) -> Point:
    """Where the piece of that number begins: pieces of a row change fastest."""
    contraction, index = product.contraction, ir.IndexType.get()
    sizes = {dim: contraction.size(dim) for dim in contraction.outer}
    rest, piece = numbers.divide(number, wide), numbers.remainder(number, wide)
    place: dict[int | None, ir.Value] = {contraction.columns: numbers.multiply(piece, lanes)}
    rest, place[contraction.rows] = numbers.divide(rest, product.rows), numbers.remainder(rest, product.rows)
    for dim in reversed(contraction.outer):
        rest, place[dim] = numbers.divide(rest, sizes[dim]), numbers.remainder(rest, sizes[dim])
    for dim in (*contraction.outer_depth, contraction.depth):
        place[dim] = numbers.number(0)
    return {dim: arith.index_castui(index, value) for dim, value in place.items() if dim is not None}
