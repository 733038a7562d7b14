"""Who writes the kernels of each family for processors, and what memory they work in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.attention import attention, gradient
from blu.passes.cpu.gemm import gemm
from blu.passes.cpu.others import ordering, scan, selection, update
from blu.passes.cpu.rows import rows
from blu.passes.framework import families


@dataclass(frozen=True)
class Emitter:
    """`emit` replaces a kernel by one of the same name, or by those that it returns, which run in order.

    `scratch` tells the types of the memory that they work in, from the kernel on tensors.
    """

    emit: Callable[[func.FuncOp, CpuTarget], list[func.FuncOp] | None]
    scratch: Callable[[func.FuncOp], list[ir.MemRefType]] | None = None


EMITTERS: dict[str, Emitter] = {
    families.GEMM.name: Emitter(gemm.emit),
    families.ROWS.name: Emitter(rows.emit),
    # Vectorised where the row emitter can (sums over rows, for one); it hands the rest to loops.emit.
    families.LOOPS.name: Emitter(rows.emit),
    families.ATTENTION.name: Emitter(attention.emit),
    families.ATTENTION_GRADIENT.name: Emitter(gradient.emit),
    families.ARGSORT.name: Emitter(ordering.emit, ordering.reserve),
    families.ARG_TOP_K.name: Emitter(selection.emit, selection.reserve),
    families.SCAN.name: Emitter(scan.emit, scan.reserve),
    families.UPDATE.name: Emitter(update.emit_slice),
    families.SCATTER_ADD.name: Emitter(update.emit_scatter_add, update.reserve),
}
