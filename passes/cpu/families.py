"""Who writes the kernels of each family for processors, and what memory they work in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.attention import attention, gradient
from blu.passes.cpu.attention import choice as attention_choice
from blu.passes.cpu.gemm import choice as gemm_choice
from blu.passes.cpu.gemm import gemm
from blu.passes.cpu.others import arg_top_k, choice, scan, scatter_add, sorting, update
from blu.passes.cpu.rows import choice as row_choice
from blu.passes.cpu.rows import rows
from blu.passes.framework import families
from blu.passes.kernels.schedules import Scheduler


@dataclass(frozen=True)
class Emitter:
    """`emit` replaces a kernel by one of the same name, or by those that it returns, which run in order.

    `scratch` tells the types of the memory that they work in, from the kernel on tensors. `scheduler` chooses how a
    kernel goes about its work, which the others read; families without one have no choice.
    """

    emit: Callable[[func.FuncOp, CpuTarget], list[func.FuncOp] | None]
    scratch: Callable[[func.FuncOp], list[ir.MemRefType]] | None = None
    scheduler: Scheduler | None = None


EMITTERS: dict[str, Emitter] = {
    families.GEMM.name: Emitter(gemm.emit, scheduler=gemm_choice.SCHEDULER),
    families.ROWS.name: Emitter(rows.emit, scheduler=row_choice.SCHEDULER),
    # Vectorised where the row emitter can (sums over rows, for one); it hands the rest to loops.emit.
    families.LOOPS.name: Emitter(rows.emit, scheduler=row_choice.SCHEDULER),
    families.ATTENTION.name: Emitter(attention.emit, scheduler=attention_choice.SCHEDULER),
    families.ATTENTION_GRADIENT.name: Emitter(gradient.emit, scheduler=attention_choice.GRADIENT_SCHEDULER),
    families.ARGSORT.name: Emitter(sorting.emit, sorting.reserve, choice.SORT_SCHEDULER),
    families.ARG_TOP_K.name: Emitter(arg_top_k.emit, arg_top_k.reserve, choice.SELECTION_SCHEDULER),
    families.SCAN.name: Emitter(scan.emit, scan.reserve, choice.SCAN_SCHEDULER),
    families.UPDATE.name: Emitter(update.emit),
    families.SCATTER_ADD.name: Emitter(scatter_add.emit, scatter_add.reserve),
}

SCHEDULERS = {name: emitter.scheduler for name, emitter in EMITTERS.items() if emitter.scheduler is not None}
