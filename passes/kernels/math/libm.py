"""f64 functions as calls of the C library, one per element. On x86-64 its functions are good to about 1 ULP, and vector
code of ours would not be much faster at that precision.
"""

from __future__ import annotations

import itertools

from blu.dialects.core.mlir import ir, vector


def call(name: str, operands: list[ir.Value]) -> ir.Value:
    """`name` of one or two f64 values or, element by element, of vectors; declares the C function where missing."""
    _declare(name, len(operands))
    type_ = operands[0].type
    if not isinstance(type_, ir.VectorType):
        return _call_scalar(name, operands)
    results = []
    for position in itertools.product(*(range(extent) for extent in type_.shape)):
        results.append(_call_scalar(name, [vector.extract(operand, [], list(position)) for operand in operands]))
    return vector.from_elements(type_, results)


def _call_scalar(name: str, operands: list[ir.Value]) -> ir.Value:
    callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
    return ir.Operation.create("func.call", results=[operands[0].type], operands=operands, attributes=callee).result


def _declare(name: str, arguments: int) -> None:
    """`func.func private @name(f64, ...) -> f64` in the enclosing module, once. It has no side effects (errno is not
    one of ours), so LLVM may move and merge its calls.
    """
    module = ir.InsertionPoint.current.block.owner.operation
    while module.name != "builtin.module":
        module = module.parent.operation
    body = module.regions[0].blocks[0]
    if any("sym_name" in op.attributes and op.attributes["sym_name"].value == name for op in body.operations):
        return
    f64 = ir.F64Type.get()
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get([f64] * arguments, [f64])),
        "llvm.readnone": ir.UnitAttr.get(),
    }
    with ir.InsertionPoint.at_block_begin(body), ir.Location.unknown():
        ir.Operation.create("func.func", attributes=attributes, regions=1)
