"""What windows see of rows: a view."""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.passes.loops.lower_to_linalg.rules import Lowering, lowers
from blu.passes.loops.lower_to_linalg.shape import nothing


@lowers("row_windows")
def lower_row_windows(op: Lowering) -> ir.Value:
    """The op stays; bufferization reads its operand's memory with other strides."""
    (operand,) = op.operands
    if op.result.size == 0:
        return nothing(op)
    type_ = ir.RankedTensorType.get(list(op.result.shape), ir.RankedTensorType(operand.type).element_type)
    attributes = {name: op.operation.attributes[name] for name in ("sizes", "steps", "start")}
    return ir.Operation.create("blu.row_windows", results=[type_], operands=[operand], attributes=attributes).results[0]
