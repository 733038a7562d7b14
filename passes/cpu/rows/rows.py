"""The row and pointwise kernels: any group of linalg.generic ops over rows and columns, vectorised.

Bits do not depend on the target or on how blocks are spread: a reduction across lanes always uses 16 lanes times
4 accumulators (for every element type), merged in a fixed order; all other reductions run in order, sums of many rows
in chains (chains.py). A reduction of a whole tensor to a scalar is one row, hence one block.

An output may lie over an input whose elements are read where they are written, and where rows are walked over more than
once the kernel says so (`blu.written_over`); apart from that, memory of outputs must not overlap other memory.
"""

from __future__ import annotations

from functools import partial
from math import ceil, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.kernel import KernelBody, open_kernel
from blu.passes.cpu.others import loops
from blu.passes.cpu.rows.schedule import ColumnPiecesSchedule, RowBlocksSchedule, ScalarLoopsSchedule, schedule_of
from blu.passes.cpu.rows.walks import LANES, Across, Along, RowKernel
from blu.passes.framework.families import LOOPS, ROWS, mark
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor, split_index
from blu.passes.kernels.rows.layout import FlatBuffer, Layout, collapse, flatten, strides, tables
from blu.passes.kernels.rows.program import RowProgram, accepts, analyse
from blu.passes.kernels.rows.scope import ROW, Scope

__all__ = ["accepts", "analyse", "emit"]

PIECE = 8 * LANES


@dataclass(frozen=True)
class Grid:
    """`blocks` blocks of `items_per_block` items; an item is a row, or a part of one (`piece` elements; None: all)."""

    blocks: int
    items: int
    items_per_block: int
    piece: int | None

    @classmethod
    def of(cls, schedule: RowBlocksSchedule | ColumnPiecesSchedule, program: RowProgram, layout: Layout) -> Grid:
        """That of a schedule."""
        rows = prod(layout.sizes[dim] for dim in layout.rows if program.across or dim != layout.vector_dim)
        if isinstance(schedule, RowBlocksSchedule):
            return cls(max(1, ceil(rows / schedule.rows)), rows, schedule.rows, None)
        assert layout.vector_dim is not None, "pieces of a row without columns"
        items = rows * ceil(layout.sizes[layout.vector_dim] / schedule.columns)
        return cls(max(1, items), items, 1, schedule.columns)


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Replace a bufferized kernel by vectorised code, or scalar loops, as its schedule says."""
    schedule = schedule_of(kernel)
    if isinstance(schedule, ScalarLoopsSchedule):
        mark(kernel, LOOPS)
        loops.emit(kernel, schedule.blocks)
        return
    assert isinstance(schedule, RowBlocksSchedule | ColumnPiecesSchedule), "there is no other kind"
    frame = open_kernel(kernel)
    program = analyse(frame.operations, partial(strides, frame))
    assert isinstance(program, RowProgram), f"{kernel.name.value} is of another form than its schedule"
    mark(frame.replacement, ROWS)
    layout = collapse(program, frame)
    grid = Grid.of(schedule, program, layout)
    late = frame.written_over
    hosts = [value for value in _outputs_of_last_walk(frame, program) if value not in late]
    with kernel.location, frame.grid(grid.blocks) as block:
        _emit_block(RowKernel(program, layout, target, schedule.chain, late, hosts), frame, block, grid)


def _outputs_of_last_walk(frame: KernelBody, program: RowProgram) -> list[ir.Value]:
    """Outputs with columns, contiguous along the lanes, that are not complete before the last walk."""
    last = [
        value for value, _ in frame.outputs if program.is_wide(value) and program.level_of(value) == max(program.levels)
    ]
    steps = {value: dict(zip(program.access_of(value), strides(frame, value), strict=True)) for value in last}
    return [value for value in dict.fromkeys(last) if steps[value].get(program.vector_dim) == 1]


def _emit_block(kernel: RowKernel, frame: KernelBody, block: ir.Value, grid: Grid) -> None:
    """The loop over the items of one block."""
    entry, cursor = Cursor(frame.replacement.body.blocks[0]), Cursor(block.owner)
    entry.stand_before(block.owner.owner)
    kernel.open(Scope(frozenset(), entry))
    _bind_memrefs(kernel, frame, entry)
    kernel.place_kept()
    with cursor.point:
        size, items = kernel.bodies.index(grid.items_per_block), kernel.bodies.index(grid.items)
        lower = arith.muli(block, size)
        upper = arith.minui(arith.addi(lower, size), items)

    def body(inside: Cursor, item: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        _emit_item(kernel, inside, item, grid)
        return carried

    cursor.loop(lower, upper, kernel.bodies.index(1), [], body)


def _emit_item(kernel: RowKernel, cursor: Cursor, item: ir.Value, grid: Grid) -> None:
    layout, bodies = kernel.layout, kernel.bodies
    along = not kernel.program.across and layout.vector_dim is not None
    sizes = {dim: layout.sizes[dim] for dim in layout.rows if not (along and dim == layout.vector_dim)}
    piece = None
    if grid.piece is not None:
        with cursor.point:
            pieces = bodies.index(ceil(layout.sizes[layout.vector_dim] / grid.piece))
            piece, item = arith.remui(item, pieces), arith.divui(item, pieces)
    indices = split_index(cursor, item, sizes, bodies.index)
    row = Scope(frozenset({*sizes, ROW}), cursor, indices)
    if kernel.program.across:
        Across(kernel, row).emit()
    else:
        Along(kernel, row).emit(piece, grid.piece)


def _bind_memrefs(kernel: RowKernel, frame: KernelBody, entry: Cursor) -> None:
    """Flat views of all memrefs, at the function's start."""
    used = {operand for node in kernel.program.nodes for operand in node.operation.operands} | tables(kernel.program)
    with entry.point:
        for value, memref in frame.buffers.items():
            if value in used:
                flat = FlatBuffer(flatten(memref), memref.type.element_type, {})
                kernel.bodies.inputs[value] = (flat, vectors.strides_of(memref))
        for value, memref in frame.outputs:
            steps = kernel.layout.strides(kernel.program.access_of(value), vectors.strides_of(memref))
            kernel.add_output(value, FlatBuffer(flatten(memref), memref.type.element_type, steps))
