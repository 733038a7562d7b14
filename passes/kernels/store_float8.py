"""fp8 as bytes: the types go before kernels are taken to the LLVM dialect, which has none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import dtype_of_mlir
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import operations_in
from blu.passes.kernels.math import float8
from blu.passes.kernels.math.elements import element_type, with_element
from blu.passes.kernels.math.float8 import Float8, format_of

_CONVERSIONS = ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui")


@dataclass(frozen=True)
class Conversions:
    """How a target converts bytes of fp8 to f32 and f32 to bytes, of vectors or scalars."""

    widen: Callable[[ir.Value, Float8], ir.Value] = float8.widen
    narrow: Callable[[ir.Value, Float8], ir.Value] = float8.narrow


def store_float8_as_bytes(
    kernel: func.FuncOp, operations: Mapping[str, Sequence[ir.Operation]], conversions: Conversions
) -> bool:
    """Write a kernel's fp8 as i8, and its conversions as a target has them. Whether there was any.

    %1 = arith.extf %0 : vector<8xf8E4M3FN> to vector<8xf32>    ->    what gives that of the vector<8xi8>
    """
    if not holds_float8([kernel], operations):
        return False
    for operation in _conversions_in(operations):
        with ir.InsertionPoint(operation), operation.location:
            made = _converted(operation, conversions)
        operation.results[0].replace_all_uses_with(made)
        operation.erase()
    _retype(kernel)
    return True


def holds_float8(kernels: Iterable[func.FuncOp], operations: Mapping[str, Sequence[ir.Operation]]) -> bool:
    """Whether there is fp8 in what kernels take, or in a conversion among their operations."""
    return bool(_conversions_in(operations)) or any(
        _holds_float8(type_) for item in kernels for type_ in item.type.inputs
    )


def _conversions_in(operations: Mapping[str, Sequence[ir.Operation]]) -> list[ir.Operation]:
    return [item for name in _CONVERSIONS for item in operations.get(name, ()) if _converts_float8(item)]


def _converts_float8(operation: ir.Operation) -> bool:
    return any(_holds_float8(value.type) for value in (operation.operands[0], operation.results[0]))


def _converted(operation: ir.Operation, conversions: Conversions) -> ir.Value:
    """A conversion from or to fp8, by way of f32."""
    value, result = operation.operands[0], operation.results[0].type
    single = with_element(value.type, ir.F32Type.get())
    if source := format_of(element_type(value.type)):
        return _resized(operation.name, conversions.widen(_as_bytes(value), source), result)
    target = format_of(element_type(result))
    assert target is not None, operation
    made = conversions.narrow(_resized(operation.name, value, single), target)
    return ir.Operation.create("arith.bitcast", results=[result], operands=[made]).result


def _resized(name: str, value: ir.Value, type_: ir.Type) -> ir.Value:
    """A number in another type: between floats as their sizes say, else by the operation of that name."""
    if value.type == type_:
        return value
    before, after = element_type(value.type), element_type(type_)
    if isinstance(before, ir.FloatType) and isinstance(after, ir.FloatType):
        name = "arith.extf" if after.width > before.width else "arith.truncf"
    return ir.Operation.create(name, results=[type_], operands=[value]).result


def _as_bytes(value: ir.Value) -> ir.Value:
    return ir.Operation.create("arith.bitcast", results=[_without_float8(value.type)], operands=[value]).result


def _retype(kernel: func.FuncOp) -> None:
    """Let all values that hold fp8 hold bytes, and drop what only says that bytes are fp8."""
    for argument in kernel.arguments:
        argument.set_type(_without_float8(argument.type))
    inputs = [argument.type for argument in kernel.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kernel.type.results))
    for operation in operations_in(kernel.operation):
        taken = (value for region in operation.regions for block in region for value in block.arguments)
        found = [value for value in (*operation.results, *taken) if _holds_float8(value.type)]
        for value in found:
            value.set_type(_without_float8(value.type))
        if found and operation.name == "arith.constant":
            operation.attributes["value"] = _bytes_of(operation.attributes["value"], found[0].type)
        if operation.name == "arith.bitcast" and operation.operands[0].type == operation.results[0].type:
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()


def _bytes_of(attribute: ir.Attribute, type_: ir.Type) -> ir.Attribute:
    """The constant as bytes: a number, or the same one in all elements."""
    is_vector = isinstance(type_, ir.VectorType)
    number = ir.FloatAttr(ir.DenseElementsAttr(attribute).get_splat_value() if is_vector else attribute)
    byte = int(np.array(number.value).astype(dtype_of_mlir(number.type).numpy).view(np.int8))
    single = ir.IntegerAttr.get(element_type(type_), byte)
    return ir.DenseElementsAttr.get_splat(type_, single) if is_vector else single


def _holds_float8(type_: ir.Type) -> bool:
    return format_of(type_.element_type if isinstance(type_, ir.VectorType | ir.MemRefType) else type_) is not None


def _without_float8(type_: ir.Type) -> ir.Type:
    """The type with bytes in the place of fp8."""
    if not _holds_float8(type_):
        return type_
    byte = ir.IntegerType.get_signless(8)
    if isinstance(type_, ir.MemRefType):
        return ir.MemRefType.get(type_.shape, byte, type_.layout, type_.memory_space)
    return with_element(type_, byte)
