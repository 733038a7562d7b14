"""Who writes the kernels of each family for GPUs, and what their launches hand on to each other."""

from __future__ import annotations

from blu.dialects.core.mlir import func
from blu.passes.framework import families
from blu.passes.gpu.attention import attention, gradient
from blu.passes.gpu.attention import choice as attention_choice
from blu.passes.gpu.gemm import gemm, scheduling, split
from blu.passes.gpu.others import choice, scan, scatter_add, settle_rows, sort_choice, sorting, update
from blu.passes.gpu.rows import rows, sums
from blu.passes.gpu.rows import scheduling as row_scheduling
from blu.passes.kernels.emitters import Emitter as AnyEmitter

Emitter = AnyEmitter[list[func.FuncOp]]

EMITTERS: dict[str, Emitter] = {
    families.GEMM.name: Emitter(gemm.emit, split.reserve, scheduling.SCHEDULER),
    families.ROWS.name: Emitter(sums.emit, row_scheduling.reserve, row_scheduling.SCHEDULER),
    families.LOOPS.name: Emitter(rows.emit, row_scheduling.reserve, row_scheduling.SCHEDULER),
    families.ATTENTION.name: Emitter(attention.emit, attention.reserve, attention_choice.SCHEDULER),
    families.ATTENTION_PIECE.name: Emitter(attention.emit, attention.reserve, attention_choice.PIECE_SCHEDULER),
    families.ATTENTION_GRADIENT.name: Emitter(gradient.emit, gradient.reserve, attention_choice.GRADIENT_SCHEDULER),
    families.ARGSORT.name: Emitter(sorting.emit, sorting.reserve, sort_choice.MERGE_SCHEDULER),
    families.ARG_TOP_K.name: Emitter(sorting.emit, sorting.reserve, sort_choice.MERGE_SCHEDULER),
    families.SCAN.name: Emitter(scan.emit, scan.reserve, choice.SCAN_SCHEDULER),
    families.UPDATE.name: Emitter(update.emit),
    families.SETTLE_ROWS.name: Emitter(settle_rows.emit),
    families.SCATTER_ADD.name: Emitter(scatter_add.emit, scatter_add.reserve, choice.SCATTER_SCHEDULER),
}
