"""How values lie in memory between forward pass and gradient: in how many bytes, and which of them are others seen."""

from __future__ import annotations

from blu.dialects.core.dtypes import DType
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of, value_type

# Ops whose result is their operand in another order, or a part of it.
_REORDERINGS = ("blu.reshape", "blu.transpose", "blu.slice", "blu.barrier")


def stored_dtype(value: ir.Value) -> DType:
    """The dtype that a value lies in memory as: that which it has been rounded to, if any."""
    while not isinstance(value.owner, ir.Block):
        operation = value.owner.operation
        if operation.name == "blu.reduce_precision":
            return attributes_of(operation)["dtype"]
        if operation.name not in _REORDERINGS and not _widens(operation):
            break
        value = operation.operands[0]
    return value_type(value).dtype


def stored_bytes(value: ir.Value) -> int:
    """The bytes that a value takes in memory."""
    return value_type(value).size * stored_dtype(value).bytes


def is_reordering(operation: ir.Operation) -> bool:
    """Whether an op's result is its operand in another order, or a part of it."""
    return operation.name in _REORDERINGS


def is_view(operation: ir.Operation) -> bool:
    """Whether an op's result is its operand seen otherwise, and as good to keep: in another order, a part, or wider."""
    if is_reordering(operation) or _widens(operation):
        return True
    rounds = operation.name in ("blu.convert", "blu.reduce_precision")
    return rounds and attributes_of(operation)["dtype"] == stored_dtype(operation.operands[0])


def _widens(operation: ir.Operation) -> bool:
    if operation.name != "blu.convert":
        return False
    source, target = value_type(operation.operands[0]).dtype, value_type(operation.results[0]).dtype
    return source.is_float and target.is_float and source.bits < target.bits
