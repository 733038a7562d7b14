"""Kernels around a blu.argsort or blu.arg_top_k of keys [rows, n] along the last dimension, as their schedule says."""

from __future__ import annotations

from blu.dialects.core.mlir import arith, func, ir, memref
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.others import merge
from blu.passes.gpu.others.radix import RadixSort
from blu.passes.gpu.others.schedule import MERGE_KINDS, RadixSchedule
from blu.passes.kernels.schedules import schedule_of


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """What launches hand on to each other, for a kernel that is still on tensors."""
    return _radix(kernel).scratch if _is_radix(kernel) else merge.reserve(kernel)


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace such a kernel."""
    if not _is_radix(kernel):
        return merge.emit(kernel, target)
    with kernel.location:
        launches = _radix(kernel).emit(kernel)
    kernel.operation.erase()
    return [frame.replacement for frame in launches]


def _is_radix(kernel: func.FuncOp) -> bool:
    return isinstance(schedule_of(kernel, MERGE_KINDS), RadixSchedule)


def _radix(kernel: func.FuncOp) -> RadixSort:
    (keys,) = operands_of(merge.find_order(kernel))
    type_ = ir.ShapedType(keys.type)
    (rows, width), element = type_.shape, ir.IntegerType(type_.element_type)

    def read(frame: GpuKernel, row: ir.Value, place: ir.Value) -> ir.Value:
        return memref.load(frame.buffers[keys], [row, _index(place)])

    def write(frame: GpuKernel, row: ir.Value, place: ir.Value, position: ir.Value) -> None:
        ((_, order),) = frame.outputs
        memref.store(arith.extui(ir.IntegerType.get_signless(64), position), order, [row, _index(place)])

    return RadixSort(rows, width, element, element.width, read, write, is_signed=True)


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)
