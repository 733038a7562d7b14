"""Pointwise kernels that read some tensors along another dimension than they write: through tiles in shared memory.

A block has a square of two dimensions, `near` (neighbours in the results) and `far` (neighbours in what is transposed).
Its threads first read the transposed tensors along `far` into shared memory, then work on the square along `near`.
"""

from __future__ import annotations

from math import ceil, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.kernel import Thread
from blu.passes.gpu.rows.bodies import GpuBodies, GuardedScope, element_bytes, from_words, to_words
from blu.passes.gpu.rows.teams import all_of, element_pointer
from blu.passes.gpu.rows.walks import as_index, split_number
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.rows.layout import Layout
from blu.passes.kernels.rows.program import RowProgram
from blu.passes.kernels.rows.scope import ROW, LanePosition, Scope
from blu.passes.kernels.rows.space import Access

THREADS = 256
LINE = 128
"""Bytes that the threads of one row of a tile read."""
SMALLEST = 16
"""Sizes of dimensions from which on tiles are worth their while."""


@dataclass(frozen=True)
class TransposedSquare:
    """A tile of `side` x `side` elements of the dimensions `near` and `far`; `sources` are read along `far`."""

    near: int
    far: int
    side: int
    sources: tuple[tuple[ir.Value, Access], ...]

    @property
    def depth(self) -> int:
        """Rows of the tile that the block's threads work on at once."""
        return THREADS // self.side

    @property
    def words(self) -> int:
        """Words of shared memory for one tile: an element each, and one more in each row against bank conflicts."""
        return self.side * (self.side + 1)

    def blocks(self, layout: Layout) -> int:
        sizes = [ceil(size / self.side) if dim in (self.near, self.far) else size for dim, size in layout.sizes.items()]
        return prod(sizes)


def find_square(program: RowProgram, layout: Layout, frame: Kernel) -> TransposedSquare | None:
    """The tile of a pointwise kernel; None if it reads nothing across."""
    near = layout.vector_dim
    if near is None or layout.sizes[near] < SMALLEST:
        return None
    found: dict[int, dict[ir.Value, Access]] = {}
    for node in program.nodes:
        for value, access in zip(node.operation.operands, node.accesses, strict=True):
            if value not in frame.buffers:
                continue
            strides = layout.strides(access, vectors.strides_of(frame.buffers[value]))
            far = [
                dim for dim, stride in strides.items() if stride == 1 and dim != near and layout.sizes[dim] >= SMALLEST
            ]
            size = element_bytes(ir.MemRefType(frame.buffers[value].type).element_type)
            if strides.get(near, 0) >= SMALLEST and far and size <= 4:
                found.setdefault(far[0], {})[value] = access
    if not found:
        return None
    far = max(found, key=lambda dim: len(found[dim]))
    sources = tuple(found[far].items())
    size = max(element_bytes(ir.MemRefType(frame.buffers[value].type).element_type) for value, _ in sources)
    return TransposedSquare(near, far, min(64, LINE // size), sources)


@dataclass
class SquareThread:
    """Emits one thread's share of a tile."""

    square: TransposedSquare
    layout: Layout
    bodies: GpuBodies
    entry: Scope
    shared: ir.Value

    def places(self, here: Thread) -> list[list[Scope]]:
        """Fill the tiles; the scopes of this thread's elements, at which the transposed tensors are known."""
        side, depth = self.square.side, self.square.depth
        with self.entry.cursor.point:
            thread = numbers.as_number(here.thread)
            across, along = numbers.divide(thread, side), numbers.remainder(thread, side)
            corner, others = self._corner(numbers.as_number(here.block[0]))
        for step in range(side // depth):
            with self.entry.cursor.point:
                row = numbers.add(across, step * depth)
                place = self._place(corner, others, row, along)
            for number, (value, access) in enumerate(self.square.sources):
                read = self.bodies.read(value, access, [self.entry, place])
                with self.entry.cursor.point:
                    (word,) = to_words(read)
                    llvm.store(word, self._slot(number, row, along), alignment=4)
        with self.entry.cursor.point:
            barrier.sync()
        stacks = []
        for step in range(side // depth):
            with self.entry.cursor.point:
                row = numbers.add(across, step * depth)
                place = self._place(corner, others, along, row)
                for number, (value, access) in enumerate(self.square.sources):
                    buffer = self.bodies.buffer(value, access)
                    word = llvm.load(numbers.i32(), self._slot(number, along, row), alignment=4)
                    place.memo[("load", buffer.flat, tuple(buffer.strides.items()))] = from_words(
                        [word], buffer.element
                    )
            stacks.append([self.entry, place])
        return stacks

    def _corner(self, block: ir.Value) -> tuple[dict[int, ir.Value], dict[int, ir.Value]]:
        """The first element of the block's tile, and its place in the other dimensions."""
        both = (self.square.far, self.square.near)
        sizes = {dim: size for dim, size in self.layout.sizes.items() if dim not in both}
        sizes |= {dim: ceil(self.layout.sizes[dim] / self.square.side) for dim in both}
        split = split_number(block, sizes)
        return {dim: numbers.multiply(split.pop(dim), self.square.side) for dim in both}, split

    def _place(self, corner: dict, others: dict, near: ir.Value, far: ir.Value) -> GuardedScope:
        """The element at (`near`, `far`) of the tile."""
        points, conditions = {}, []
        for dim, offset in ((self.square.near, near), (self.square.far, far)):
            point, size = numbers.add(corner[dim], offset), self.layout.sizes[dim]
            if size % self.square.side:
                conditions.append(numbers.is_below(point, size))
                point = arith.select(conditions[-1], point, numbers.number(0))
            points[dim] = as_index(point)
        indices = {dim: as_index(value) for dim, value in others.items()} | {self.square.far: points[self.square.far]}
        position = LanePosition(points[self.square.near], 0, 1, 1)
        bound = frozenset({*self.layout.sizes, ROW})
        return GuardedScope(bound, self.entry.cursor, indices, position, {}, all_of(conditions))

    def _slot(self, number: int, row: ir.Value, column: ir.Value) -> ir.Value:
        index = numbers.add(numbers.multiply(row, self.square.side + 1), column)
        return element_pointer(self.shared, numbers.add(index, number * self.square.words), numbers.i32())
