"""What kernels need on every target before upstream's passes take them to the LLVM dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dialects.core.mlir import func, ir

_CONVERSIONS = ("arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui")


def widen_bf16_conversions(operations: Mapping[str, Sequence[ir.Operation]]) -> bool:
    """Between integers and bf16 go through f32: canonicalization merges the two steps, and processors have only one.

    %1 = arith.sitofp %0 : i32 to bf16   ->   %a = arith.sitofp %0 : i32 to f32
                                              %1 = arith.truncf %a : f32 to bf16

    Whether there was one.
    """
    conversions = [item for name in _CONVERSIONS for item in operations.get(name, ())]
    narrow = [item for item in conversions if _is_bf16(item.operands[0]) or _is_bf16(item.results[0])]
    for operation in narrow:
        with ir.InsertionPoint(operation), operation.location:
            operation.results[0].replace_all_uses_with(_converted_by_way_of_f32(operation))
        operation.erase()
    return bool(narrow)


def _is_bf16(value: ir.Value) -> bool:
    return isinstance(_element(value.type), ir.BF16Type)


def _element(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def _converted_by_way_of_f32(operation: ir.Operation) -> ir.Value:
    source, target = operation.operands[0], operation.results[0].type
    shaped = source.type if isinstance(source.type, ir.VectorType) else None
    f32 = ir.VectorType.get(shaped.shape, ir.F32Type.get()) if shaped else ir.F32Type.get()
    if _is_bf16(source):
        wide = ir.Operation.create("arith.extf", results=[f32], operands=[source]).result
        return ir.Operation.create(operation.name, results=[target], operands=[wide]).result
    wide = ir.Operation.create(operation.name, results=[f32], operands=[source]).result
    return ir.Operation.create("arith.truncf", results=[target], operands=[wide]).result


def give_empty_memrefs_strides(function: func.FuncOp) -> None:
    """MLIR computes dynamic strides for `memref<5x0xf32>`, which then has no bare-pointer form: write strides down."""
    if function.is_external:
        return
    for argument in function.arguments:
        if isinstance(argument.type, ir.MemRefType) and 0 in argument.type.shape:
            layout = ir.StridedLayoutAttr.get(0, [1] * len(argument.type.shape))
            argument.set_type(ir.MemRefType.get(argument.type.shape, argument.type.element_type, layout))
    inputs = [argument.type for argument in function.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, function.type.results))
