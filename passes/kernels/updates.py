"""Parts of kernels that change a part of a buffer in place: where it is, and what is added to it."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import arith, func, ir, memref
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


def is_half(element: ir.Type) -> bool:
    """Whether elements are computed with in f32 and only stored in 16 bits."""
    return isinstance(element, ir.F16Type | ir.BF16Type)


def widened(value: ir.Value) -> ir.Value:
    """Halves (a scalar or a vector) as f32; anything else as it is."""
    if not is_half(_element(value.type)):
        return value
    return arith.extf(_like(value, ir.F32Type.get()), value)


def rounded(value: ir.Value, element: ir.Type) -> ir.Value:
    """A sum (a scalar or a vector) as elements of memory."""
    return value if _element(value.type) == element else arith.truncf(_like(value, element), value)


def add_terms(total: ir.Value, term: ir.Value) -> ir.Value:
    """The sum of scalars or vectors. Halves are added in f32, so that they may be rounded once."""
    total, term = widened(total), widened(term)
    return arith.addi(total, term) if isinstance(_element(term.type), ir.IntegerType) else arith.addf(total, term)


def _element(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def _like(value: ir.Value, element: ir.Type) -> ir.Type:
    return vectors.vector_type(value.type.shape[0], element) if vectors.is_vector(value) else element
