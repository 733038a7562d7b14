"""Opening a launch of a row kernel: its memrefs, and the places of its threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel, Thread
from blu.passes.gpu.rows.bodies import GpuBodies, GuardedScope
from blu.passes.gpu.rows.teams import Team
from blu.passes.gpu.rows.walks import RowKernel, as_index, split_number
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor
from blu.passes.kernels.rows.layout import FlatBuffer, flatten, tables
from blu.passes.kernels.rows.scope import ROW, Scope


class Launches:
    """The launches of one kernel, in order."""

    def __init__(self, kernel: func.FuncOp, target: GpuTarget):
        self.kernel = kernel
        self.target = target
        self.frames: list[GpuKernel] = []

    def open(self, suffix: str) -> GpuKernel:
        """One more launch."""
        self.frames.append(GpuKernel.open(self.kernel, name=self.kernel.name.value + suffix))
        return self.frames[-1]

    def finish(self) -> list[func.FuncOp]:
        """Erase what was read; what there is now."""
        self.kernel.operation.erase()
        return [frame.replacement for frame in self.frames]


@contextmanager
def open_launch(
    frame: GpuKernel, kernel: RowKernel, blocks: int, threads: int, bytes_: int
) -> Iterator[tuple[Thread, GpuBodies, Scope]]:
    """The code of one thread, with all memrefs bound."""
    kernel.outputs.clear()
    cut = kernel.cut
    launch = frame.launch((blocks,), threads, bytes_, cut.cluster, cut.per_processor)
    with frame.function.location, launch as here:
        cursor = Cursor(frame.replacement.body.blocks[0])
        entry = Scope(frozenset(), cursor)
        bodies = GpuBodies(kernel.program, kernel.layout, entry)
        _bind_memrefs(kernel, bodies, frame, cursor)
        yield here, bodies, entry


def row_place(kernel: RowKernel, cursor: Cursor, row: ir.Value, present: ir.Value | None) -> GuardedScope:
    """The scope of a row by its number (i32)."""
    sizes = {dim: kernel.layout.sizes[dim] for dim in kernel.layout.rows}
    with cursor.point:
        indices = {dim: as_index(value) for dim, value in split_number(row, sizes).items()}
    return GuardedScope(frozenset({*sizes, ROW}), cursor, indices, None, {}, present)


def team_of(frame: GpuKernel, cursor: Cursor, size: int, number: ir.Value) -> Team:
    """A team of the threads of one block, and a thread's place in it."""
    with cursor.point:
        return Team(size, number, shared_pointer(frame) if size > WARP else None)


def _bind_memrefs(kernel: RowKernel, bodies: GpuBodies, frame: GpuKernel, cursor: Cursor) -> None:
    """Flat views of all memrefs, at the kernel's start."""
    used = {operand for node in kernel.program.nodes for operand in node.operation.operands} | tables(kernel.program)
    with cursor.point:
        for value, memref in frame.buffers.items():
            if value in used:
                flat = FlatBuffer(flatten(memref), memref.type.element_type, {})
                bodies.inputs[value] = (flat, vectors.strides_of(memref))
        for value, memref in frame.outputs:
            steps = kernel.layout.strides(kernel.program.access_of(value), vectors.strides_of(memref))
            kernel.outputs.append((value, FlatBuffer(flatten(memref), memref.type.element_type, steps)))
