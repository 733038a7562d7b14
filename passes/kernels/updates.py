"""Parts of kernels that change a part of a buffer in place: where it is, and what is added to it."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.mlir import arith, func, ir, memref
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel


def find_operation(kernel: func.FuncOp, name: str) -> ir.Operation:
    """The first op of that name in a kernel."""
    return next(item.operation for item in kernel.entry_block.operations if item.operation.name == name)


def delinearize(position: ir.Value, sizes: Sequence[int]) -> list[ir.Value]:
    """The indices of a row from its number."""
    indices: list[ir.Value] = []
    for dim in reversed(range(len(sizes))):
        if dim == 0:
            indices.insert(0, position)
        else:
            size = vectors.index(sizes[dim])
            indices.insert(0, arith.remui(position, size))
            position = arith.divui(position, size)
    return indices


def run_time_starts(frame: Kernel, insertion: ir.Operation) -> list[ir.Value]:
    """Where the slice goes: constants, and run-time positions that the scalar ops before the insertion compute."""
    values: dict[ir.Value, ir.Value] = {}
    for item in frame.function.entry_block.operations:
        operation = item.operation
        if operation == insertion:
            break
        if operation.name == "tensor.extract":
            buffer = frame.buffers[operation.operands[0]]
            indices = [values[index] for index in list(operation.operands)[1:]]
            values[operation.results[0]] = memref.load(buffer, indices)
        elif operation.name.startswith("arith."):
            clone = operation.clone()
            for index, operand in enumerate(operation.operands):
                clone.operands[index] = values[operand]
            values[operation.results[0]] = clone.results[0]
    dynamic = iter(list(insertion.operands)[2:])
    is_dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    offsets = ir.DenseI64ArrayAttr(insertion.attributes["static_offsets"])
    return [values[next(dynamic)] if offset == is_dynamic else vectors.index(offset) for offset in offsets]


def wrapped(index: ir.Value, size: int) -> ir.Value:
    """An index in [0, size): negative ones count from the end, the rest are clamped (a check reports them)"""
    position = arith.index_cast(ir.IndexType.get(), index)
    wrapped = arith.select(
        arith.cmpi(arith.CmpIPredicate.slt, position, vectors.index(0)),
        arith.addi(position, vectors.index(size)),
        position,
    )
    return arith.minsi(arith.maxsi(wrapped, vectors.index(0)), vectors.index(max(size - 1, 0)))


def add_scalars(new: ir.Value, old: ir.Value) -> ir.Value:
    """The same for scalars."""
    if isinstance(new.type, ir.IntegerType):
        return arith.addi(old, new)
    if new.type.width >= 32:
        return arith.addf(old, new)
    f32 = ir.F32Type.get()
    return arith.truncf(new.type, arith.addf(arith.extf(f32, old), arith.extf(f32, new)))
