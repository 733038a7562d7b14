"""Who writes the kernels of each family for processors, and what memory they work in."""

from __future__ import annotations

from blu.dialects.core.mlir import func
from blu.passes.framework import families
from blu.passes.kernels.emitters import Emitter as AnyEmitter
from blu.passes.kernels.emitters import Emitters

Emitter = AnyEmitter[list[func.FuncOp] | None]


def _gemm() -> Emitter:
    from blu.passes.cpu.gemm import choice, gemm

    return Emitter(gemm.emit, scheduler=choice.SCHEDULER)


def _rows() -> Emitter:
    from blu.passes.cpu.rows import choice, rows

    return Emitter(rows.emit, scheduler=choice.SCHEDULER)


def _attention() -> Emitter:
    from blu.passes.cpu.attention import attention, choice

    return Emitter(attention.emit, scheduler=choice.SCHEDULER)


def _attention_gradient() -> Emitter:
    from blu.passes.cpu.attention import choice, gradient

    return Emitter(gradient.emit, scheduler=choice.GRADIENT_SCHEDULER)


def _argsort() -> Emitter:
    from blu.passes.cpu.others import choice, sorting

    return Emitter(sorting.emit, sorting.reserve, choice.SORT_SCHEDULER)


def _arg_top_k() -> Emitter:
    from blu.passes.cpu.others import arg_top_k, choice

    return Emitter(arg_top_k.emit, arg_top_k.reserve, choice.SELECTION_SCHEDULER)


def _scan() -> Emitter:
    from blu.passes.cpu.others import choice, scan

    return Emitter(scan.emit, scan.reserve, choice.SCAN_SCHEDULER)


def _update() -> Emitter:
    from blu.passes.cpu.others import update

    return Emitter(update.emit)


def _scatter_add() -> Emitter:
    from blu.passes.cpu.others import scatter_add

    return Emitter(scatter_add.emit, scatter_add.reserve)


EMITTERS = Emitters(
    {
        families.GEMM.name: _gemm,
        families.ROWS.name: _rows,
        families.LOOPS.name: _rows,  # vectorised where the row emitter can; it hands the rest to loops.emit
        families.ATTENTION.name: _attention,
        families.ATTENTION_GRADIENT.name: _attention_gradient,
        families.ARGSORT.name: _argsort,
        families.ARG_TOP_K.name: _arg_top_k,
        families.SCAN.name: _scan,
        families.UPDATE.name: _update,
        families.SCATTER_ADD.name: _scatter_add,
    }
)
