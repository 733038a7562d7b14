"""Products whose k is split among blocks: partial sums in scratch memory, and the kernel that adds them in order.

Where nothing is fused to a product, split_products.py makes the partial sums its result, and leaves adding to others.

Of a product with fewer tiles than blocks, a block for each tile may take the first part of k. What is left of all tiles
is one row of steps then, which the other blocks cut into equal ranges, wherever tiles begin: a range is the end of a
tile's k, then whole rests, then the beginning of one. So all blocks have the same work, and the rest of a tile is one
part, or two where a range ends in it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from blu.dataclass import dataclass
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
REST_PARTS = 3
"""Of k: the first, and those that the rest of a tile may be."""
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


@dataclass(frozen=True)
class SharedRest:
    """How `blocks` blocks share the k of `results` tiles, of so many `steps` each."""

    results: int
    steps: int
    blocks: int

    @property
    def first(self) -> int:
        """Steps of the first part of a tile."""
        return ceil(self.results * self.steps / self.blocks)

    @property
    def left(self) -> int:
        """Steps that are left of a tile."""
        return self.steps - self.first

    @property
    def each(self) -> int:
        """Steps of a range."""
        return ceil(self.results * self.left / (self.blocks - self.results))

    def fits(self, least: int = 1) -> bool:
        """Whether the rest of a tile, of `least` steps or more, is two parts at most."""
        return self.results < self.blocks and least <= self.left <= self.each

    def range_of(self, block: ir.Value) -> RestRange:
        """What a block has. One that has a first part has the first range, too, of which it computes nothing."""
        is_first = numbers.is_below(block, self.results)
        own = arith.select(is_first, numbers.number(0), numbers.subtract(block, self.results))
        begin = numbers.multiply(own, self.each)
        end = numbers.smaller(numbers.add(begin, self.each), self.results * self.left)
        first = numbers.add(numbers.divide(begin, self.left), self.results)
        last = numbers.add(numbers.divide(numbers.subtract(end, 1), self.left), self.results)
        return RestRange(self, begin, end, arith.select(is_first, block, first), arith.select(is_first, block, last))


@dataclass(frozen=True)
class RestRange:
    """A block's range of what is left of all tiles: steps from `begin` on, before `end`.

    Pieces have numbers: the first parts of all tiles, then the rests of all tiles, of which a block has those from
    `first` to `last`. It begins with the last one, which begins a rest: then most blocks have come equally far in k at
    a time, or in a second place, and what they read is still in the cache.
    """

    rest: SharedRest
    begin: ir.Value
    end: ir.Value
    first: ir.Value
    last: ir.Value

    def steps_of(self, turn: ir.Value) -> ir.Value:
        """How many steps of k the piece is whose turn it is, of turns from `first` to `last`."""
        piece = self._piece(turn)
        own = numbers.subtract(self._end_in(piece), self._begin_in(piece))
        return arith.select(self._is_of_first(piece), numbers.number(self.rest.first), own)

    def step_of(self, turn: ir.Value) -> ir.Value:
        """The first step of k of a piece."""
        piece = self._piece(turn)
        own = numbers.add(self._begin_in(piece), self.rest.first)
        return arith.select(self._is_of_first(piece), numbers.number(0), own)

    def part_of(self, turn: ir.Value) -> ir.Value:
        """The number of the part of k that a piece is."""
        piece = self._piece(turn)
        begins = numbers.is_equal(self._begin_in(piece), 0)
        own = arith.select(begins, numbers.number(1), numbers.number(2))
        return arith.select(self._is_of_first(piece), numbers.number(0), own)

    def tile_of(self, turn: ir.Value) -> ir.Value:
        """The number of a piece's tile."""
        return self._tile(self._piece(turn))

    def is_first(self, turn: ir.Value) -> ir.Value:
        """Whether a piece is the first part of its tile."""
        return self._is_of_first(self._piece(turn))

    def is_all_that_is_left(self, turn: ir.Value) -> ir.Value:
        """Whether a piece is the whole rest of its tile, which has no third part."""
        is_rest = numbers.is_below(self.rest.results - 1, self._piece(turn))
        return arith.andi(is_rest, numbers.is_equal(self.steps_of(turn), self.rest.left))

    def _piece(self, turn: ir.Value) -> ir.Value:
        return arith.select(numbers.is_equal(turn, self.first), self.last, numbers.subtract(turn, 1))

    def _is_of_first(self, piece: ir.Value) -> ir.Value:
        return numbers.is_below(piece, self.rest.results)

    def _tile(self, piece: ir.Value) -> ir.Value:
        return arith.select(self._is_of_first(piece), piece, numbers.subtract(piece, self.rest.results))

    def _begin_in(self, piece: ir.Value) -> ir.Value:
        """Where the range begins in the rest of a piece's tile."""
        return numbers.larger(numbers.subtract(self.begin, self._start_of(piece)), 0)

    def _end_in(self, piece: ir.Value) -> ir.Value:
        return numbers.smaller(numbers.subtract(self.end, self._start_of(piece)), self.rest.left)

    def _start_of(self, piece: ir.Value) -> ir.Value:
        return numbers.multiply(self._tile(piece), self.rest.left)
