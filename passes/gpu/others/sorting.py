"""Kernels around a blu.argsort or blu.arg_top_k of keys [rows, n] along the last dimension, as their schedule says."""

from __future__ import annotations

from blu.dialects.core.mlir import arith, func, ir, memref
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.others import merge
from blu.passes.gpu.others.radix import RadixSort
from blu.passes.gpu.others.schedule import MERGE_KINDS, RadixSchedule, SelectSchedule
from blu.passes.gpu.others.select import Selection
from blu.passes.kernels.schedules import schedule_of


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """What launches hand on to each other, for a kernel that is still on tensors."""
    other = _not_merged(kernel)
    return other.scratch if other else merge.reserve(kernel)


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace such a kernel."""
    other = _not_merged(kernel)
    if not other:
        return merge.emit(kernel, target)
    with kernel.location:
        launches = other.emit(kernel)
    kernel.operation.erase()
    return [frame.replacement for frame in launches]


def _not_merged(kernel: func.FuncOp) -> RadixSort | Selection | None:
    """What finds the order, or its beginning; None where runs are merged."""
    operation = merge.find_order(kernel)
    (keys,) = operands_of(operation)
    type_ = ir.ShapedType(keys.type)
    (rows, width), element = type_.shape, ir.IntegerType(type_.element_type)

    def read(frame: GpuKernel, row: ir.Value, place: ir.Value) -> ir.Value:
        return memref.load(frame.buffers[keys], [row, _index(place)])

    def write(frame: GpuKernel, row: ir.Value, place: ir.Value, position: ir.Value) -> None:
        ((_, order),) = frame.outputs
        memref.store(arith.extui(ir.IntegerType.get_signless(64), position), order, [row, _index(place)])

    schedule = schedule_of(kernel, MERGE_KINDS)
    if isinstance(schedule, RadixSchedule):
        return RadixSort(rows, width, element, element.width, read, write, is_signed=True)
    if isinstance(schedule, SelectSchedule):
        return Selection(rows, width, attributes_of(operation)["k"], element, schedule, read, write)
    return None


def _index(number: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), number)
